"""Every execution of a litmus test, depth first; states that are reached twice are looked at once.

Loops that only poll end by themselves, since they come back to a state that has been seen. Whoever stops at a bound has
proved nothing: `complete` says so. Must not print or judge.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcietool.litmus.bounds import MAX_STATES
from pcietool.litmus.model.search import Bounds, Outcome, Search
from pcietool.litmus.model.state import State
from pcietool.litmus.model.steps import Model
from pcietool.litmus.text.program import LitmusTest
from pcietool.litmus.threads import MAX_STEPS, LitmusState, LitmusThreads

BOUNDS = Bounds(MAX_STATES, MAX_STEPS)


@dataclass
class Exploration(Search):
    """An outcome is the final values of the question's items, in their order. `tear` as in LitmusThreads."""

    test: LitmusTest
    tear: bool

    @property
    def sought(self) -> list[Outcome]:
        """The outcomes for which the question's proposition holds."""
        return [outcome for outcome in self.outcomes if is_sought(self.test, outcome)]


def explore(test: LitmusTest, bounds: Bounds = BOUNDS, tear: bool = False) -> Exploration:
    """Raises ConfigError for a program that counts without end, divides by zero or misuses a barrier."""
    threads = LitmusThreads(test, tear)
    found = Exploration(Model(threads), test, tear)
    found.run(lambda state: _outcome(found, threads, state), bounds)
    return found


def is_sought(test: LitmusTest, outcome: Outcome) -> bool:
    return test.question.proposition(dict(zip(test.question.items, outcome, strict=True)))


def _outcome(found: Exploration, threads: LitmusThreads, state: State) -> Outcome:
    memory = found.model.memory(state)
    return tuple(
        threads.layout.value_of(item, memory) if item.thread is None else _registers(state, item.thread)[item.number]
        for item in found.test.question.items
    )


def _registers(state: State, thread: int) -> tuple[int, ...]:
    at = state.threads[thread].at
    assert isinstance(at, LitmusState)
    return at.registers
