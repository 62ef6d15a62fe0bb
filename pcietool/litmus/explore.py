"""Every execution of a litmus test, depth first; states that are reached twice are looked at once.

Loops that only poll end by themselves, since they come back to a state that has been seen. Whoever stops at
`max_states` has proved nothing: `complete` says so. Must not print or judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pcietool.errors import ConfigError
from pcietool.litmus.model import Model
from pcietool.litmus.program import Item, LitmusTest
from pcietool.litmus.state import State, Step

MAX_STATES = 1_000_000
MAX_STEPS = 2_000
"""Of one execution. A litmus test that needs more counts or stores in a loop without end."""

Outcome = tuple[int, ...]
"""The final values of the question's items, in their order."""


@dataclass
class Exploration:
    test: LitmusTest
    model: Model
    states: int = 0
    complete: bool = True
    """False if `max_states` ended it."""
    outcomes: dict[Outcome, list[Step]] = field(default_factory=dict)
    """Each with one execution that leads to it: the shortest of those found."""
    hung: int = 0
    """States in which a thread waits at a barrier that nobody completes any more."""
    hang: list[Step] | None = None
    """An execution that hangs, if there is one."""

    @property
    def sought(self) -> list[Outcome]:
        """The outcomes for which the question's proposition holds."""
        items = self.test.question.items
        holds = self.test.question.proposition
        return [outcome for outcome in self.outcomes if holds(dict(zip(items, outcome, strict=True)))]


def explore(test: LitmusTest, max_states: int = MAX_STATES) -> Exploration:
    """Raises ConfigError for a program that never ends, divides by zero or misuses a barrier."""
    model = Model(test)
    found = Exploration(test, model)
    start = model.start()
    came_from: dict[State, State | None] = {start: None}
    ends: dict[Outcome, tuple[int, State]] = {}
    open_states = [(0, start)]
    while open_states:
        if len(came_from) > max_states:
            found.complete = False
            break
        depth, state = open_states.pop()
        if depth > MAX_STEPS:
            raise ConfigError(f"{test.name}: an execution has more than {MAX_STEPS:,} steps; bound its loops")
        steps = model.steps(state)
        for step in steps:
            if step.state not in came_from:
                came_from[step.state] = state
                open_states.append((depth + 1, step.state))
        if steps:
            continue
        if model.has_ended(state):
            outcome = _outcome(test.question.items, model, state)
            if outcome not in ends or depth < ends[outcome][0]:
                ends[outcome] = depth, state
        else:
            found.hung += 1
            found.hang = found.hang or _path(model, came_from, state)
    found.states = len(came_from)
    found.outcomes = {outcome: _path(model, came_from, end) for outcome, (_, end) in sorted(ends.items())}
    return found


def _outcome(items: tuple[Item, ...], model: Model, state: State) -> Outcome:
    memory = model.memory(state)
    return tuple(
        memory[item.number] if item.thread is None else state.threads[item.thread].registers[item.number]
        for item in items
    )


def _path(model: Model, came_from: dict[State, State | None], end: State) -> list[Step]:
    """The steps that lead from the start to this state. They are computed once more: only states were kept."""
    pairs = list(_backwards(came_from, end))
    return [next(step for step in model.steps(before) if step.state == after) for before, after in reversed(pairs)]


def _backwards(came_from: dict[State, State | None], state: State) -> Iterator[tuple[State, State]]:
    while (before := came_from[state]) is not None:
        yield before, state
        state = before
