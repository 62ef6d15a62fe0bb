"""`pcietool barrier-latency`: parse, call, render."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcietool.cli.options import Common, Inject, Transport, Warmup, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import micros


class Order(StrEnum):
    """Mirrors probes.barrier.Order, which is too heavy to import for --help."""

    publishing = "publishing"
    relaxed = "relaxed"
    article = "article"
    floor = "floor"


class Mode(StrEnum):
    """Mirrors probes.barrier.Mode."""

    in_kernel = "in-kernel"
    launched = "launched"
    graph = "graph"


COLUMNS = (
    Column("world", "ranks"),
    Column("order", "order"),
    Column("mode", "mode"),
    Column("period_us_min", "min µs", micros),
    Column("period_us_p50", "p50 µs", micros),
    Column("period_us_p95", "p95 µs", micros),
    Column("period_us_p99", "p99 µs", micros),
    Column("mean_period_us", "mean µs", micros),
)
_KERNEL = "Kernel"
HINT = "docs/barrier-latency.md explains the rows; --sweep adds fewer ranks, --order and --mode choose rows"


@with_common
def barrier_latency(
    common: Common,
    transport: Transport = None,
    iters: Annotated[
        int | None,
        typer.Option(
            "--iters",
            "-n",
            min=1,
            show_default=False,
            help="Rounds in-kernel that are measured; launched and graph always run 20."
            " Default: 2000 on GPUs, 50 emulated.",
        ),
    ] = None,
    warmup: Warmup = 10,
    sweep: Annotated[bool, typer.Option("--sweep", help="Also with 2, 3, ... ranks, up to all GPUs.")] = False,
    order: Annotated[
        list[Order] | None,
        typer.Option(
            help="What a round orders; can be repeated. Default: all.", show_default=False, rich_help_panel=_KERNEL
        ),
    ] = None,
    mode: Annotated[
        list[Mode] | None,
        typer.Option(
            help="Rounds in one kernel, one launch each, or a graph; can be repeated. Default: all.",
            show_default=False,
            rich_help_panel=_KERNEL,
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=32, max=1024, help="Threads a block, whole warps.", rich_help_panel=_KERNEL)
    ] = 32,
    blocks: Annotated[
        int, typer.Option(min=1, help="Blocks a rank; they meet before the last one signals.", rich_help_panel=_KERNEL)
    ] = 1,
    nanosleep: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Nanoseconds to sleep between polls.", rich_help_panel=_KERNEL)
    ] = 0,
    inject: Inject = None,
) -> ExitCode:
    """What a barrier of all GPUs costs, and whether it blocks.

    Each rank stores its sequence number into its own slot at every other rank and waits for theirs. Four orders are
    compared: publishing (release and acquire: what was written before is visible after), relaxed (only: everybody
    has arrived), article (as the protocol's source has it), floor (relaxed, one warp, no block barrier).
    """
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["barrier-latency"]
    chosen = {"orders": order, "modes": mode}
    config = make_config(
        model,
        transport=transport,
        iterations=iters,
        warmup=warmup,
        timeout_s=common.timeout,
        sweep=sweep,
        threads=threads,
        blocks=blocks,
        nanosleep_ns=nanosleep,
        inject=inject,
        **{name: tuple(values) for name, values in chosen.items() if values},
    )
    return run_probe("barrier-latency", config, COLUMNS, common, hint=HINT)
