"""Candidate executions of one path a thread: where each read gets its value, which values that makes, and how it ends.

A candidate whose values would come out of thin air is none. Must not know the other axioms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from pcietool.litmus.axioms.events import Event, Events
from pcietool.litmus.axioms.paths import Path
from pcietool.litmus.axioms.relations import closed, has_cycle, relation, union
from pcietool.litmus.axioms.terms import ReadName, Term
from pcietool.litmus.layout import Layout, extended
from pcietool.litmus.model.search import Outcome
from pcietool.litmus.text.program import Item

Slot = tuple[int, int]
"""(read, cell)."""


@dataclass(frozen=True)
class Candidate:
    """`sources`: for each slot the write that fills it. `last`: for each cell that the question asks for, the write
    that is to be the last one."""

    sources: dict[Slot, int]
    values: dict[ReadName, int]
    last: dict[int, int]
    outcome: Outcome


class _Unknown(Exception):
    """It is not decided yet where a read gets its value."""


class _ThinAir(Exception):
    """A value depends on itself."""


class Candidates:
    """`tick` is called now and then, and may raise."""

    def __init__(
        self,
        layout: Layout,
        items: Sequence[Item],
        paths: Sequence[Path],
        events: Events,
        tick: Callable[[], None],
    ) -> None:
        self._layout = layout
        self._items = items
        self._registers = [path.registers for path in paths]
        self._constraints = [constraint for path in paths for constraint in path.constraints]
        self._events = events
        self._tick = tick
        needed = frozenset().union(*(constraint.needs for constraint in self._constraints))
        reads = sorted(events.reads, key=lambda read: events.all[read].name not in needed)
        self._slots = [(read, cell) for read in reads for cell in events.all[read].cells]
        self._choices = [self._choices_of(read, cell) for read, cell in self._slots]
        self._dependent = self._dependencies()
        asked = [cell for item in items if item.thread is None for cell in self._cells(item)]
        self._asked = sorted(set(asked))

    def find(self, wanted: Callable[[Outcome], bool]) -> Iterator[Candidate]:
        """Those whose outcome is wanted."""
        for sources in self._filled({}):
            try:
                values = self._values(sources)
            except (ZeroDivisionError, _ThinAir):
                continue
            if values is None or self._is_thin_air(sources):
                continue
            for last in product(*(self._events.by_cell[cell] for cell in self._asked)):
                at_end = dict(zip(self._asked, last, strict=True))
                outcome = self._outcome(values, at_end)
                if wanted(outcome):
                    yield Candidate(dict(sources), values, at_end, outcome)

    def _choices_of(self, read: int, cell: int) -> list[int]:
        """Writes that nothing keeps from being read there, as far as base causality is known."""
        before = self._events.before
        event = self._events.all[read]
        possible = [write for write in self._events.by_cell[cell] if not before[read] >> write & 1]
        if not event.coherent:
            return possible
        return [
            write
            for write in possible
            if not any(before[write] >> other & 1 and before[other] >> read & 1 for other in possible)
        ]

    def _dependencies(self) -> list[int]:
        number = self._events.number
        pairs = list(self._events.rmws)
        for write in self._events.writes:
            event = self._events.all[write]
            assert event.term is not None
            pairs += [(number[name], write) for name in event.term.needs | event.controls]
        return relation(self._events.count, pairs)

    def _cells(self, item: Item) -> tuple[int, ...]:
        return self._layout.between(item.number, item.part.offset, item.part.end)

    # Filling the slots

    def _filled(self, sources: dict[Slot, int]) -> Iterator[dict[Slot, int]]:
        """All ways that do not contradict what must hold on the paths. It is one object that changes."""
        if len(sources) == len(self._slots):
            self._tick()
            yield sources
            return
        slot = self._slots[len(sources)]
        for write in self._choices[len(sources)]:
            if self._is_torn(sources, slot, write):
                continue
            sources[slot] = write
            if self._is_possible(sources, self._events.all[slot[0]].name):
                yield from self._filled(sources)
            del sources[slot]

    def _is_torn(self, sources: dict[Slot, int], slot: Slot, write: int) -> bool:
        """Whether the read would see a part of what is written at one moment beside something that is older anyway."""
        events = self._events
        unit = events.unit_of[slot[0]]
        if len(unit) == 1 and len(events.all[unit[0]].cells) == 1:
            return False
        return any(
            self._is_older(write, slot[1], other) or self._is_older(other, place[1], write)
            for place, other in sources.items()
            if place[0] in unit
        )

    def _is_older(self, write: int, cell: int, other: int) -> bool:
        """Than what the `other` writes, or is a part of, writes to this cell."""
        events = self._events
        return any(events.before[write] >> part & 1 for part in events.unit_of[other] if cell in events.all[part].cells)

    def _is_possible(self, sources: dict[Slot, int], name: ReadName) -> bool:
        """Whether the paths could be taken, as far as that is decided by now."""
        known: dict[ReadName, int] = {}
        for constraint in self._constraints:
            if name in constraint.needs:
                try:
                    if not self._evaluated(constraint, sources, known, set()):
                        return False
                except _Unknown:
                    pass
                except (ZeroDivisionError, _ThinAir):
                    return False
        return True

    # Values

    def _values(self, sources: dict[Slot, int]) -> dict[ReadName, int] | None:
        """What each read returns; None if the paths are not taken. Raises ZeroDivisionError, _ThinAir."""
        known: dict[ReadName, int] = {}
        for read in self._events.reads:
            self._value(self._events.all[read], sources, known, set())
        if all(constraint.of(known) for constraint in self._constraints):
            return known
        return None

    def _evaluated(self, term: Term, sources: dict[Slot, int], known: dict[ReadName, int], asked: set[ReadName]) -> int:
        for name in term.needs:
            self._value(self._events.all[self._events.number[name]], sources, known, asked)
        return term.of(known)

    def _value(self, event: Event, sources: dict[Slot, int], known: dict[ReadName, int], asked: set[ReadName]) -> int:
        """Raises _Unknown, _ThinAir, ZeroDivisionError."""
        name = event.name
        if name in known:
            return known[name]
        if name in asked:
            raise _ThinAir
        asked.add(name)
        pieces = []
        for cell in event.cells:
            write = sources.get((self._events.number[name], cell))
            if write is None:
                raise _Unknown
            source = self._events.all[write]
            assert source.term is not None
            value = self._evaluated(source.term, sources, known, asked)
            pieces.append(self._layout.split(source.cells, value)[source.cells.index(cell)])
        whole = self._layout.join(event.cells, pieces)
        known[name] = pieces[0] if event.part is None else extended(whole, event.part)
        asked.discard(name)
        return known[name]

    def _is_thin_air(self, sources: dict[Slot, int]) -> bool:
        """No-Thin-Air: dependencies and what is read from where make no circle."""
        reads_from = relation(self._events.count, {(write, read) for (read, _), write in sources.items()})
        return has_cycle(closed(union(self._dependent, reads_from)))

    def _outcome(self, values: dict[ReadName, int], last: dict[int, int]) -> Outcome:
        return tuple(
            self._at_end(item, values, last)
            if item.thread is None
            else self._registers[item.thread][item.number].of(values)
            for item in self._items
        )

    def _at_end(self, item: Item, values: dict[ReadName, int], last: dict[int, int]) -> int:
        memory = dict(zip(last, (self._written(write, cell, values) for cell, write in last.items()), strict=True))
        return self._layout.value_of(item, memory)

    def _written(self, write: int, cell: int, values: dict[ReadName, int]) -> int:
        event = self._events.all[write]
        assert event.term is not None
        return self._layout.split(event.cells, event.term.of(values))[event.cells.index(cell)]
