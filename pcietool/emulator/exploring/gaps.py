"""Executions that PTX allows of explored kernels and the model does not show: which of its known gaps may be near.

Judged by what the threads access in which order, whatever the values: a gap that is named need not hide anything. What
the model does show is real in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pcietool.emulator.exploring.dependence import Dependence
from pcietool.emulator.exploring.explored_threads import PtxThreads
from pcietool.emulator.exploring.replay import PtxState
from pcietool.emulator.translate.polls import has_own_timers
from pcietool.litmus.gaps import LOAD_BUFFERING, RACING_RMWS, RACING_WRITES, STORES_IN_LOOPS
from pcietool.litmus.model.requests import Access, Fence, Load, Rmw, Store
from pcietool.litmus.model.search import Search
from pcietool.litmus.model.state import State
from pcietool.litmus.model.steps import Model
from pcietool.litmus.text.program import Scope
from pcietool.ptx.model import Instruction

COUNTED_TURNS = "turns of wait loops that are counted"
OWN_TIMERS = "timers of a kernel's own"
MOST_STEPS = 200_000
"""That a search for load buffering may take; who needs more has the gap."""


def gaps(threads: PtxThreads, model: Model, found: Search) -> list[str]:
    """The names of the gaps, in a fixed order."""
    near = set(_races(model, found.all_states()))
    if any(isinstance(state.request, Load) and state.request.counts for _, state in threads.known):
        near.add(COUNTED_TURNS)
    if any(map(_stores_in_a_loop, _accessing(threads, Store))):
        near.add(STORES_IN_LOOPS)
    if _Buffering(threads).is_possible():
        near.add(LOAD_BUFFERING)
    if any(map(has_own_timers, {id(one.spec.lowered): one.spec.lowered.function for one in threads.launches}.values())):
        near.add(OWN_TIMERS)
    names = (LOAD_BUFFERING, RACING_WRITES, RACING_RMWS, STORES_IN_LOOPS, COUNTED_TURNS, OWN_TIMERS)
    return [name for name in names if name in near]


# -- writes that nothing orders ---------------------------------------------------------------------------------------


def _races(model: Model, states: Sequence[State]) -> Iterator[str]:
    """For each write that some thread is about to do with another on the same cells that it has not seen, and that is
    not morally strong with it: PTX leaves such unordered, the model orders all."""
    accesses = model.accesses
    for state in states:
        for index, thread in enumerate(state.threads):
            request = thread.at.request
            if not isinstance(request, Store | Rmw) or request.private:
                continue
            for location in chain(*request.moments):
                order = state.orders[location]
                for message in order[order.index(thread.floor[location]) + 1 :]:
                    if not accesses.morally_strong(index, request, accesses.messages[message]):
                        is_rmw = isinstance(request, Rmw) or accesses.messages[message].read
                        yield RACING_RMWS if is_rmw else RACING_WRITES


def _accessing(threads: PtxThreads, kind: type[Access]) -> list[PtxState]:
    return [state for _, state in threads.known if isinstance(state.request, kind) and not state.request.private]


def _stores_in_a_loop(state: PtxState) -> bool:
    """Whether the thread may come to the same store again, with the same registers: the model keeps one."""
    seen: set[int] = set()
    ahead = list(state.following.values())
    while ahead:
        one = ahead.pop()
        if one is state:
            return True
        if id(one) not in seen:
            seen.add(id(one))
            ahead += one.following.values()
    return False


# -- loads that see what depends on a later store of their thread -----------------------------------------------------


@dataclass(eq=False)
class _Event:
    """All accesses of one instruction by one thread in one phase."""

    thread: int
    block: int
    phase: int
    instruction: Instruction
    request: Access
    reads: set[int] = field(default_factory=set)
    """Cells."""
    writes: set[int] = field(default_factory=set)
    places: set[tuple[int, ...]] = field(default_factory=set)
    """The cells of each access."""
    states: list[PtxState] = field(default_factory=list)


@dataclass(frozen=True)
class _Pair:
    """A read, and a write that comes behind it. `released`, `acquired`: the widest scope in which whoever acquires the
    write is behind the read, and the write is behind whatever released what is read; None for none."""

    read: _Event
    write: _Event
    depends: bool
    released: Scope | None
    acquired: Scope | None


class _Buffering:
    def __init__(self, threads: PtxThreads) -> None:
        self._threads = threads
        self._nearness = threads.nearness
        self._dependence: dict[int, Dependence] = {}
        self._events = self._found()
        self._steps = 0

    def is_possible(self) -> bool:
        """Whether pairs make a circle in which each write may be what the next one reads, and that neither coherence
        (all is about one word) excludes, nor causality (all links but one synchronise), nor dependence (of all writes
        on their reads)."""
        pairs = [pair for event in self._events if event.reads for pair in self._pairs(event)]
        following = [[n for n, other in enumerate(pairs) if _may_be_read(pair, other)] for pair in pairs]
        return any(self._leads_back(pairs, following, start) for start in range(len(pairs)))

    def _found(self) -> list[_Event]:
        events: dict[tuple[int, int, int], _Event] = {}
        for thread, state in self._threads.known:
            request = state.request
            if not isinstance(request, Access) or request.private:
                continue
            assert state.asked is not None
            instruction = state.asked[0].instruction
            block = self._threads.threads[thread].block
            key = thread, id(instruction), state.phase
            event = events.setdefault(key, _Event(thread, block, state.phase, instruction, request))
            cells = tuple(chain(*request.moments))
            event.places.add(cells)
            if isinstance(request, Load | Rmw):
                event.reads.update(cells)
            if isinstance(request, Store | Rmw):
                event.writes.update(cells)
            event.states.append(state)
        return list(events.values())

    def _pairs(self, read: _Event) -> Iterator[_Pair]:
        """With the writes of its thread behind it, and of those threads of its block that a barrier puts behind it."""
        for write in self._events:
            if not write.writes or write.block != read.block:
                continue
            if write.thread == read.thread:
                if write is not read and not _reaches(_following(read.states), _among(write.states), _never):
                    continue
            elif not read.phase < write.phase:
                continue
            yield _Pair(read, write, self._depends(write, read), *self._order(read, write))

    def _order(self, read: _Event, write: _Event) -> tuple[Scope | None, Scope | None]:
        """How far the pair's write releases, and its read acquires."""
        if read is write:
            return Scope.SYS, Scope.SYS
        behind_read, at_write = _following(read.states), _among(write.states)
        left, before_write = at_write, behind_read
        if write.thread != read.thread:
            left = _is_in_another_phase(read.phase)
            before_write = self._begins_phase(write)
        released = acquired = None
        for scope in Scope:
            if (write.request.release and write.request.scope >= scope) or not _reaches(
                before_write, at_write, _fences(scope)
            ):
                released = scope
            if (read.request.acquire and read.request.scope >= scope) or not _reaches(
                behind_read, left, _acquires(scope, read.places)
            ):
                acquired = scope
        return (released if write.request.strong else None), (acquired if read.request.strong else None)

    def _begins_phase(self, event: _Event) -> list[PtxState]:
        """Where its thread comes from the barrier before it."""
        return [
            following
            for thread, state in self._threads.known
            if thread == event.thread and state.phase != event.phase
            for following in state.following.values()
            if isinstance(following, PtxState) and following.phase == event.phase
        ]

    def _depends(self, write: _Event, read: _Event) -> bool:
        if write.thread != read.thread:
            return False
        function = self._threads.threads[read.thread].spec.lowered.function
        known = self._dependence.setdefault(id(function), Dependence(function))
        return known.depends(write.instruction, read.instruction)

    def _leads_back(self, pairs: Sequence[_Pair], following: Sequence[Sequence[int]], start: int) -> bool:
        """Depth first through circles that come to each thread once, from the smallest of their pairs."""
        first = pairs[start]
        ahead: list[tuple[int, frozenset[int], int, bool, set[tuple[int, ...]]]] = [
            (start, frozenset({first.read.thread}), 0, first.depends, first.read.places | first.write.places)
        ]
        while ahead:
            self._steps += 1
            if self._steps > MOST_STEPS:
                return True
            at, threads, unordered, depends, places = ahead.pop()
            for number in following[at]:
                other = pairs[number]
                loose = unordered + (not self._is_synchronised(pairs[at], other))
                if number == start:
                    if loose > 1 and not depends and len(places) > 1:
                        return True
                elif number > start and other.read.thread not in threads:
                    met = places | other.read.places | other.write.places
                    ahead.append((number, threads | {other.read.thread}, loose, depends and other.depends, met))
        return False

    def _is_synchronised(self, one: _Pair, other: _Pair) -> bool:
        if one.released is None or other.acquired is None:
            return False
        writer, reader = one.write, other.read
        if writer.request.size != reader.request.size:
            return False
        needed = self._nearness[writer.thread][reader.thread]
        scopes = (one.released, other.acquired, writer.request.scope, reader.request.scope)
        return min(scopes) >= needed


def _following(states: Sequence[PtxState]) -> list[Any]:
    return [following for state in states for following in state.following.values()]


def _reaches(starts: Sequence[Any], goal: Callable[[Any], bool], stops: Callable[[Any], bool]) -> bool:
    """Whether the thread may come from one of these states to the goal without one that stops."""
    seen: set[int] = set()
    ahead = list(starts)
    while ahead:
        one = ahead.pop()
        if goal(one):
            return True
        if id(one) not in seen and not stops(one):
            seen.add(id(one))
            ahead += one.following.values()
    return False


def _among(states: Sequence[PtxState]) -> Callable[[Any], bool]:
    numbers = {id(state) for state in states}
    return lambda state: id(state) in numbers


def _is_in_another_phase(phase: int) -> Callable[[Any], bool]:
    return lambda state: state.phase != phase


def _never(state: PtxState) -> bool:
    return False


def _fences(scope: Scope) -> Callable[[Any], bool]:
    """Those that release."""
    return lambda state: isinstance(state.request, Fence) and state.request.releases and state.request.scope >= scope


def _acquires(scope: Scope, places: set[tuple[int, ...]]) -> Callable[[Any], bool]:
    """Fences, and loads of the same words that acquire what was read there before."""

    def acquires(state: PtxState) -> bool:
        request = state.request
        if isinstance(request, Load) and request.acquire and request.scope >= scope:
            return len(places) == 1 and tuple(chain(*request.moments)) in places
        return isinstance(request, Fence) and request.acquires and request.scope >= scope

    return acquires


def _may_be_read(one: _Pair, other: _Pair) -> bool:
    return one.write.thread != other.read.thread and not one.write.writes.isdisjoint(other.read.reads)
