"""Depth-first search through all states of a model: how many, how executions can end, one path to each end, and the
states from which there is none.

Must not know what the threads run, print or judge.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from pcietool.litmus.model.graph import Graph
from pcietool.litmus.model.state import TIME, State, Step
from pcietool.litmus.model.steps import Model

Outcome = tuple[int, ...]
LOOK_AT_THE_CLOCK = 16
"""States from one look to the next."""


@dataclass(frozen=True)
class Bounds:
    """Of one search. `steps` of one execution; with `too_long`, one that has more is an error."""

    states: int
    steps: int = sys.maxsize
    too_long: Exception | None = None
    seconds: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    progress: Callable[[int], None] = lambda states: None
    """Told now and then how many states there are."""


@dataclass
class Search:
    model: Model
    states: int = field(default=0, init=False)
    stopped: str | None = field(default=None, init=False)
    """Which of the bounds ended the search, or a part of it: "states", "steps", "seconds"."""
    outcomes: dict[Outcome, int] = field(default_factory=dict, init=False)
    """Each with the number of a state that ends so: one that the fewest steps lead to."""
    hung: int = field(default=0, init=False)
    """States from which no end can be reached, however the execution goes on, unless the search was stopped there."""
    hang: list[Step] | None = field(default=None, init=False)
    """A shortest execution to where nobody can do anything new, though not all have ended."""

    @property
    def complete(self) -> bool:
        return self.stopped is None

    def run(self, outcome_of: Callable[[State], Outcome], bounds: Bounds) -> None:
        ends = self._explored(bounds)
        graph = self._graph
        depths = graph.depths()
        first: dict[Outcome, int] = {}
        for end in ends:
            outcome = outcome_of(graph.states[end])
            if outcome not in first or depths[end] < depths[first[outcome]]:
                first[outcome] = end
        hanging = graph.without_way_to([*ends, *graph.left_open])
        self.states = len(graph.states)
        self.outcomes = dict(sorted(first.items()))
        self.hung = len(hanging)
        if hanging:
            self.hang = self._path(min(graph.final_among(hanging), key=depths.__getitem__))

    def all_states(self) -> list[State]:
        return self._graph.states

    def execution(self, outcome: Outcome) -> list[Step]:
        """A shortest one that ends so."""
        return self._path(self.outcomes[outcome])

    def _explored(self, bounds: Bounds) -> list[int]:
        """The states in which everything has ended in time."""
        model = self.model
        graph = self._graph = Graph(model.start())
        ends = []
        began = bounds.clock()
        open_states = [(0, 0)]
        visited = 0
        while open_states:
            visited += 1
            if visited % LOOK_AT_THE_CLOCK == 0:
                bounds.progress(len(graph.states))
                if bounds.clock() - began > bounds.seconds:
                    self.stopped = "seconds"
                    break
            if len(graph.states) > bounds.states:
                self.stopped = "states"
                break
            depth, number = open_states.pop()
            state = graph.states[number]
            if depth > bounds.steps:
                if not state.late:  # a wait without a deadline, in a hang that is known
                    if bounds.too_long:
                        raise bounds.too_long
                    self.stopped = "steps"
                    graph.left_open.append(number)
                continue
            steps = model.steps(state)
            open_states += ((depth + 1, new) for new in graph.add(number, (step.state for step in steps)))
            if not state.late and not steps and model.has_ended(state):
                ends.append(number)
            elif steps and steps[0].thread == TIME:
                graph.cut(number)
        graph.left_open += (number for _, number in open_states)
        return ends

    def _path(self, end: int) -> list[Step]:
        """The steps that lead from the start to this state. They are computed once more: only states were kept."""
        states = [self._graph.states[number] for number in self._graph.path(end)]
        return [self._step(before, after) for before, after in pairwise(states)]

    def _step(self, before: State, after: State) -> Step:
        return next(step for step in self.model.steps(before) if step.state == after)
