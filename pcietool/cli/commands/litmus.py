"""`pcietool litmus`: parse, call, render."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pcietool.cli.command import Asked, command
from pcietool.cli.options import STDOUT, BackendChoice, Common
from pcietool.errors import ExitCode, UsageError
from pcietool.report.columns import Column
from pcietool.units import count

if TYPE_CHECKING:
    from pcietool.cli.backends import Runner
    from pcietool.cli.recorder import Recorder
    from pcietool.contract.config import Config
    from pcietool.contract.results import ProbeResult


MODEL_COLUMNS = (
    Column("test", "test"),
    Column("verdict", "verdict"),
    Column("expected", "expected"),
    Column("status", "status"),
    Column("outcome_count", "outcomes", count),
    Column("states", "states", count),
    Column("hung_states", "hung", lambda hung: count(hung) if hung else ""),
)
TRIAL_COLUMNS = (
    Column("test", "test"),
    Column("verdict", "model"),
    Column("trials", "trials", count),
    Column("seen", "seen", count),
    Column("outcome_count", "outcomes", count),
    Column("status", "status"),
)
ABOUT_TRIALS = ("backend", "gpus", "num_gpus", "fabric", "timeout", "seed")
"""Common options that mean something only to a machine."""


@command("litmus", common=(*ABOUT_TRIALS, "json", "csv", "out", "overwrite", "quiet", "verbose", "no_color"))
def litmus(
    asked: Asked,
    outcomes: Annotated[bool, typer.Option("--outcomes", help="Print every outcome; * marks those asked for.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print one execution that does what is asked for, and one that never ends.")
    ] = False,
) -> ExitCode:
    """Which outcomes of a small program PTX allows: every execution of the memory model, not a sample, and its axioms
    where the model has gaps. With --trials, which of them a machine shows as well.

    A test that names its verdict (expect: allowed or forbidden) and gets the other one makes exit code 3, and so does a
    forbidden outcome that a machine shows; an execution that can never end makes exit code 4. Without --trials nothing
    runs on a GPU; what hardware shows is often less than what the model allows. docs/litmus.md has the format.
    """
    common = asked.common
    if (outcomes or trace) and (common.quiet or common.json == STDOUT):
        printed, silent = "--outcomes" if outcomes else "--trace", "--quiet" if common.quiet else "--json -"
        raise UsageError(f"{printed} prints more than {silent} lets through; leave one of them out")
    code, results = _explore(asked) if asked.words["trials"] is None else _run_trials(asked)
    if outcomes or trace:
        _print_findings(results, common, outcomes, trace)
    return code


def _refuse_options_of_trials(asked: Asked) -> None:
    """An option that would change nothing is a mistake."""
    default = Common()
    given = [name for name in ABOUT_TRIALS if getattr(asked.common, name) != getattr(default, name)]
    if asked.words["place"] is not None:
        given.append("place")
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise UsageError(f"{names}: the model needs no machine; add --trials N to run the tests on one")


def _explore(asked: Asked) -> tuple[ExitCode, list[ProbeResult]]:
    """On the model alone."""
    from pcietool.cli.session import run_probe
    from pcietool.probes.litmus import probe as question
    from pcietool.probes.litmus.config import LitmusConfig

    _refuse_options_of_trials(asked)

    results: list[ProbeResult] = []

    def explore(probe: str, config: Config, common: Common, recorder: Recorder) -> None:
        assert isinstance(config, LitmusConfig)
        recorder.opening = ""  # there was no machine to choose
        recorder.describe(question.MACHINE)
        results.append(question.run(config, recorder))

    config = asked.config(LitmusConfig)
    on_model = replace(asked.common, backend=BackendChoice.emulated)
    return run_probe(asked.command, config, MODEL_COLUMNS, on_model, runners={"emulated": explore}), results


def _run_trials(asked: Asked) -> tuple[ExitCode, list[ProbeResult]]:
    """On a machine, beside the model."""
    from pcietool.cli.backends import RUNNERS
    from pcietool.cli.session import run_probe
    from pcietool.probes.litmus.config import TrialsConfig

    results: list[ProbeResult] = []

    def keeping(runner: Runner) -> Runner:
        def run(probe: str, config: Config, common: Common, recorder: Recorder) -> None:
            try:
                runner(probe, config, common, recorder)
            finally:
                results.extend(recorder.results)

        return run

    runners = {backend: keeping(runner) for backend, runner in RUNNERS.items()}
    return run_probe(asked.command, asked.config(TrialsConfig), TRIAL_COLUMNS, asked.common, runners=runners), results


def _print_findings(results: Sequence[ProbeResult], common: Common, outcomes: bool, trace: bool) -> None:
    from pcietool.cli.session import printing
    from pcietool.report.litmus import print_findings
    from pcietool.report.tables import make_console

    console = make_console(sys.stdout, not common.no_color)
    with console.capture() as findings:
        for result in results:
            print_findings(console, result.rows, outcomes, trace)
    with printing():
        sys.stdout.write(findings.get())
