"""What happens on the paths of all threads, taken together: numbered events, and the relations between them that hold
whatever is read from where.

The terms are those of the PTX ISA. Must not know where reads get their values, nor in which order writes come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from pcietool.litmus.axioms.relations import Relation, bits, closed, relation
from pcietool.litmus.axioms.terms import NOTHING, ReadName, Term, constant
from pcietool.litmus.model.state import INITIAL
from pcietool.litmus.text.program import Instruction, Part, Scope


class Kind(Enum):
    READ = auto()
    WRITE = auto()
    FENCE = auto()
    PROXY_FENCE = auto()
    WAIT = auto()
    """For bulk copies."""
    ARRIVE = auto()
    """At a barrier."""
    GO_ON = auto()
    """Behind a barrier."""


@dataclass(frozen=True)
class Event:
    """Events of one `stage`, such as the scalars of a vector, are in no order; a bulk copy's have none, they come
    behind what they `follow` alone. `follows` counts the events of the path."""

    name: ReadName
    kind: Kind
    instruction: Instruction | None = None
    stage: int | None = None
    follows: tuple[int, ...] = ()
    cells: tuple[int, ...] = ()
    size: int = 0
    strong: bool = False
    acquire: bool = False
    release: bool = False
    scope: Scope = Scope.SYS
    part: Part | None = None
    """How a scalar is read from the cells; None for what only copies them."""
    coherent: bool = True
    sequential: bool = False
    term: Term | None = None
    """What is written."""
    controls: frozenset[ReadName] = NOTHING
    """Reads that have decided whether this is written at all."""
    partner: int | None = None
    """Of an RMW's write: its read, in the events of the path."""
    native: bool = True
    whole: bool = True
    """Whether all of its stage is read or written at one moment."""
    meeting: Meeting | None = None

    @property
    def thread(self) -> int:
        return self.name[0]


@dataclass(frozen=True)
class Meeting:
    """Which use of a barrier: the `turn`th of each thread at this `place`, which is known by its instance where no
    `quorum` counts threads, else by its number."""

    block: tuple[int, int]
    place: tuple[str, int]
    barrier: int
    quorum: int
    turn: int


Nearness = Sequence[Sequence[Scope]]


class Events:
    """The initial write of each cell comes first."""

    def __init__(self, memory: Sequence[int], paths: Sequence[Sequence[Event]], nearness: Nearness) -> None:
        initial = [
            Event((INITIAL, cell), Kind.WRITE, cells=(cell,), strong=True, term=constant(value))
            for cell, value in enumerate(memory)
        ]
        self.all: list[Event] = initial + [event for path in paths for event in path]
        self.count = len(self.all)
        self._nearness = nearness
        self._first = []
        """The number of each path's first event."""
        first = len(initial)
        for path in paths:
            self._first.append(first)
            first += len(path)
        self.number = {event.name: number for number, event in enumerate(self.all)}
        self.reads = self._of(lambda event: event.kind is Kind.READ)
        self.writes = self._of(lambda event: event.kind is Kind.WRITE)
        self.by_cell: dict[int, list[int]] = {}
        """Its writes."""
        for write in self.writes:
            for cell in self.all[write].cells:
                self.by_cell.setdefault(cell, []).append(write)
        self.unit_of = {number: unit for unit in self._units() for number in unit}
        """All that is read, or written, at the same moment."""
        self.fences_sc = self._of(lambda event: event.sequential)
        self.program_order = self._program_order()
        self.overlap = self._pairs(lambda a, b: bool(set(a.cells) & set(b.cells)))
        self.morally_strong = self._morally_strong()
        self.rmws = [
            (self._first[event.thread] + event.partner, number)
            for number, event in enumerate(self.all)
            if event.partner is not None
        ]
        self.before = self._before(paths)

    def _units(self) -> list[list[int]]:
        units: dict[object, list[int]] = {}
        for number in (*self.reads, *self.writes):
            event = self.all[number]
            is_alone = event.stage is None or not event.whole
            units.setdefault(number if is_alone else (event.thread, event.stage), []).append(number)
        return list(units.values())

    def _of(self, holds: Callable[[Event], bool]) -> list[int]:
        return [number for number, event in enumerate(self.all) if holds(event)]

    def _pairs(self, holds: Callable[[Event, Event], bool]) -> Relation:
        return [
            bits(b for b, other in enumerate(self.all) if a != b and holds(one, other))
            for a, one in enumerate(self.all)
        ]

    def _program_order(self) -> Relation:
        def is_before(one: Event, other: Event) -> bool:
            if one.thread == INITIAL:
                return other.thread != INITIAL
            if one.thread != other.thread or one.stage is None or other.stage is None:
                return False
            return one.stage < other.stage

        return self._pairs(is_before)

    def _before(self, paths: Sequence[Sequence[Event]]) -> Relation:
        """Base causality as far as it is known: program order, copies, and barriers."""
        pairs = [(a, b) for a, row in enumerate(self.program_order) for b in range(self.count) if row >> b & 1]
        for number, event in enumerate(self.all):
            pairs += ((self._first[event.thread] + other, number) for other in event.follows)
        rows = relation(self.count, pairs)
        arrivals = self._of(lambda event: event.kind is Kind.ARRIVE)
        for number in self._of(lambda event: event.kind is Kind.GO_ON):
            for other in arrivals:
                if self.all[other].meeting == self.all[number].meeting:
                    rows[other] |= 1 << number
        return closed(rows)

    def _morally_strong(self) -> Relation:
        def holds(one: Event, other: Event) -> bool:
            if one.cells and other.cells and not _overlap_wholly(one, other):
                return False
            if INITIAL in (one.thread, other.thread):
                return True
            if one.thread == other.thread and one.stage is not None and other.stage is not None:
                return one.stage != other.stage
            return one.strong and other.strong and self.within(one, other)

        return self._pairs(holds)

    def nearness(self, one: Event, other: Event) -> Scope:
        """The narrowest scope that contains both threads."""
        return self._nearness[one.thread][other.thread]

    def within(self, one: Event, other: Event) -> bool:
        """Whether each one's scope contains the other's thread."""
        return min(one.scope, other.scope) >= self.nearness(one, other)


def _overlap_wholly(one: Event, other: Event) -> bool:
    """The initial writes are of any size."""
    common = set(one.cells) & set(other.cells)
    return bool(common) and (one.size == other.size or INITIAL in (one.thread, other.thread))
