"""`pcietool litmus`: parse, call, render."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pcietool.cli.options import STDOUT, BackendChoice, Common, with_common
from pcietool.errors import ExitCode, UsageError
from pcietool.litmus.explore import MAX_STATES
from pcietool.report.columns import Column
from pcietool.units import count, parse_count

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pcietool.cli.backends import Runner
    from pcietool.cli.recorder import Recorder
    from pcietool.contract.results import ProbeResult


class Place(StrEnum):
    """Mirrors probes.litmus_machine.Placement, which is too heavy to import for --help."""

    peer = "peer"
    writer = "writer"
    host = "host"
    all = "all"


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
_TRIALS = "Trials"
ABOUT_TRIALS = ("backend", "gpus", "num_gpus", "fabric", "timeout", "seed")
"""Common options that mean something only to a machine."""


@partial(with_common, only=(*ABOUT_TRIALS, "json", "csv", "out", "overwrite", "quiet", "verbose", "no_color"))
def litmus(
    common: Common,
    tests: Annotated[
        list[str],
        typer.Argument(metavar="FILE|DIR|NAME...", help="Litmus files, or packaged tests such as mp, sb-fence, all."),
    ],
    outcomes: Annotated[bool, typer.Option("--outcomes", help="Print every outcome; * marks those asked for.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print one execution that does what is asked for, step by step.")
    ] = False,
    max_states: Annotated[int, typer.Option(min=1, help="Give up beyond this many states a test.")] = MAX_STATES,
    trials: Annotated[
        str | None,
        typer.Option(
            "--trials",
            metavar="N",
            help="Run each test so often on a machine too, such as 1M, beside the model.",
            show_default=False,
            rich_help_panel=_TRIALS,
        ),
    ] = None,
    place: Annotated[
        Place | None,
        typer.Option(
            "--place",
            help="Where variables lie in trials: in the memory of the GPU that reads each (peer), of the one that"
            " writes each (writer), or in pinned host memory (host). Default: peer and host.",
            show_default=False,
            rich_help_panel=_TRIALS,
        ),
    ] = None,
) -> ExitCode:
    """Which outcomes of a small program PTX allows: every execution of the memory model, not a sample. With --trials,
    which of them a machine shows as well.

    A test that names its verdict (expect: allowed or forbidden) and gets the other one makes exit code 3, and so does a
    forbidden outcome that a machine shows. Without --trials nothing runs on a GPU; what hardware shows is often less
    than what the model allows. docs/litmus.md has the format.
    """
    from pcietool.cli.session import make_config

    if trials is None:
        _refuse_options_of_trials(common, place)
        from pcietool.probes.litmus.probe import LitmusConfig

        config: BaseModel = make_config(LitmusConfig, tests=tuple(tests), max_states=max_states)
        code, results = _explore(config, common)
    else:
        from pcietool.probes.litmus.trials import TrialsConfig

        config = make_config(
            TrialsConfig,
            tests=tuple(tests),
            trials=parse_trials(trials),
            max_states=max_states,
            place=place,
            seed=common.seed,
            timeout_s=common.timeout,
        )
        code, results = _run_trials(config, common)
    if (outcomes or trace) and not common.quiet and common.json != STDOUT:
        _print_findings(results, common, outcomes, trace)
    return code


def parse_trials(text: str) -> int:
    """Raises UsageError."""
    try:
        return parse_count(text)
    except UsageError as error:
        raise UsageError(f"--trials {error}") from None


def _refuse_options_of_trials(common: Common, place: Place | None) -> None:
    """An option that would change nothing is a mistake."""
    default = Common()
    given = [name for name in ABOUT_TRIALS if getattr(common, name) != getattr(default, name)]
    if place is not None:
        given.append("place")
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise UsageError(f"{names}: the model needs no machine; add --trials N to run the tests on one")


def _explore(config: BaseModel, common: Common) -> tuple[ExitCode, list[ProbeResult]]:
    """On the model alone."""
    from pcietool.cli.session import run_probe
    from pcietool.probes.litmus import probe as question

    results: list[ProbeResult] = []

    def explore(probe: str, config: BaseModel, common: Common, recorder: Recorder) -> None:
        assert isinstance(config, question.LitmusConfig)
        recorder.opening = ""  # there was no machine to choose
        recorder.describe(question.MACHINE)
        results.append(question.run(config, recorder))

    on_model = replace(common, backend=BackendChoice.emulated)
    return run_probe(question.NAME, config, MODEL_COLUMNS, on_model, runners={"emulated": explore}), results


def _run_trials(config: BaseModel, common: Common) -> tuple[ExitCode, list[ProbeResult]]:
    """On a machine, beside the model."""
    from pcietool.cli.backends import RUNNERS
    from pcietool.cli.session import run_probe
    from pcietool.probes.litmus.probe import NAME

    results: list[ProbeResult] = []

    def keeping(runner: Runner) -> Runner:
        def run(probe: str, config: BaseModel, common: Common, recorder: Recorder) -> None:
            try:
                runner(probe, config, common, recorder)
            finally:
                results.extend(recorder.results)

        return run

    runners = {backend: keeping(runner) for backend, runner in RUNNERS.items()}
    return run_probe(NAME, config, TRIAL_COLUMNS, common, runners=runners), results


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
