"""What each lane of a warp operation gets, from what each lane gave.

Must not know when that is, nor who waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import and_, or_, xor
from typing import Any, Protocol, TypeVar

SIGN = 1 << 31
REDUCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: (a + b) & 0xFFFFFFFF,
    "min": min,
    "max": max,
    "and": and_,
    "or": or_,
    "xor": xor,
}


class Lane(Protocol):
    """A thread, wherever it runs."""

    tid: int


AnyLane = TypeVar("AnyLane", bound=Lane)


def warp_results(kind: str, given: Mapping[AnyLane, Any]) -> dict[AnyLane, Any]:
    """`kind` is the operation as in its Op. Shuffles and match.all give (value, whether it counts)."""
    operation, _, what = kind.partition(".")
    if operation == "sync":
        return dict.fromkeys(given)
    if operation == "vote":
        return dict.fromkeys(given, _vote(what, given))
    if operation == "redux":
        return dict.fromkeys(given, _reduced(what, given.values()))
    if operation == "match":
        return _matched(what, given)
    return _shuffled(kind, given)


def _lanes(threads: Iterable[Lane]) -> int:
    """As a mask."""
    return sum(1 << (thread.tid & 31) for thread in threads)


def _vote(what: str, given: Mapping[AnyLane, Any]) -> int | bool:
    if what == "ballot":
        return _lanes(thread for thread, value in given.items() if value)
    if what == "any":
        return any(given.values())
    if what == "all":
        return all(given.values())
    return len(set(map(bool, given.values()))) == 1


def _reduced(what: str, values: Iterable[int]) -> int:
    """`what` is "add.u32", "min.s32" and the like; signed numbers are compared with their sign bit turned round."""
    operation, type_name = what.split(".")
    bias = SIGN if type_name == "s32" and operation in ("min", "max") else 0
    return reduce(REDUCTIONS[operation], (value ^ bias for value in values)) ^ bias


def _matched(what: str, given: Mapping[AnyLane, int]) -> dict[AnyLane, Any]:
    """any: the lanes with one's own value. all: the lanes if all have it, else none."""
    if what == "any":
        lanes: dict[int, list[AnyLane]] = {}
        for thread, value in given.items():
            lanes.setdefault(value, []).append(thread)
        return {thread: _lanes(lanes[value]) for thread, value in given.items()}
    same = len(set(given.values())) == 1
    return dict.fromkeys(given, (_lanes(given) if same else 0, same))


def _shuffled(kind: str, given: Mapping[AnyLane, tuple[int, int, int]]) -> dict[AnyLane, tuple[int, bool]]:
    values = {thread.tid & 31: value for thread, (value, _, _) in given.items()}
    results = {}
    for thread, (value, delta, clamp) in given.items():
        lane = thread.tid & 31
        limit, segment = clamp & 31, clamp >> 8 & 31
        low = lane & segment
        high = low | limit & ~segment
        source = {
            "shfl.up": lane - (delta & 31),
            "shfl.down": lane + (delta & 31),
            "shfl.bfly": lane ^ (delta & 31),
            "shfl.idx": low | delta & ~segment & 31,
        }[kind]
        in_range = source >= high if kind == "shfl.up" else source <= high
        results[thread] = (values.get(source, value) if in_range else value, in_range)
    return results
