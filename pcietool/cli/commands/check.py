"""`pcietool check`: parse, call, render."""

from __future__ import annotations

from dataclasses import replace

from pcietool.cli.command import OF_ALL, Asked, command
from pcietool.cli.options import BackendChoice
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import micros

COLUMNS = (
    Column("engine", "order"),
    Column("size", "size"),
    Column("tried", "tried"),
    Column("elapsed_us", "µs", micros),
    Column("elapsed_us_p95", "p95 µs", micros),
    Column("says", "found"),
)


@command("check", common=(*OF_ALL, "sarif"))
def check(asked: Asked) -> ExitCode:
    """Whether a kernel of your own hangs, tears or loses data, and which fence it needs or lacks.

    A scenario says how kernels are launched and what has to come of it. They are run in timing order, in random order
    by seed, and at a small size in every order that PTX allows; then with each ordering weakened, or, where something
    is wrong, with more order, until it is right. All of that is emulated; --backend cuda runs them on GPUs: right or
    not, how long, and what each ordering costs. docs/check.md leads from a kernel to a verdict.
    """
    from pcietool.cli.session import run_probe
    from pcietool.probes import PROBES
    from pcietool.report.check import print_scenarios

    config = asked.config(PROBES.config(asked.command))
    common = asked.common
    if common.backend is BackendChoice.auto:  # proofs are emulated; GPUs are asked for
        common = replace(common, backend=BackendChoice.emulated)
    return run_probe(asked.command, config, COLUMNS, common, more=print_scenarios)
