"""`pcietool barrier-latency`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.options import Common, Inject, Iterations, Transport, Warmup, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import micros

COLUMNS = (
    Column("world", "GPUs"),
    Column("order", "order"),
    Column("mode", "mode"),
    Column("period_us_p50", "p50 µs", micros),
    Column("period_us_p95", "p95 µs", micros),
    Column("period_us_p99", "p99 µs", micros),
    Column("period_us_mean", "mean µs", micros),
)


@with_common
def barrier_latency(
    common: Common,
    transport: Transport = None,
    iters: Iterations = 1000,
    warmup: Warmup = 20,
    inject: Inject = None,
) -> ExitCode:
    """What a barrier of all GPUs costs, and whether it blocks."""
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["barrier-latency"]
    config = make_config(
        model, transport=transport, iterations=iters, warmup=warmup, timeout_s=common.timeout, inject=inject
    )
    return run_probe("barrier-latency", config, COLUMNS, common)
