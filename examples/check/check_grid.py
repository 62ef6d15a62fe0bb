"""Last-block reduction, a grid barrier that is used again, and counting ranks in on one word."""

from __future__ import annotations

import numpy as np

from pcietool.check import Kernel, World, scenario

FILE = "grid.cuh"


def last_block(w: World, words: int, calls: int, **define: int) -> None:
    blocks = w.grid if isinstance(w.grid, int) else w.grid[0]
    data, partial = w.one("data", np.uint32, words, np.arange(words) + 1), w.one("partial", np.uint32, blocks)
    arrived, total = w.one("arrived", np.uint32), w.one("total", np.uint32)
    for _ in range(calls):  # the counter has to return to where it was
        w.launch([data, partial, arrived, total, words], kernel=Kernel(FILE, "sum_by_last_block", define=define))
    w.expect(total, words * (words + 1) // 2)


@scenario(Kernel(FILE, "sum_by_last_block"), ranks=1, grid=4, block=1, small={"grid": 2, "words": 2, "calls": 1})
def sum_by_last_block(w: World, words: int = 16, calls: int = 2) -> None:
    """The block that arrives last adds up what all have left."""
    last_block(w, words, calls)


@scenario(Kernel(FILE, "sum_by_last_block"), ranks=1, grid=4, block=1, small={"grid": 2, "words": 2, "calls": 1})
def bug_last_block_without_fence(w: World, words: int = 16, calls: int = 2) -> None:
    """Nothing orders the others' sums before their arrival."""
    last_block(w, words, calls, NO_FENCE=1)


def neighbours(w: World, rounds: int, **define: int) -> None:
    blocks = w.grid if isinstance(w.grid, int) else w.grid[0]
    cells, out = w.one("cells", np.uint32, blocks), w.one("out", np.uint32, blocks)
    count, generation = w.one("count", np.uint32), w.one("generation", np.uint32)
    w.launch([cells, out, count, generation, rounds], kernel=Kernel(FILE, "neighbours", define=define))
    w.expect(out, [rounds * 10 + (block + 1) % blocks for block in range(blocks)])


@scenario(Kernel(FILE, "neighbours"), ranks=1, grid=4, block=1, small={"grid": 2, "rounds": 1})
def grid_barrier_again_and_again(w: World, rounds: int = 3) -> None:
    """The count is back before the generation moves on."""
    neighbours(w, rounds)


@scenario(Kernel(FILE, "neighbours"), ranks=1, grid=4, block=1, small={"grid": 2, "rounds": 1})
def bug_count_reset_too_late(w: World, rounds: int = 3) -> None:
    """A block that is fast arrives at the next barrier, and its arrival is wiped out."""
    neighbours(w, rounds, COUNT_LAST=1)


@scenario(Kernel(FILE, "count_in"), ranks=2, block=1)
def bug_ranks_count_on_one_word(w: World) -> None:
    """An atomic that the path does not have."""
    word, out = w.one("word", np.uint32, rank=0), w.each("out", np.uint32)
    w.launch(lambda r: [word, len(w.ranks), out[r]])
    w.expect(out, 1)


@scenario(Kernel(FILE, "signal_in"), ranks=2, block=1)
def ranks_signal_in_slots(w: World) -> None:
    """A word for each, which it alone writes."""
    words, out = w.each("words", np.uint32, 8), w.each("out", np.uint32)
    w.launch(lambda r: [w.struct(words, nbytes=64), r, len(w.ranks), out[r]])
    w.expect(out, 1)
