"""What `check` is timed with: the all-reduce of examples/check, small with every question asked, and large."""

from __future__ import annotations

from pathlib import Path

from examples.check.check_all_reduce import reduce_in_two_stages
from pcietool.check import Kernel, World, scenario

SOURCE = Path(__file__).parents[1] / "examples" / "check" / "all_reduce.cuh"
KERNEL = Kernel(SOURCE, "two_stages<float, {ranks}>")
SMALL = {"grid": 1, "block": 2, "words": 2, "calls": 1}


@scenario(KERNEL, ranks=2, grid=1, block=32, small=SMALL)
def small(w: World, words: int = 64, calls: int = 2) -> None:
    """Two ranks of one warp."""
    reduce_in_two_stages(w, words, calls)


@scenario(KERNEL, ranks=4, grid=4, block=512)
def large(w: World, words: int = 8192, calls: int = 1) -> None:
    """Four ranks of four full blocks."""
    reduce_in_two_stages(w, words, calls)
