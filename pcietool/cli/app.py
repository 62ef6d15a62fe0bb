"""The Typer application: which commands there are, and where help lists them.

Heavy imports belong inside a command's body: `--help` must not import numpy, pandas or CUDA.
"""

from __future__ import annotations

from typing import Annotated

import typer

import pcietool
from pcietool.cli.commands import atomic_loss, barrier_latency, compare_nccl, litmus, signal_latency, verify, watermark

MEASURE = "Measure"
PROVE = "Prove"

app = typer.Typer(
    name="pcietool",
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


app.command("signal-latency", rich_help_panel=MEASURE)(signal_latency.signal_latency)
app.command("barrier-latency", rich_help_panel=MEASURE)(barrier_latency.barrier_latency)
app.command("atomic-loss", rich_help_panel=MEASURE)(atomic_loss.atomic_loss)
app.command("watermark", rich_help_panel=MEASURE)(watermark.watermark)
app.command("compare-nccl", rich_help_panel=MEASURE)(compare_nccl.compare_nccl)
app.command("verify", rich_help_panel=PROVE)(verify.verify)
app.command("litmus", rich_help_panel=PROVE)(litmus.litmus)
