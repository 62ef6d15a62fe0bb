"""Depth-first search through all states of a model: how many, how executions can end, and one path to each end.

Must not know what the threads run, print or judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pcietool.litmus.model.state import TIME, State, Step
from pcietool.litmus.model.steps import Model

Outcome = tuple[int, ...]


@dataclass
class Search:
    model: Model
    states: int = field(default=0, init=False)
    complete: bool = field(default=True, init=False)
    """False if `max_states` ended it."""
    outcomes: dict[Outcome, list[Step]] = field(default_factory=dict, init=False)
    """Each with one execution that leads to it: the shortest of those found."""
    hung: int = field(default=0, init=False)
    """States in which nobody can go on, though not all have ended."""
    hang: list[Step] | None = field(default=None, init=False)
    """An execution that hangs, if there is one."""

    def run(self, outcome_of: Callable[[State], Outcome], max_states: int, max_steps: int, too_long: Exception) -> None:
        """Raises `too_long` if an execution has more than `max_steps` and does not hang."""
        model = self.model
        start = model.start()
        came_from: dict[State, State | None] = {start: None}
        ends: dict[Outcome, tuple[int, State]] = {}
        open_states = [(0, start)]
        while open_states:
            if len(came_from) > max_states:
                self.complete = False
                break
            depth, state = open_states.pop()
            if depth > max_steps:
                if state.late:  # a wait without a deadline, in a hang that is known
                    continue
                raise too_long
            steps = model.steps(state)
            for step in steps:
                if step.state not in came_from:
                    came_from[step.state] = state
                    open_states.append((depth + 1, step.state))
            if not steps and model.has_ended(state):
                if not state.late:  # those are hangs
                    outcome = outcome_of(state)
                    if outcome not in ends or depth < ends[outcome][0]:
                        ends[outcome] = depth, state
            elif not state.late and (not steps or steps[0].thread == TIME):
                self.hung += 1
                self.hang = self.hang or self._path(came_from, state)
        self.states = len(came_from)
        self.outcomes = {outcome: self._path(came_from, end) for outcome, (_, end) in sorted(ends.items())}

    def _path(self, came_from: dict[State, State | None], end: State) -> list[Step]:
        """The steps that lead from the start to this state. They are computed once more: only states were kept."""
        pairs = list(_backwards(came_from, end))
        steps = self.model.steps
        return [next(step for step in steps(before) if step.state == after) for before, after in reversed(pairs)]


def _backwards(came_from: dict[State, State | None], state: State) -> Iterator[tuple[State, State]]:
    while (before := came_from[state]) is not None:
        yield before, state
        state = before
