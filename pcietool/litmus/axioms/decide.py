"""Whether PTX allows an outcome of a litmus test, by its axioms: for where the step-by-step model has gaps.

Loops that wait are decided exactly; of others some turns are looked at, and what needs more is left undecided. So is
what is too large. Must not print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from pcietool.litmus.axioms.candidates import Candidate, Candidates
from pcietool.litmus.axioms.consistency import Consistency
from pcietool.litmus.axioms.domains import domains
from pcietool.litmus.axioms.events import Events, Kind
from pcietool.litmus.axioms.paths import Path, TooLarge, paths_of
from pcietool.litmus.axioms.relations import Relation
from pcietool.litmus.layout import Layout
from pcietool.litmus.model.search import Bounds, Outcome
from pcietool.litmus.text.program import Barrier, LitmusTest, Verdict, common_scope

MOST_CANDIDATES = 200_000
MOST_COMBINATIONS = 20_000
"""Of the threads' paths."""
LOOK_AT_THE_CLOCK = 64
"""Candidates from one look to the next."""
BOUNDS = Bounds(MOST_CANDIDATES)
"""What a search counts are candidates."""


@dataclass(frozen=True)
class Execution:
    """A consistent one."""

    events: Events
    candidate: Candidate
    coherence: Relation


@dataclass(frozen=True)
class Decision:
    """`reason`: why it is undecided. `execution`: one that ends as asked, if it is allowed."""

    verdict: Verdict
    reason: str | None = None
    execution: Execution | None = None


def decide(
    test: LitmusTest, wanted: Callable[[Outcome], bool], tear: bool = False, bounds: Bounds = BOUNDS
) -> Decision:
    """About outcomes that are `wanted`. An outcome holds the final values of the question's items."""
    try:
        search = AxiomSearch(test, tear, bounds)
        for execution in search.executions(wanted):
            return Decision("allowed", execution=execution)
        if search.goes_on():
            return Decision("undecided", "threads may go on for longer than the axioms were asked about")
    except TooLarge as error:
        return Decision("undecided", str(error))
    return Decision("forbidden")


class AxiomSearch:
    """Raises TooLarge from everywhere."""

    def __init__(self, test: LitmusTest, tear: bool = False, bounds: Bounds = BOUNDS) -> None:
        self._test = test
        self._layout = Layout(test)
        self._nearness = [[common_scope(a, b) for b in test.threads] for a in test.threads]
        self._bounds = bounds
        self._began = bounds.clock()
        self._looked_at = 0
        known = domains(test, self._layout)
        self._paths = [paths_of(test, self._layout, known, thread, tear) for thread in range(len(test.threads))]

    def executions(self, wanted: Callable[[Outcome], bool]) -> Iterator[Execution]:
        """All that end as wanted."""
        return self._executions([[path for path in paths if not path.cut] for paths in self._paths], wanted)

    def goes_on(self) -> bool:
        """Whether some thread may go on where its paths are cut."""
        return any(path.cut for paths in self._paths for path in paths)

    def _executions(self, paths: list[list[Path]], wanted: Callable[[Outcome], bool]) -> Iterator[Execution]:
        for number, chosen in enumerate(product(*paths)):
            if number > MOST_COMBINATIONS:
                raise TooLarge(f"there are more than {MOST_COMBINATIONS:,} ways through the threads' programs")
            self._tick()
            self._check_barriers(chosen)
            events = Events(self._layout.memory, [path.events for path in chosen], self._nearness)
            candidates = Candidates(self._layout, self._test.question.items, chosen, events, self._tick)
            consistency = None
            for candidate in candidates.find(wanted):
                consistency = consistency or Consistency(events, self._tick)
                coherence = consistency.coherence(candidate.sources, candidate.last)
                if coherence is not None:
                    yield Execution(events, candidate, coherence)

    def _tick(self) -> None:
        bounds = self._bounds
        self._looked_at += 1
        if self._looked_at > bounds.states:
            raise TooLarge(f"there are more than {bounds.states:,} candidates for an execution")
        if self._looked_at % LOOK_AT_THE_CLOCK == 0:
            bounds.progress(self._looked_at)
            if bounds.clock() - self._began > bounds.seconds:
                raise TooLarge("the time for the axioms is up")

    def _check_barriers(self, paths: tuple[Path, ...]) -> None:
        """Only barriers are known to which all threads come equally often."""
        arrivals = [
            event.meeting for path in paths for event in path.events if event.meeting and event.kind is Kind.ARRIVE
        ]
        together = Counter((one.block, one.place, one.quorum, one.turn) for one in arrivals)
        for (block, place, quorum, _), count in together.items():
            if count != (quorum or len(self._members(block, place[1]))):
                raise TooLarge("threads come to a barrier different numbers of times")

    def _members(self, block: tuple[int, int], instance: int) -> list[int]:
        return [
            index
            for index, thread in enumerate(self._test.threads)
            if (thread.gpu, thread.cta) == block
            and any(isinstance(one, Barrier) and one.instance == instance for one in thread.code)
        ]
