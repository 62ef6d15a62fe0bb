"""Whether a candidate execution is one that PTX allows: the axioms of the memory model (ISA 7.5 and later).

Given is where each read gets its value. What is found is an order of the fence.sc and a coherence order of the writes.
The names of relations and axioms are those of the PTX ISA. Must not know values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product

from pcietool.litmus.axioms.events import Events, Kind
from pcietool.litmus.axioms.relations import Relation, bits, both, closed, composed, has_cycle, members, relation, union
from pcietool.litmus.text.program import Scope

Sources = Mapping[tuple[int, int], int]
"""(read, cell) -> the write that the read gets this cell from."""
Last = Mapping[int, int]
"""cell -> the write that is to be the last one there."""
Pair = tuple[int, int]


class Consistency:
    """`tick` is called now and then, and may raise."""

    def __init__(self, events: Events, tick: Callable[[], None]) -> None:
        self._events = events
        self._tick = tick
        count = events.count
        self._reads = bits(events.reads)
        self._rmw = relation(count, events.rmws)
        self._releases, self._acquires = self._patterns()
        coherent = bits(number for number, event in enumerate(events.all) if event.coherent)
        self._comparable = [row & coherent if coherent >> a & 1 else 0 for a, row in enumerate(events.overlap)]
        self._in_place = both(both(events.program_order, self._comparable), events.morally_strong)
        self._by_cell = events.by_cell
        self._in_cell = {cell: bits(writes) for cell, writes in events.by_cell.items()}
        units = {id(unit): unit for unit in events.unit_of.values()}.values()
        reads = [unit for unit in units if unit[0] in events.reads]
        self._wide_reads = [unit for unit in reads if sum(len(events.all[read].cells) for read in unit) > 1]
        self._races = list(self._racing([unit for unit in units if unit[0] in events.writes]))
        self._fence_pairs = [(a, b) for a, b in combinations(events.fences_sc, 2) if events.morally_strong[a] >> b & 1]

    def coherence(self, sources: Sources, last: Last) -> Relation | None:
        """A coherence order with which the execution is consistent, or None."""
        reads_from = relation(self._events.count, {(write, read) for (read, _), write in sources.items()})
        observed = closed(union(both(reads_from, self._events.morally_strong), self._rmw))
        only_writes = bits(self._events.writes)
        observation = [row & self._reads if only_writes >> a & 1 else 0 for a, row in enumerate(observed)]
        before = union(self._events.before, self._synchronized(observed))
        for order in self._fence_orders():
            base = closed(union(before, order))
            if has_cycle(base):  # Fence-SC: its order is part of base causality
                continue
            preserved = both(base, self._comparable)
            cause = union(preserved, composed(observation, preserved))
            if any(cause[read] >> write & 1 for (read, _), write in sources.items()):  # Causality
                continue
            for coherence in self._coherence_orders(sources, cause, last):
                self._tick()
                if self._holds(sources, reads_from, coherence, cause):
                    return coherence
        return None

    # Base causality

    def _patterns(self) -> tuple[Relation, Relation]:
        """(from a release or fence to the write that shows it, from a read to the acquire or fence that takes it)."""
        events = self._events
        releases, acquires = [0] * events.count, [0] * events.count
        for a, row in enumerate(events.program_order):
            one = events.all[a]
            for b in members(row):
                other = events.all[b]
                same = events.morally_strong[a] >> b & 1  # of the same size
                is_shown = other.kind is Kind.WRITE and other.strong
                if is_shown and (one.kind is Kind.FENCE or (one.release and same)):
                    releases[a] |= 1 << b
                is_taken = one.kind is Kind.READ and one.strong
                if is_taken and (other.kind is Kind.FENCE or (other.acquire and same)):
                    acquires[a] |= 1 << b
            if one.release:
                releases[a] |= 1 << a
            if one.acquire:
                acquires[a] |= 1 << a
        return releases, acquires

    def _synchronized(self, observed: Relation) -> Relation:
        seen = composed(composed(self._releases, observed), self._acquires)
        return both(seen, self._events.morally_strong)

    def _fence_orders(self) -> Iterator[Relation]:
        for flips in product((False, True), repeat=len(self._fence_pairs)):
            pairs = [pair[::-1] if flip else pair for flip, pair in zip(flips, self._fence_pairs, strict=True)]
            yield relation(self._events.count, pairs)

    # Coherence

    def _racing(self, units: list[list[int]]) -> Iterator[list[Pair]]:
        """Writes that are ordered in every execution, whatever causality says: morally strong ones, and those of which
        readers could see parts of both otherwise. In one list what goes the same way."""
        events = self._events
        for one, other in combinations(units, 2):
            pairs = [(a, b) for a in one for b in other if events.overlap[a] >> b & 1]
            common = {cell for a in one for cell in events.all[a].cells} & {
                cell for b in other for cell in events.all[b].cells
            }
            if len(common) > 1:
                yield pairs
            else:
                yield from ([pair] for pair in pairs if events.morally_strong[pair[0]] >> pair[1] & 1)

    def _coherence_orders(self, sources: Sources, cause: Relation, last: Last) -> Iterator[Relation]:
        """Coherence is in them already: what causality orders is ordered so."""
        forced = self._forced(sources, cause, last)
        if forced is None:
            return
        open_races = []
        for race in self._races:
            forward = any(forced[a] >> b & 1 for a, b in race)
            backward = any(forced[b] >> a & 1 for a, b in race)
            if forward and backward:
                return
            if forward or backward:
                for a, b in race:
                    forced[a if forward else b] |= 1 << (b if forward else a)
            else:
                open_races.append(race)
        for flips in product((False, True), repeat=len(open_races)):
            rows = list(forced)
            for flip, race in zip(flips, open_races, strict=True):
                for a, b in race:
                    rows[b if flip else a] |= 1 << (a if flip else b)
            rows = closed(rows)
            if not has_cycle(rows) and not any(rows[write] & self._in_cell[cell] for cell, write in last.items()):
                yield both(rows, self._events.overlap)

    def _forced(self, sources: Sources, cause: Relation, last: Last) -> Relation | None:
        """What the order of writes must contain; None if there is none."""
        events = self._events
        only_writes = bits(events.writes)
        rows = [row & only_writes if only_writes >> a & 1 else 0 for a, row in enumerate(cause)]
        strong = events.morally_strong
        for (read, cell), write in sources.items():
            for other in self._by_cell[cell]:
                # A read cannot come from before a write that causes it.
                if other != write and cause[other] >> read & 1:
                    if rows[write] >> other & 1:
                        return None
                    if strong[write] >> other & 1:
                        rows[other] |= 1 << write
        for cell, write in last.items():
            for other in self._by_cell[cell]:
                if other != write and rows[write] >> other & 1:
                    return None
                if other != write and strong[write] >> other & 1:
                    rows[other] |= 1 << write
        return rows

    # The other axioms

    def _holds(self, sources: Sources, reads_from: Relation, coherence: Relation, cause: Relation) -> bool:
        """Causality, SC per location, atomicity, and that what is whole is seen whole."""
        events = self._events
        before = [0] * events.count  # from-reads
        for (read, cell), write in sources.items():
            before[read] |= coherence[write] & self._in_cell[cell]
        communication = union(reads_from, before)
        if any(cause[b] >> a & 1 for a, row in enumerate(communication) for b in members(row)):
            return False
        strong = both(union(communication, coherence), events.morally_strong)
        if has_cycle(closed(union(strong, self._in_place))):
            return False
        return self._are_atomic(before, coherence) and self._are_whole(sources, coherence)

    def _are_atomic(self, before: Relation, coherence: Relation) -> bool:
        strong = self._events.morally_strong
        for read, write in self._events.rmws:
            for other in members(before[read] & strong[read] & strong[write]):
                if coherence[other] >> write & 1 and self._is_kept_out(write, other):
                    return False
        return True

    def _is_kept_out(self, rmw: int, other: int) -> bool:
        """Where RMWs are not native, only writes of the same device are (rule 14 of docs/memory-model.md)."""
        one = self._events.all[rmw]
        return one.native or self._events.nearness(one, self._events.all[other]) < Scope.SYS

    def _are_whole(self, sources: Sources, coherence: Relation) -> bool:
        """Whoever sees a part of what is written at one moment sees nothing older beside it."""
        for unit in self._wide_reads:
            seen = {cell: sources[read, cell] for read in unit for cell in self._events.all[read].cells}
            for write in set(seen.values()):
                for part in self._events.unit_of[write]:
                    for cell in self._events.all[part].cells:
                        if cell in seen and coherence[seen[cell]] >> part & 1:
                            return False
        return True
