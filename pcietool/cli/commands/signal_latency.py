"""`pcietool signal-latency`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.command import Asked, command
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import gb_per_s, micros, percent


def _times(ratio: float) -> str:
    return f"{ratio:.2f}"


COLUMNS = (
    Column("varied", "what"),
    Column("pairs_text", "GPUs"),
    Column("one_way_us_p50", "p50 µs", micros, optional=True),
    Column("one_way_us_p95", "p95 µs", micros, optional=True),
    Column("times_base", "x base", _times, optional=True),
    Column("moved_gb_per_s", "GB/s", gb_per_s),
    Column("moved_gb_per_s_to_alone_median", "of alone", percent, optional=True),
)
HINT = "docs/signal-latency.md explains the rows; --load adds traffic, --poll, --wait and --pairs choose rows"


@command("signal-latency")
def signal_latency(asked: Asked) -> ExitCode:
    """How long a signal takes from one GPU to another, for every ordered pair, and what waiting for it costs.

    One GPU stores round k into a slot of the other, which waits for it and answers: a ping-pong. Half of a round trip
    is one way. Then one thing varies at a time: how to wait, where the polled slot lies, data that travels with the
    signal, other pairs at the same time, load on the links.
    """
    return asked.run(COLUMNS, HINT)
