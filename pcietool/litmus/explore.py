"""Every execution of a litmus test, depth first; states that are reached twice are looked at once.

Loops that only poll end by themselves, since they come back to a state that has been seen. Whoever stops at
`max_states` has proved nothing: `complete` says so. Must not print or judge.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcietool.errors import ConfigError
from pcietool.litmus.bounds import MAX_STATES
from pcietool.litmus.model.search import Outcome, Search
from pcietool.litmus.model.state import State
from pcietool.litmus.model.steps import Model
from pcietool.litmus.text.program import Item, LitmusTest
from pcietool.litmus.threads import MAX_STEPS, LitmusState, LitmusThreads


@dataclass
class Exploration(Search):
    """An outcome is the final values of the question's items, in their order."""

    test: LitmusTest

    @property
    def sought(self) -> list[Outcome]:
        """The outcomes for which the question's proposition holds."""
        items = self.test.question.items
        holds = self.test.question.proposition
        return [outcome for outcome in self.outcomes if holds(dict(zip(items, outcome, strict=True)))]


def explore(test: LitmusTest, max_states: int = MAX_STATES) -> Exploration:
    """Raises ConfigError for a program that never ends, divides by zero or misuses a barrier."""
    found = Exploration(Model(LitmusThreads(test)), test)
    too_long = ConfigError(f"{test.name}: an execution has more than {MAX_STEPS:,} steps; bound its loops")
    found.run(lambda state: _outcome(test.question.items, found.model, state), max_states, MAX_STEPS, too_long)
    return found


def _outcome(items: tuple[Item, ...], model: Model, state: State) -> Outcome:
    memory = model.memory(state)
    return tuple(
        memory[item.number] if item.thread is None else _registers(state, item.thread)[item.number] for item in items
    )


def _registers(state: State, thread: int) -> tuple[int, ...]:
    at = state.threads[thread].at
    assert isinstance(at, LitmusState)
    return at.registers
