"""`pcietool barrier-latency`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.command import Asked, command
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import micros

COLUMNS = (
    Column("world", "ranks"),
    Column("order", "order"),
    Column("mode", "mode"),
    Column("period_us_min", "min µs", micros, optional=True),
    Column("period_us_p50", "p50 µs", micros, optional=True),
    Column("period_us_p95", "p95 µs", micros, optional=True),
    Column("period_us_p99", "p99 µs", micros, optional=True),
    Column("mean_period_us", "mean µs", micros),
)
HINT = "docs/barrier-latency.md explains the rows; --sweep adds fewer ranks, --order and --mode choose rows"


@command("barrier-latency")
def barrier_latency(asked: Asked) -> ExitCode:
    """What a barrier of all GPUs costs, and whether it blocks.

    Each rank stores its sequence number into its own slot at every other rank and waits for theirs. Four orders are
    compared: publishing (release and acquire: what was written before is visible after), relaxed (only: everybody
    has arrived), article (as the protocol's source has it), floor (relaxed, one warp, no block barrier).
    """
    return asked.run(COLUMNS, HINT)
