"""`pcietool verify`: parse, call, render."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcietool.cli.options import Common, Inject, Transport, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import count, parse_size


class Entry(StrEnum):
    """Mirrors probes.verify.config.EntryName, which is too heavy to import for --help."""

    signal = "signal"
    barrier = "barrier"
    dispatch = "dispatch"
    combine = "combine"
    gate = "gate"
    end_to_end = "end-to-end"


class Distribution(StrEnum):
    """Mirrors protocol.routing.Distribution."""

    uniform = "uniform"
    zipf = "zipf"
    one_hot = "one-hot"
    all_to_one = "all-to-one"
    none_to_one = "none-to-one"
    one_row = "one-row"
    self_only = "self-only"
    all_remote = "all-remote"
    chunk_edges = "chunk-edges"
    duplicates = "duplicates"


class Load(StrEnum):
    """Mirrors probes.verify.traffic.Direction."""

    none = "none"
    push = "push"
    pull = "pull"
    all = "all"


COLUMNS = (
    Column("entry", "entry"),
    Column("distribution", "distribution"),
    Column("launches", "launches", count),
    Column("iterations", "iterations", count),
    Column("rows", "rows", count),
    Column("bytes_checked", "bytes", count),
    Column("found_by", "found by"),
    Column("status", "status"),
)
MUTANT_COLUMNS = (
    Column("mutant", "mutant"),
    Column("entry", "entry"),
    Column("expected", "expected"),
    Column("outcome", "outcome"),
    Column("killed_by", "killed by"),
    Column("tries", "tries", count),
)
HINT = "docs/verify.md explains the checks; --mutants shows that each of them finds what it is for"
MUTANT_HINT = "docs/verify.md explains the mutants; --json has what was found in each"
_SIZES = "Sizes"


@with_common
def verify(
    common: Common,
    entries: Annotated[
        list[Entry] | None,
        typer.Argument(
            metavar="[ENTRY]...",
            help="signal, barrier, dispatch, combine, gate, end-to-end. Default: all.",
            show_default=False,
        ),
    ] = None,
    transport: Transport = None,
    distribution: Annotated[
        list[Distribution] | None,
        typer.Option(
            "--distribution",
            "-d",
            metavar="NAME",
            help="Who sends how much to whom; can be repeated: " + ", ".join(Distribution) + ". Default: all.",
            show_default=False,
        ),
    ] = None,
    iters: Annotated[
        int, typer.Option("--iters", "-n", min=1, help="Iterations of each row, half of them across the wrap.")
    ] = 30,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Break one link after the other, and see which check finds it.")
    ] = False,
    soak: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Repeat everything until this much time has passed.", show_default=False),
    ] = None,
    load: Annotated[
        Load,
        typer.Option(help="Copy engines on the same links meanwhile: towards where ranks write, from there, both."),
    ] = Load.none,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows of a rank, two experts each. Default: 64 on GPUs, 2 emulated.",
            show_default=False,
            rich_help_panel=_SIZES,
        ),
    ] = None,
    experts: Annotated[
        int | None,
        typer.Option(
            min=1, help="In all, shared evenly. Default: two a rank.", show_default=False, rich_help_panel=_SIZES
        ),
    ] = None,
    row_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="A multiple of 16. Default: 2K on GPUs, 256 emulated.",
            show_default=False,
            rich_help_panel=_SIZES,
        ),
    ] = None,
    inject: Inject = None,
) -> ExitCode:
    """Whether what arrives is what was sent: each protocol alone, byte by byte, and every check proved able to fail.

    What is sent depends on iteration, source, row and column; buffers are poisoned before each iteration; tables and
    counts are recomputed by naive loops. Wrong data, or a mutant that survives, makes exit code 3, a hang 4.
    """
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["verify"]
    config = make_config(
        model,
        entries=tuple(entries or ()),
        transport=transport,
        distributions=tuple(distribution or ()),
        iterations=iters,
        mutants=mutants,
        soak_s=soak,
        load=load,
        rows=rows,
        experts=experts,
        row_bytes=parse_size(row_bytes) if row_bytes is not None else None,
        timeout_s=common.timeout,
        seed=common.seed,
        inject=inject,
    )
    columns, hint = (MUTANT_COLUMNS, MUTANT_HINT) if mutants else (COLUMNS, HINT)
    return run_probe("verify", config, columns, common, hint=hint)
