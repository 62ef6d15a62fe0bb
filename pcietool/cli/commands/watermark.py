"""`pcietool watermark`: parse, call, render."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcietool.cli.options import Common, Inject, Transport, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import count, gb_per_s, micros, parse_size


class Pattern(StrEnum):
    """Mirrors probes.streams.Pattern, which is too heavy to import for --help."""

    one_to_one = "one-to-one"
    many_to_one = "many-to-one"
    all_to_all = "all-to-all"


class Path(StrEnum):
    """Mirrors probes.pushing.Path."""

    vector = "vector"
    bulk = "bulk"
    engine = "engine"


class Dtype(StrEnum):
    """Mirrors probes.watermark_config.Dtype."""

    bf16 = "bf16"
    fp16 = "fp16"
    fp8 = "fp8"
    fp32 = "fp32"


def _percent(value: float) -> str:
    return f"{value:.1f}"


def _mark(is_it: bool) -> str:
    return "*" if is_it else ""


COLUMNS = (
    Column("is_smallest_good", "", _mark),
    Column("sms", "SMs"),
    Column("path", "path"),
    Column("chunk_text", "chunk"),
    Column("gb_per_s", "GB/s", gb_per_s),
    Column("percent_of_sm_copy", "% SM", _percent),
    Column("percent_of_copy_engine", "% CE", _percent),
    Column("first_release_us", "first µs", micros),
    Column("signals", "signals", count),
    Column("polls", "polls", count),
)
_ROWS = "Rows"
_KERNEL = "Kernel"
HINT = "docs/watermark.md explains the rows; --chunks and --sms choose rows, --pattern who pushes to whom"


@with_common
def watermark(
    common: Common,
    transport: Transport = None,
    chunks: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS,...",
            help="Rows of a chunk, or all. Default: 1,8,16,64,256,all; 64 is the article's choice.",
            show_default=False,
        ),
    ] = None,
    sms: Annotated[
        str | None,
        typer.Option(
            metavar="N,...",
            help="SMs that push, one block each, or all. Default: 4,8,16,32,64,all on GPUs, 4 emulated.",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[Pattern, typer.Option(help="Who pushes to whom.")] = Pattern.one_to_one,
    iters: Annotated[
        int | None,
        typer.Option(
            "--iters",
            "-n",
            min=1,
            show_default=False,
            help="Launches that are measured. Default: 9 on GPUs, 2 emulated.",
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup", "-w", min=0, show_default=False, help="Launches before that. Default: 2 on GPUs, 0 emulated."
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="Rows of a stream. Default: 8192 on GPUs, 128 emulated.", show_default=False, rich_help_panel=_ROWS
        ),
    ] = None,
    columns: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Elements of a row. Default: 7168 on GPUs, 128 emulated.",
            show_default=False,
            rich_help_panel=_ROWS,
        ),
    ] = None,
    dtype: Annotated[Dtype, typer.Option(help="Of an element.", rich_help_panel=_ROWS)] = Dtype.bf16,
    row_bytes: Annotated[
        str | None,
        typer.Option(
            "--row-bytes",
            metavar="SIZE",
            help="Instead of --columns: a multiple of 16, such as 14K.",
            show_default=False,
            rich_help_panel=_ROWS,
        ),
    ] = None,
    path: Annotated[
        list[Path] | None,
        typer.Option(
            help="How rows are stored: by 16-byte stores (vector), TMA (bulk, sm_90 or newer), or the copy engine with"
            " stream writes as signals (engine); can be repeated. Default: all on GPUs, vector and engine emulated.",
            show_default=False,
            rich_help_panel=_KERNEL,
        ),
    ] = None,
    piece: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows that a group copies before its fence. Default: by size and SMs.",
            show_default=False,
            rich_help_panel=_KERNEL,
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=32,
            max=1024,
            help="Threads a block. Default: 1024 on GPUs, 128 emulated.",
            show_default=False,
            rich_help_panel=_KERNEL,
        ),
    ] = None,
    groups: Annotated[
        int,
        typer.Option(min=1, max=15, help="Groups of a block, each copying its own piece.", rich_help_panel=_KERNEL),
    ] = 4,
    inject: Inject = None,
) -> ExitCode:
    """How small chunks can be, and how few SMs push them, before signals cost bandwidth.

    A producer pushes rows to a consumer and publishes each chunk of rows with one signal, so that the consumer can
    start before everything is there. Every byte that arrives is checked. * marks the smallest chunk within 2 % of the
    best with as many SMs.
    """
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["watermark"]
    config = make_config(
        model,
        transport=transport,
        pattern=pattern,
        iterations=iters,
        warmup=warmup,
        rows=rows,
        columns=columns,
        dtype=dtype,
        row_bytes=parse_size(row_bytes) if row_bytes is not None else None,
        chunks=chunks,
        sms=sms,
        paths=tuple(dict.fromkeys(path)) if path else None,
        piece_rows=piece,
        threads=threads,
        groups=groups,
        timeout_s=common.timeout,
        seed=common.seed,
        inject=inject,
    )
    return run_probe("watermark", config, COLUMNS, common, hint=HINT)
