"""`pcietool signal-latency`: parse, call, render."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcietool.cli.options import Common, Inject, Transport, with_common
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import gb_per_s, micros, parse_size, percent


class PollChoice(StrEnum):
    """Mirrors probes.ping_pong.Poll, which is too heavy to import for --help."""

    local = "local"
    remote = "remote"
    all = "all"


class Wait(StrEnum):
    """Mirrors probes.ping_pong.Wait."""

    acquire = "acquire"
    relaxed_fence = "relaxed-fence"
    acquire_polls = "acquire-polls"


class Pairing(StrEnum):
    """Mirrors probes.signal_config.Pairing."""

    isolated = "isolated"
    disjoint = "disjoint"
    all = "all"


class LoadChoice(StrEnum):
    """Mirrors probes.ping_pong.Load, and all of them."""

    none = "none"
    push = "push"
    pull = "pull"
    both = "both"
    all = "all"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}"


COLUMNS = (
    Column("varied", "what"),
    Column("pairs_text", "GPUs"),
    Column("one_way_us_p50", "p50 µs", micros),
    Column("one_way_us_p95", "p95 µs", micros),
    Column("one_way_us_to_base", "x base", _times),
    Column("moved_gb_per_s", "GB/s", gb_per_s),
    Column("moved_gb_per_s_to_alone_median", "of alone", percent),
)
_SIGNAL = "Signal"
_PAYLOAD = "Payload"
HINT = "docs/signal-latency.md explains the rows; --load adds traffic, --poll, --wait and --pairs choose rows"


@with_common
def signal_latency(
    common: Common,
    transport: Transport = None,
    iters: Annotated[
        int | None,
        typer.Option(
            "--iters",
            "-n",
            min=1,
            show_default=False,
            help="Rounds of one kernel that are measured. Default: 1000 on GPUs, 10 emulated.",
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup",
            "-w",
            min=0,
            show_default=False,
            help="Rounds before that, which are not. Default: 20 on GPUs, 2 emulated.",
        ),
    ] = None,
    poll: Annotated[
        PollChoice,
        typer.Option(
            help="Slots with the one who waits, or across the link with the one who writes (peer).",
            rich_help_panel=_SIGNAL,
        ),
    ] = PollChoice.all,
    wait: Annotated[
        list[Wait] | None,
        typer.Option(help="How to wait; can be repeated. Default: all.", show_default=False, rich_help_panel=_SIGNAL),
    ] = None,
    nanosleep: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            max=1_000_000,
            help="Nanoseconds between polls; can be repeated. Default: 0, 20 and 64.",
            show_default=False,
            rich_help_panel=_SIGNAL,
        ),
    ] = None,
    pairs: Annotated[
        list[Pairing] | None,
        typer.Option(
            help="Pairs that play at once: one, those that share no GPU, all; can be repeated. Default: each in turn.",
            show_default=False,
            rich_help_panel=_SIGNAL,
        ),
    ] = None,
    load: Annotated[
        LoadChoice,
        typer.Option(help="Bulk traffic on the same links meanwhile; all: each in turn.", rich_help_panel=_SIGNAL),
    ] = LoadChoice.none,
    min_bytes: Annotated[
        str, typer.Option("--min-bytes", "-b", metavar="SIZE", help="Smallest payload.", rich_help_panel=_PAYLOAD)
    ] = "8",
    max_bytes: Annotated[
        str | None,
        typer.Option(
            "--max-bytes",
            "-e",
            metavar="SIZE",
            help="Largest payload, at most 64K. Default: 64K on GPUs, 1K emulated.",
            show_default=False,
            rich_help_panel=_PAYLOAD,
        ),
    ] = None,
    factor: Annotated[
        int, typer.Option("--factor", "-f", min=2, help="From one size to the next.", rich_help_panel=_PAYLOAD)
    ] = 8,
    inject: Inject = None,
) -> ExitCode:
    """How long a signal takes from one GPU to another, for every ordered pair, and what waiting for it costs.

    One GPU stores round k into a slot of the other, which waits for it and answers: a ping-pong. Half of a round trip
    is one way. Then one thing varies at a time: how to wait, where the polled slot lies, data that travels with the
    signal, other pairs at the same time, load on the links.
    """
    from pcietool.cli.session import make_config, run_probe
    from pcietool.probes import PROBES

    model, _ = PROBES["signal-latency"]
    chosen = {"waits": wait, "nanosleeps_ns": nanosleep, "pairings": pairs}
    config = make_config(
        model,
        transport=transport,
        iterations=iters,
        warmup=warmup,
        timeout_s=common.timeout,
        polls=("local", "remote") if poll is PollChoice.all else (poll,),
        load=load,
        min_bytes=parse_size(min_bytes),
        max_bytes=None if max_bytes is None else parse_size(max_bytes),
        factor=factor,
        inject=inject,
        **{name: tuple(values) for name, values in chosen.items() if values},
    )
    return run_probe("signal-latency", config, COLUMNS, common, hint=HINT)
