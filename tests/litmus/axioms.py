"""The axioms of the PTX memory model (ISA 7.5, generic proxy) by brute force, for straight-line programs.

Every way to pair reads with writes, to order the fence.sc and to order writes is tried. Nothing is shared with the
explorer but the parsed program: the two are held against each other. A relation is a list of bit masks, one an event.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pcietool.litmus.text.program import Access, Fence, LitmusTest, Load, Rmw, Scope, Store

Relation = list[int]
INITIAL = -1


@dataclass(frozen=True)
class Event:
    thread: int
    kind: str
    """R, W or F."""
    location: int | None = None
    strong: bool = True
    acquire: bool = False
    release: bool = False
    scope: Scope = Scope.SYS
    instruction: Access | Fence | None = None
    value: int = 0
    """Of an initial write."""


def events_of(test: LitmusTest) -> tuple[list[Event], list[tuple[int, int]]]:
    """(events in program order, the read and the write of each RMW)."""
    events = [Event(INITIAL, "W", n, release=False, value=value) for n, value in enumerate(test.memory)]
    rmws = []
    for index, thread in enumerate(test.threads):
        for one in thread.code:
            if isinstance(one, Fence):
                events.append(Event(index, "F", scope=one.scope, instruction=one))
                continue
            assert isinstance(one, Access)
            if isinstance(one, Load | Rmw):
                events.append(Event(index, "R", one.location, one.strong, one.acquire, False, one.scope, one))
            if isinstance(one, Store | Rmw):
                events.append(Event(index, "W", one.location, one.strong, False, one.release, one.scope, one))
            if isinstance(one, Rmw):
                rmws.append((len(events) - 2, len(events) - 1))
    return events, rmws


def has(relation: Relation, a: int, b: int) -> bool:
    return bool(relation[a] >> b & 1)


def members(mask: int) -> Iterator[int]:
    while mask:
        yield (low := mask & -mask).bit_length() - 1
        mask ^= low


def union(*relations: Relation) -> Relation:
    return [sum_bits(row) for row in zip(*relations, strict=True)]


def sum_bits(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def compose(first: Relation, second: Relation) -> Relation:
    return [sum_bits(second[b] for b in members(row)) for row in first]


def closure(relation: Relation) -> Relation:
    rows = list(relation)
    for middle in range(len(rows)):
        for a, row in enumerate(rows):
            if row >> middle & 1:
                rows[a] |= rows[middle]
    return rows


def is_acyclic(closed: Relation) -> bool:
    return not any(has(closed, a, a) for a in range(len(closed)))


class Axioms:
    def __init__(self, test: LitmusTest) -> None:
        self.test = test
        self.events, self.rmws = events_of(test)
        self.count = len(self.events)
        self.partner = dict(self.rmws)
        self.program_order = self.where(
            lambda a, b: (
                self.thread(a) == INITIAL != self.thread(b) or (self.thread(a) == self.thread(b) != INITIAL and a < b)
            )
        )
        self.same_place = self.where(
            lambda a, b: self.events[a].location is not None and self.events[a].location == self.events[b].location
        )
        self.morally_strong = self.where(self.is_morally_strong)
        self.reads = [n for n, event in enumerate(self.events) if event.kind == "R"]
        self.writes = [n for n, event in enumerate(self.events) if event.kind == "W"]
        fences = [(n, event.instruction) for n, event in enumerate(self.events)]
        self.sc_fences = [n for n, one in fences if isinstance(one, Fence) and one.sequential]
        self.releases = self.where(self.is_release_pattern)
        self.acquires = self.where(self.is_acquire_pattern)
        self.rmw = self.relation(self.rmws)

    def thread(self, a: int) -> int:
        return self.events[a].thread

    def where(self, holds: Callable[[int, int], bool]) -> Relation:
        return [sum(1 << b for b in range(self.count) if a != b and holds(a, b)) for a in range(self.count)]

    def relation(self, pairs: Iterable[tuple[int, int]]) -> Relation:
        rows = [0] * self.count
        for a, b in pairs:
            rows[a] |= 1 << b
        return rows

    def reaches(self, a: int, b: int) -> bool:
        """Whether the scope of event a contains the thread of event b."""
        if INITIAL in (self.thread(a), self.thread(b)) or self.thread(a) == self.thread(b):
            return True
        one, other = self.test.threads[self.thread(a)], self.test.threads[self.thread(b)]
        return {
            Scope.SYS: True,
            Scope.GPU: one.gpu == other.gpu,
            Scope.CTA: (one.gpu, one.cta) == (other.gpu, other.cta),
        }[self.events[a].scope]

    def is_morally_strong(self, a: int, b: int) -> bool:
        one, other = self.events[a], self.events[b]
        if "F" not in (one.kind, other.kind) and one.location != other.location:
            return False
        if has(self.program_order, a, b) or has(self.program_order, b, a):
            return True
        return one.strong and other.strong and self.reaches(a, b) and self.reaches(b, a)

    def is_release_pattern(self, a: int, b: int) -> bool:
        """From a release or fence to a strong write after it; a release by itself is one too, see `synchronized`."""
        one, other = self.events[a], self.events[b]
        if not (has(self.program_order, a, b) and other.kind == "W" and other.strong):
            return False
        return one.kind == "F" or (one.release and has(self.same_place, a, b))

    def is_acquire_pattern(self, a: int, b: int) -> bool:
        """From a strong read to an acquire or fence after it."""
        one, other = self.events[a], self.events[b]
        if not (has(self.program_order, a, b) and one.kind == "R" and one.strong):
            return False
        return other.kind == "F" or (other.acquire and has(self.same_place, a, b))

    def outcomes(self, conservative: bool = False) -> set[tuple[int, ...]]:
        """The final registers, thread by thread. `conservative` leaves out what only load buffering, or a coherence
        order that is not total, allows."""
        candidates = [[w for w in self.writes if self.may_read(r, w)] for r in self.reads]
        found = set()
        for sources in itertools.product(*candidates):
            reads_from = self.relation((w, r) for r, w in zip(self.reads, sources, strict=True))
            values = self.values(dict(zip(self.reads, sources, strict=True)))
            if values is None or (registers := self.registers(values)) in found:
                continue
            if conservative and not is_acyclic(closure(union(self.program_order, reads_from))):
                continue
            if self.is_consistent(reads_from, conservative):
                found.add(registers)
        return found

    def may_read(self, read: int, write: int) -> bool:
        return has(self.same_place, read, write) and self.partner.get(read) != write

    def values(self, source: dict[int, int]) -> dict[int, int] | None:
        """What each read returns; None if values would come out of thin air."""
        read_of = {write: read for read, write in self.rmws}

        def written(write: int, seen: tuple[int, ...]) -> int:
            event = self.events[write]
            if event.thread == INITIAL:
                return event.value
            one = event.instruction
            if isinstance(one, Store):
                return one.values[0].constant
            assert isinstance(one, Rmw)
            if write in seen:
                raise RecursionError
            old = written(source[read_of[write]], (*seen, write))
            return one.combine(old, one.value.constant)

        try:
            return {read: written(write, ()) for read, write in source.items()}
        except RecursionError:
            return None

    def registers(self, values: dict[int, int]) -> tuple[int, ...]:
        final = [list(thread.initial) for thread in self.test.threads]
        for read, value in values.items():
            event = self.events[read]
            assert isinstance(event.instruction, Load | Rmw)
            one = event.instruction
            register = one.registers[0] if isinstance(one, Load) else one.register
            if register is not None:
                final[event.thread][register] = value
        return tuple(itertools.chain(*final))

    def is_consistent(self, reads_from: Relation, total: bool) -> bool:
        strong_reads = [row & ms for row, ms in zip(reads_from, self.morally_strong, strict=True)]
        observed = closure(union(strong_reads, self.rmw))
        synchronized = self.synchronized(observed)
        only_reads = sum(1 << r for r in self.reads)
        observation = [observed[a] & only_reads if self.events[a].kind == "W" else 0 for a in range(self.count)]
        pairs = [pair for pair in itertools.combinations(self.sc_fences, 2) if has(self.morally_strong, *pair)]
        for fence_order in self.orientations(pairs):
            fences = self.relation(fence_order)
            base = closure(union(self.program_order, synchronized, fences))
            if not is_acyclic(base) or not is_acyclic(closure(fences)):
                continue  # Fence-SC: its order is consistent with base causality
            if any(has(base, b, a) for a, b in fence_order):
                continue
            preserved = [row & place for row, place in zip(base, self.same_place, strict=True)]
            cause = union(preserved, compose(observation, preserved))
            if self.some_coherence(reads_from, cause, total):
                return True
        return False

    def synchronized(self, observed: Relation) -> Relation:
        """Release patterns to the acquire patterns that observe them, if first and last are morally strong."""
        itself = [1 << a for a in range(self.count)]
        releases = union(self.releases, [row if self.events[a].release else 0 for a, row in enumerate(itself)])
        acquires = union(self.acquires, [row if self.events[a].acquire else 0 for a, row in enumerate(itself)])
        seen = compose(compose(releases, observed), acquires)
        return [row & ms for row, ms in zip(seen, self.morally_strong, strict=True)]

    def some_coherence(self, reads_from: Relation, cause: Relation, total: bool) -> bool:
        writes = sum(1 << w for w in self.writes)
        base = [cause[a] & writes if self.events[a].kind == "W" else 0 for a in range(self.count)]
        open_pairs = [
            (a, b)
            for a, b in itertools.combinations(self.writes, 2)
            if has(self.same_place, a, b)
            and not (has(base, a, b) or has(base, b, a))
            and (total or has(self.morally_strong, a, b))
        ]
        for orientation in self.orientations(open_pairs):
            coherence = closure(union(base, self.relation(orientation)))
            if is_acyclic(coherence) and self.holds(reads_from, coherence, cause):
                return True
        return False

    def holds(self, reads_from: Relation, coherence: Relation, cause: Relation) -> bool:
        """Causality, atomicity and SC per location, for one coherence order."""
        inverse = self.relation((r, w) for w in self.writes for r in members(reads_from[w]))
        before = compose(inverse, coherence)  # from-reads
        communication = union(reads_from, before)
        if any(has(cause, b, a) for a in range(self.count) for b in members(communication[a])):
            return False
        strong = [row & ms for row, ms in zip(union(communication, coherence), self.morally_strong, strict=True)]
        in_place = [row & place for row, place in zip(self.program_order, self.same_place, strict=True)]
        if not is_acyclic(closure(union(strong, in_place))):
            return False
        strong_before = [row & ms for row, ms in zip(before, self.morally_strong, strict=True)]
        strong_after = [row & ms for row, ms in zip(coherence, self.morally_strong, strict=True)]
        between = compose(strong_before, strong_after)
        return not any(has(between, read, write) for read, write in self.rmws)

    @staticmethod
    def orientations(pairs: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
        for flips in itertools.product((False, True), repeat=len(pairs)):
            yield [(b, a) if flip else (a, b) for flip, (a, b) in zip(flips, pairs, strict=True)]
