"""`pcietool compare-nccl`: parse, call, render."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcietool.cli.options import Common, Transport, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import micros, parse_size, size


class ContenderChoice(StrEnum):
    """Mirrors contenders.catalog.CONTENDERS, which is too heavy to import for --help."""

    nccl = "nccl"
    nccl_ranks = "nccl-ranks"
    nccl_symmetric = "nccl-symmetric"
    nccl_lsa = "nccl-lsa"
    nccl_host = "nccl-host"
    nccl_host_ranks = "nccl-host-ranks"
    nvshmem = "nvshmem"
    torch = "torch"


class ModeChoice(StrEnum):
    """Mirrors probes.compare_config.MODES."""

    in_kernel = "in-kernel"
    graph = "graph"
    eager = "eager"


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
_CONTENDERS = "Contenders"


@with_common
def compare_nccl(
    common: Common,
    transport: Transport = None,
    contender: Annotated[
        list[ContenderChoice] | None,
        typer.Option(
            help="Who takes part; can be repeated. Default: all that are installed.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    mode: Annotated[
        list[ModeChoice] | None,
        typer.Option(
            help="Inside a kernel, in a graph, or launched back to back; can be repeated. Default: all.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE,...",
            help="All-reduce sizes, such as 4,8K, instead of a range.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    min_bytes: Annotated[
        str | None,
        typer.Option(
            "--min-bytes",
            "-b",
            metavar="SIZE",
            help="Smallest size. Default: 4.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            "--max-bytes",
            "-e",
            metavar="SIZE",
            help="Largest size, at most 16M. Default: 1M on GPUs, 256 emulated.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    factor: Annotated[
        int | None,
        typer.Option(
            "--factor",
            "-f",
            min=2,
            help="From one size to the next. Default: 4.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Turns of each side; 7 or more give an interval. Default: 11 on GPUs.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=200,
            help="Operations of a graph, or launched back to back. Default: 100 on GPUs, 20 emulated.",
            show_default=False,
            rich_help_panel=_CONTENDERS,
        ),
    ] = None,
    init_timeout: Annotated[
        float, typer.Option(help="Seconds a contender may take to start.", rich_help_panel=_CONTENDERS)
    ] = 60.0,
    run_timeout: Annotated[
        float, typer.Option(help="Seconds a contender may take for one turn.", rich_help_panel=_CONTENDERS)
    ] = 30.0,
) -> ExitCode:
    """Our barrier and all-reduce beside NCCL's, NVSHMEM's and torch's, by turns in one run, like with like.

    Each contender lives in processes of its own and is waived, with the reason, where it is not installed. Every
    element of every all-reduce is checked, on both sides. Ends with the size from which NCCL is faster.
    """
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["compare-nccl"]
    chosen = {"contenders": contender, "modes": mode}
    config = make_config(
        model,
        transport=transport,
        sizes=None if sizes is None else tuple(parse_size(each) for each in sizes.split(",")),
        min_bytes=None if min_bytes is None else parse_size(min_bytes),
        max_bytes=None if max_bytes is None else parse_size(max_bytes),
        factor=factor,
        pairs=pairs,
        nodes=nodes,
        timeout_s=common.timeout,
        init_timeout_s=init_timeout,
        run_timeout_s=run_timeout,
        **{name: tuple(dict.fromkeys(values)) for name, values in chosen.items() if values},
    )
    return run_probe("compare-nccl", config, COLUMNS, common)
