"""The outcomes that PTX allows and the model does not show: which of its known gaps a program may fall into.

Judged by the program's shape alone, on the safe side: a gap that is named need not hide anything. An outcome that the
model does show is real in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from pcietool.litmus.text.program import (
    Access,
    Branch,
    Copy,
    LitmusTest,
    LitmusThread,
    Load,
    ProxyFence,
    Rmw,
    Store,
    common_scope,
)

LOAD_BUFFERING = "load buffering"
RACING_WRITES = "racing weak writes"
RACING_RMWS = "racing RMWs"
PROXY_ORDER = "reads that a bulk copy overtakes"
STORES_IN_LOOPS = "stores in loops"

_Place = tuple[int, int]
"""(thread, position) of an instruction."""


def gaps(test: LitmusTest) -> list[str]:
    """The names of the gaps, in a fixed order."""
    found = _races(test)
    if _may_buffer_loads(test):
        found.add(LOAD_BUFFERING)
    if any(map(_may_be_overtaken, test.threads)):
        found.add(PROXY_ORDER)
    if any(map(_stores_in_a_loop, test.threads)):
        found.add(STORES_IN_LOOPS)
    names = (LOAD_BUFFERING, RACING_WRITES, RACING_RMWS, PROXY_ORDER, STORES_IN_LOOPS)
    return [name for name in names if name in found]


def _may_be_overtaken(thread: LitmusThread) -> bool:
    """Whether a bulk copy may overwrite what its thread reads before, with no proxy fence between the two."""
    code = thread.code
    reads = [(at, one) for at, one in enumerate(code) if isinstance(one, Load | Rmw)]
    copies = [(at, one) for at, one in enumerate(code) if isinstance(one, Copy)]
    jumps = any(isinstance(one, Branch) for one in code)
    return any(
        copy.location == read.location
        and (jumps or (at < there and not any(isinstance(one, ProxyFence) for one in code[at:there])))
        for at, read in reads
        for there, copy in copies
    )


def _stores_in_a_loop(thread: LitmusThread) -> bool:
    """Of the same instruction again and again, the model keeps one."""
    loops = [(one.target, at) for at, one in enumerate(thread.code) if isinstance(one, Branch) and one.target <= at]
    return any(isinstance(one, Store | Copy) for first, last in loops for one in thread.code[first:last])


def _races(test: LitmusTest) -> set[str]:
    """Writes of two threads to one location that are not morally strong: PTX leaves some of them unordered, the model
    orders all."""
    found = set()
    if any(_races_with_itself(thread) for thread in test.threads):
        found.add(RACING_WRITES)
    for one, other in combinations(test.threads, 2):
        for a in _writes(one):
            for b in _writes(other):
                if _overlap(a, b) and not _are_morally_strong(test, one, a, other, b):
                    found.add(RACING_RMWS if isinstance(a, Rmw) or isinstance(b, Rmw) else RACING_WRITES)
    return found


def _races_with_itself(thread: LitmusThread) -> bool:
    """Whether a bulk copy and another write of its thread may race."""
    written = [one.location for one in _writes(thread)]
    return any(isinstance(one, Copy) and written.count(one.location) > 1 for one in thread.code)


def _writes(thread: LitmusThread) -> list[Access]:
    return [one for one in thread.code if isinstance(one, Store | Rmw | Copy)]


def _are_morally_strong(test: LitmusTest, one: LitmusThread, a: Access, other: LitmusThread, b: Access) -> bool:
    reaches = min(a.scope, b.scope) >= common_scope(one, other)
    return a.strong and b.strong and a.part.size == b.part.size and reaches


def _overlap(a: Access, b: Access) -> bool:
    if isinstance(a, Copy) or isinstance(b, Copy):  # of whole locations
        return a.location == b.location
    return a.location == b.location and a.part.offset < b.part.end and b.part.offset < a.part.end


def _may_buffer_loads(test: LitmusTest) -> bool:
    """Whether a load could read what depends on a store that follows it: the model executes loads in their place.
    An RMW hands a value on as well, but cannot by itself precede what it reads."""
    reads = {
        (index, position): one
        for index, thread in enumerate(test.threads)
        for position, one in enumerate(thread.code)
        if isinstance(one, Load | Rmw | Copy)
    }
    reached = {(index, at): _readers(test, reads, index, [at, *_later(test, index, at)]) for index, at in reads}
    for middle in reads:
        for place, others in reached.items():
            if middle in others:
                reached[place] = others | reached[middle]
    return any(
        (index, at) in reached[reader]
        for index, at in reads
        for reader in _readers(test, reads, index, _later(test, index, at))
    )


def _readers(test: LitmusTest, reads: Mapping[_Place, Access], thread: int, positions: Iterable[int]) -> set[_Place]:
    """Loads of other threads that could read what the thread writes at these positions."""
    code = test.threads[thread].code
    written = {one.location for one in (code[at] for at in positions) if isinstance(one, Store | Rmw | Copy)}
    return {place for place, read in reads.items() if place[0] != thread and _location_read(read) in written}


def _location_read(read: Access) -> int:
    return read.source if isinstance(read, Copy) else read.location


def _later(test: LitmusTest, thread: int, position: int) -> list[int]:
    """Positions of other instructions that can follow the one here: forwards, or by a branch back over both."""
    code = test.threads[thread].code
    back = [one.target for one in code[position:] if isinstance(one, Branch)]
    first = min([position, *back])
    return [at for at in range(first, len(code)) if at != position]
