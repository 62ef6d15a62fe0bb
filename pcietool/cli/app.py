"""The Typer application: which commands there are, and where help lists them.

Heavy imports belong inside a command's body: `--help` must not import numpy, pandas or CUDA.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import pcietool
from pcietool.cli.command import Command
from pcietool.cli.commands import (
    atomic_loss,
    barrier_latency,
    check,
    compare_nccl,
    litmus,
    signal_latency,
    verify,
    watermark,
)

MEASURE = "Measure"
PROVE = "Prove"

COMMANDS: dict[str, Command] = {}


class _Group(TyperGroup):
    """Knows commands by their help, and the options of the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, COMMANDS[name].with_options() if name else command, rest


app = typer.Typer(
    name="pcietool",
    cls=_Group,
    help="What cross-GPU synchronisation on this machine really does: how fast, how safe, what breaks.",
    epilog="Exit codes: 0 pass, 1 tool error, 2 usage, 3 wrong data, 4 hang,"
    " 6 nothing could run here, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from pcietool.report.result import git_revision

    revision = git_revision()
    source = f"git {revision['commit']}" if revision["commit"] else revision["reason"]
    changes = ", with local changes" if revision["dirty"] else ""
    print(f"pcietool {pcietool.__version__} ({source}{changes})")
    raise typer.Exit()


def _print_header(wanted: bool) -> None:
    if not wanted:
        return
    from pcietool.data import kernel_source

    print(kernel_source("slots.cuh"), end="")
    raise typer.Exit()


def _print_list(wanted: bool) -> None:
    if not wanted:
        return
    from pcietool.emulator.fabric.fabric import load_fabric, packaged_fabrics

    print("fabrics, for --fabric:")
    names = packaged_fabrics()
    widest = max(map(len, names))
    for name in names:
        print(f"  {name:<{widest}}  {load_fabric(name).description}")
    raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    print_header: Annotated[
        bool,
        typer.Option(
            "--print-header",
            callback=_print_header,
            is_eager=True,
            help="Print slots.cuh, the signal and wait primitives, for use in your own kernel.",
        ),
    ] = False,
    listed: Annotated[
        bool,
        typer.Option("--list", callback=_print_list, is_eager=True, help="List the modelled machines for --fabric."),
    ] = False,
) -> None:
    """Options that stand before the command."""


def _add(command: Command, panel: str) -> None:
    """Help lists it in that panel."""
    COMMANDS[command.name] = command
    app.command(command.name, help=command.help, rich_help_panel=panel)(lambda: None)


_add(signal_latency.signal_latency, MEASURE)
_add(barrier_latency.barrier_latency, MEASURE)
_add(atomic_loss.atomic_loss, MEASURE)
_add(watermark.watermark, MEASURE)
_add(compare_nccl.compare_nccl, MEASURE)
_add(check.check, PROVE)
_add(verify.verify, PROVE)
_add(litmus.litmus, PROVE)
