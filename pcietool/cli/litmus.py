"""`pcietool litmus`: parse, call, render."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pcietool.cli.options import STDOUT, BackendChoice, Common, with_common
from pcietool.errors import ExitCode
from pcietool.litmus.explore import MAX_STATES
from pcietool.report.columns import Column
from pcietool.units import count

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pcietool.cli.recorder import Recorder

COLUMNS = (
    Column("test", "test"),
    Column("verdict", "verdict"),
    Column("expected", "expected"),
    Column("status", "status"),
    Column("outcome_count", "outcomes", count),
    Column("states", "states", count),
    Column("hung_states", "hung", lambda hung: count(hung) if hung else ""),
)


@partial(with_common, only=("json", "csv", "out", "overwrite", "quiet", "verbose", "no_color"))
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
) -> ExitCode:
    """Which outcomes of a small program PTX allows: every execution of the memory model, not a sample.

    A test that names its verdict (expect: allowed or forbidden) and gets the other one makes exit code 3. Tests run on
    the model alone, never on a GPU: what hardware shows may be less than what the model allows. docs/litmus.md has the
    format.
    """
    from pcietool.cli.session import make_config, printing, run_probe
    from pcietool.probes import litmus as question
    from pcietool.probes.base import ProbeResult
    from pcietool.report.litmus import print_findings
    from pcietool.report.tables import make_console

    config = make_config(question.LitmusConfig, tests=tuple(tests), max_states=max_states)
    results: list[ProbeResult] = []

    def explore(probe: str, config: BaseModel, common: Common, recorder: Recorder) -> None:
        assert isinstance(config, question.LitmusConfig)
        recorder.opening = ""  # there was no machine to choose
        recorder.describe(question.MACHINE)
        results.append(question.run(config, recorder))

    on_model = replace(common, backend=BackendChoice.emulated)
    code = run_probe(question.NAME, config, COLUMNS, on_model, runners={"emulated": explore})
    if (outcomes or trace) and not common.quiet and common.json != STDOUT:
        console = make_console(sys.stdout, not common.no_color)
        with console.capture() as findings:
            for result in results:
                print_findings(console, result.rows, outcomes, trace)
        with printing():
            sys.stdout.write(findings.get())
    return code
