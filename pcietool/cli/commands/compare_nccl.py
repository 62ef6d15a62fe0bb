"""`pcietool compare-nccl`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.command import Asked, command
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import micros, size


def _times(ratio: float) -> str:
    return f"{ratio:.2f}"


COLUMNS = (
    Column("contender", "contender", optional=True),
    Column("ours", "ours", optional=True),
    Column("theirs", "theirs", optional=True),
    Column("mode", "mode"),
    Column("bytes", "size", size, optional=True),
    Column("ours_us_median", "ours µs", micros, optional=True),
    Column("theirs_us_median", "theirs µs", micros, optional=True),
    Column("times_faster_median", "x faster", _times, optional=True),
    Column("times_faster_median_low", "low", _times, optional=True),
    Column("times_faster_median_high", "high", _times, optional=True),
    Column("algorithm", "theirs by", optional=True),
    Column("crossover_bytes", "theirs is faster from", size, optional=True),
)


@command("compare-nccl")
def compare_nccl(asked: Asked) -> ExitCode:
    """Our barrier and all-reduce beside NCCL's, NVSHMEM's and torch's, by turns in one run, like with like.

    Each contender lives in processes of its own and is waived, with the reason, where it is not installed. Every
    element of every all-reduce is checked, on both sides. Ends with the size from which NCCL is faster.
    """
    return asked.run(COLUMNS)
