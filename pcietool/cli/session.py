"""The flow that every measuring command shares: check, choose a machine, run, save, show, and say how it ended.

No science and no CUDA; what is saved and shown is built by pcietool.report.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pcietool.cli.backends import RUNNERS, Runner, choose_backend
from pcietool.cli.options import Common
from pcietool.cli.outputs import Outputs
from pcietool.cli.recorder import Recorder
from pcietool.errors import ExitCode, OutputError, PcietoolError, UsageError
from pcietool.machines.base import Backend
from pcietool.probes.base import ProbeResult, Status
from pcietool.report import result as report
from pcietool.report import tables
from pcietool.report.columns import Column
from pcietool.report.files import json_text
from pcietool.units import MISSING

Config = TypeVar("Config", bound=BaseModel)


def make_config(model: type[Config], **values: Any) -> Config:
    """A probe's config from the command line's values. Raises UsageError with one line for all that is wrong."""
    try:
        return model(**values)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, p['loc'])) or 'options'}: {p['msg']}" for p in error.errors())
        raise UsageError("; ".join(problems)) from error


def run_probe(
    probe: str,
    config: BaseModel,
    columns: Sequence[Column],
    common: Common,
    runners: Mapping[Backend, Runner] = RUNNERS,
) -> ExitCode:
    """Runs a probe and leaves its result where the user asked; what was measured before a failure or Ctrl-C is kept.

    Raises PcietoolError, or what the probe raised, after saving.
    """
    outputs = Outputs.plan(common, probe)
    backend, why = choose_backend(common)
    recorder = Recorder(tables.make_console(sys.stderr, not common.no_color), common.quiet, common.verbose)
    stopwatch = report.Stopwatch.start()
    recorder.note(f"{backend} backend ({why})")

    failure = _run_and_record(runners[backend], probe, config, common, recorder)
    if failure and not recorder.results:
        raise failure
    if failure:
        recorder.result(_cut_short(probe, recorder, Status.ERROR, _reason(failure)))

    machine = recorder.machine or _undescribed(backend)
    document = report.build_document(machine, _effective_config(config, common), recorder.results, stopwatch)
    try:
        outputs.write(document, recorder.results, recorder.note)
    finally:
        _print(document, recorder.results, columns, common, outputs.json_on_stdout)
    if failure:
        raise failure
    return report.exit_code(recorder.results)


def _run_and_record(
    runner: Runner, probe: str, config: BaseModel, common: Common, recorder: Recorder
) -> Exception | None:
    """Runs the probe; a failure is returned, and Ctrl-C recorded as a result, so that the rest can be saved."""
    try:
        with recorder:
            runner(probe, config, common, recorder)
    except KeyboardInterrupt:
        recorder.result(_cut_short(probe, recorder, Status.INTERRUPTED, "Ctrl-C"))
    except Exception as error:
        return error
    return None


def _cut_short(probe: str, recorder: Recorder, status: Status, reason: str) -> ProbeResult:
    measured = ", ".join(result.transport for result in recorder.results) or "nothing"
    return ProbeResult(
        name=probe,
        status=status,
        verdict=f"ended early; measured before: {measured}",
        transport=MISSING,
        method="not measured",
        reason=reason,
    )


def _reason(failure: Exception) -> str:
    return str(failure) if isinstance(failure, PcietoolError) else f"{type(failure).__name__}: {failure}"


def _effective_config(config: BaseModel, common: Common) -> dict[str, Any]:
    return {
        **config.model_dump(mode="json"),
        "gpus": common.gpu_names,
        "num_gpus": common.num_gpus,
        "fabric": common.fabric,
        "seed": common.seed,
    }


def _undescribed(backend: Backend) -> dict[str, Any]:
    """A machine that said nothing about itself before the run ended."""
    return {"backend": backend, "label": "unknown", "devices": [], "links": [], "host_links": [], "facts": {}}


def _print(
    document: report.Document,
    results: Sequence[ProbeResult],
    columns: Sequence[Column],
    common: Common,
    as_json: bool,
) -> None:
    """On standard output. Raises OutputError; a reader that left is nobody's error."""
    try:
        if as_json:
            sys.stdout.write(json_text(document))
        else:
            console = tables.make_console(sys.stdout, not common.no_color)
            tables.print_verdict(console, results, document["backend"], document["machine"]["label"])
            if not common.quiet:
                tables.print_details(console, results, columns, document["backend"])
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the result could not be printed: {error.strerror}; write it with --json FILE") from error
