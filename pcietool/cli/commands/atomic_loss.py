"""`pcietool atomic-loss`: parse, call, render."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcietool.cli.options import Common, Inject, Transport, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import count, percent


class Operation(StrEnum):
    """Mirrors probes.counting.Operation, which is too heavy to import for --help."""

    add = "add"
    inc = "inc"
    dec = "dec"
    cas = "cas"
    exch = "exch"


class Kind(StrEnum):
    """Mirrors probes.counting.Kind."""

    atom = "atom"
    red = "red"


class Scope(StrEnum):
    """Mirrors probes.counting.Scope."""

    sys = "sys"
    gpu = "gpu"


def _numbers(requesters: str) -> str:
    """ "GPUs 0-3" -> "0-3": the heading has the rest."""
    return requesters.removeprefix("GPU").removeprefix("s").strip()


COLUMNS = (
    Column("requesters_text", "GPUs", _numbers),
    Column("form", "with"),
    Column("concurrency", "grid"),
    Column("expected", "expected", count),
    Column("seen", "seen", count),
    Column("lost_fraction", "lost", percent),
    Column("predicted_lost_fraction", "1-1/N", percent),
    Column("repeated_old_values", "twice", count),
)
_COUNTING = "Counting"
HINT = "docs/atomic-loss.md explains the rows; --operation and --concurrency choose what counts, --home the word's GPU"


@with_common
def atomic_loss(
    common: Common,
    transport: Transport = None,
    iters: Annotated[
        int | None,
        typer.Option(
            "--iters",
            "-n",
            min=1,
            show_default=False,
            help="Operations of each thread. Default: fewer the more threads; 20 to 2000 on GPUs, 8 to 128 emulated.",
        ),
    ] = None,
    operation: Annotated[
        list[Operation] | None,
        typer.Option(
            help="What to count with; can be repeated. Default: add.", show_default=False, rich_help_panel=_COUNTING
        ),
    ] = None,
    kind: Annotated[
        list[Kind] | None,
        typer.Option(
            help="With its result used (atom) or without one (red); can be repeated. Default: both.",
            show_default=False,
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="Can be repeated. Default: both.", show_default=False, rich_help_panel=_COUNTING),
    ] = None,
    concurrency: Annotated[
        list[str] | None,
        typer.Option(
            "--concurrency",
            "-c",
            metavar="BLOCKSxTHREADS",
            help="Threads of each GPU; can be repeated. Default: 1x1 to 64x256 on GPUs, 1x1 and 2x32 emulated.",
            show_default=False,
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    home: Annotated[
        int,
        typer.Option(
            min=0,
            help="GPU whose memory holds the word (peer); 0 is the first of --gpus.",
            rich_help_panel=_COUNTING,
        ),
    ] = 0,
    inject: Inject = None,
) -> ExitCode:
    """Whether a count by several GPUs, or a GPU and the CPU, on one word comes out right.

    Atomics are only atomic where the whole path supports them. Elsewhere they become a read and a write, two
    requesters read the same value, and one of their increments is lost without any error. The same count through
    single-writer slots stands beside it.
    """
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["atomic-loss"]
    chosen = {"operations": operation, "kinds": kind, "scopes": scope, "concurrency": concurrency}
    config = make_config(
        model,
        transport=transport,
        iterations=iters,
        home=home,
        timeout_s=common.timeout,
        inject=inject,
        **{name: tuple(values) for name, values in chosen.items() if values},
    )
    return run_probe("atomic-loss", config, COLUMNS, common, hint=HINT)
