"""All-reduce over single-writer slots: a last barrier that few tests miss, and epochs that are waited for exactly."""

from __future__ import annotations

import numpy as np

from pcietool.check import Kernel, World, scenario

SMALL = {"grid": 1, "block": 2, "words": 2, "calls": 2}


def one_stage(**define: int) -> Kernel:
    return Kernel("all_reduce.cuh", "one_stage<float, {ranks}>", define=define)


def two_stages(**define: int) -> Kernel:
    return Kernel("all_reduce.cuh", "two_stages<float, {ranks}>", define=define)


def reduce_in_one_stage(w: World, words: int, calls: int) -> None:
    """Call after call on the same memory, with a kernel of the caller's in between."""
    slots = w.each("slots", np.uint32, 64)
    data = w.each("input", np.float32, words, lambda r: np.arange(words) + 100 * r)
    out = w.each("output", np.float32, words)
    produce = Kernel("all_reduce.cuh", "produce<float>")
    for call in range(calls):
        if call:
            w.launch(lambda r: [data[r], words, 1.0], kernel=produce)
        tables, epoch = [w.struct(array, nbytes=64) for array in (data, slots)], 2 * call + 1
        w.launch(lambda r: [*tables, out[r], r, words, epoch])
    total = sum(np.arange(words) + 100 * r + calls - 1 for r in w.ranks)
    w.expect(out, total)


@scenario(one_stage(), ranks=(2, 4), grid=2, block=32, small=SMALL)
def all_reduce_one_stage(w: World, words: int = 64, calls: int = 3) -> None:
    """Every rank reads all inputs and adds them."""
    reduce_in_one_stage(w, words, calls)


@scenario(one_stage(NO_LAST_BARRIER=1), ranks=2, grid=2, block=32, small=SMALL)
def bug_no_last_barrier(w: World, words: int = 64, calls: int = 3) -> None:
    """Without a barrier at its end, the next input overwrites what slower ranks still read."""
    reduce_in_one_stage(w, words, calls)


@scenario(one_stage(EXACTLY=1), ranks=2, grid=1, block=32, small={"block": 2, "words": 2})
def bug_waits_for_exactly(w: World, words: int = 32, calls: int = 3) -> None:
    """A wait for exactly one epoch misses it if the other rank is already one further."""
    reduce_in_one_stage(w, words, calls)


def reduce_in_two_stages(w: World, words: int, calls: int) -> None:
    slots = w.each("slots", np.uint32, 64)
    data = w.each("input", np.float32, words, lambda r: np.arange(words) + 100 * r)
    shares = w.each("shares", np.float32, words // len(w.ranks))
    out = w.each("output", np.float32, words)
    for call in range(calls):
        tables = [w.struct(array, nbytes=64) for array in (data, shares, slots)]
        w.launch(lambda r: [*tables, out[r], r, words, 3 * call + 1])
    w.expect(out, sum(np.arange(words) + 100 * r for r in w.ranks))


@scenario(two_stages(), ranks=(2, 4), grid=2, block=32, small={**SMALL, "calls": 1})
def all_reduce_two_stages(w: World, words: int = 64, calls: int = 2) -> None:
    """Every rank reduces its share, then gathers the others'."""
    reduce_in_two_stages(w, words, calls)


@scenario(two_stages(BLOCK_ALONE=1), ranks=2, grid=2, block=32, small={**SMALL, "calls": 1})
def bug_block_barrier_for_ranks(w: World, words: int = 64, calls: int = 2) -> None:
    """Shares of other ranks are gathered behind a barrier of the own block only."""
    reduce_in_two_stages(w, words, calls)
