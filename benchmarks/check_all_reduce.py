"""What `check` is timed with: the all-reduce of examples/check, small with every question asked, and large."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pcietool.check import Kernel, World, scenario

SOURCE = Path(__file__).parents[1] / "examples" / "check" / "all_reduce.cuh"
KERNEL = Kernel(SOURCE, "two_stages<float, {ranks}>")
SMALL = {"grid": 1, "block": 2, "words": 2, "calls": 1}


def reduce(w: World, words: int, calls: int) -> None:
    slots = w.each("slots", np.uint32, 64)
    data = w.each("input", np.float32, words, lambda r: np.arange(words) + 100 * r)
    shares = w.each("shares", np.float32, words // len(w.ranks))
    out = w.each("output", np.float32, words)
    for call in range(calls):
        tables = [w.struct(array, nbytes=64) for array in (data, shares, slots)]
        w.launch(lambda r: [*tables, out[r], r, words, 3 * call + 1])
    w.expect(out, sum(np.arange(words) + 100 * r for r in w.ranks))


@scenario(KERNEL, ranks=2, grid=1, block=32, small=SMALL)
def small(w: World, words: int = 64, calls: int = 2) -> None:
    """Two ranks of one warp."""
    reduce(w, words, calls)


@scenario(KERNEL, ranks=4, grid=4, block=512)
def large(w: World, words: int = 8192, calls: int = 1) -> None:
    """Four ranks of four full blocks."""
    reduce(w, words, calls)
