"""`pcietool atomic-loss`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.options import Common, Inject, Iterations, Transport, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import count, percent

COLUMNS = (
    Column("place", "word on"),
    Column("adders", "adders"),
    Column("expected", "expected", count),
    Column("seen", "seen", count),
    Column("lost", "lost", count),
    Column("lost_fraction", "lost %", percent),
)


@with_common
def atomic_loss(
    common: Common, transport: Transport = None, iters: Iterations = 1000, inject: Inject = None
) -> ExitCode:
    """Which atomics lose updates when several writers add to one word."""
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["atomic-loss"]
    config = make_config(model, transport=transport, iterations=iters, timeout_s=common.timeout, inject=inject)
    return run_probe("atomic-loss", config, COLUMNS, common)
