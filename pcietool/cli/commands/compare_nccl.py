"""`pcietool compare-nccl`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.command import Asked, command
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import micros, size


def _times(ratio: float) -> str:
    return f"{ratio:.2f}"


COLUMNS = (
    Column("contender", "contender"),
    Column("ours", "ours"),
    Column("theirs", "theirs"),
    Column("mode", "mode"),
    Column("bytes", "size", size),
    Column("ours_us_median", "ours µs", micros),
    Column("theirs_us_median", "theirs µs", micros),
    Column("times_faster_median", "x faster", _times),
    Column("times_faster_median_low", "low", _times),
    Column("times_faster_median_high", "high", _times),
    Column("algorithm", "theirs by"),
    Column("crossover_bytes", "theirs is faster from", size),
)


@command("compare-nccl")
def compare_nccl(asked: Asked) -> ExitCode:
    """Our barrier and all-reduce beside NCCL's, NVSHMEM's and torch's, by turns in one run, like with like.

    Each contender lives in processes of its own and is waived, with the reason, where it is not installed. Every
    element of every all-reduce is checked, on both sides. Ends with the size from which NCCL is faster.
    """
    return asked.run(COLUMNS)
