"""The flow that every measuring command shares: check, choose a machine, run, save, show, and say how it ended.

No science and no CUDA; what is saved and shown is built by pcietool.report.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console

from pcietool.cli.backends import RUNNERS, Runner, choose_backend
from pcietool.cli.interruptions import interruptible
from pcietool.cli.options import Common
from pcietool.cli.outputs import Outputs
from pcietool.cli.recorder import Recorder
from pcietool.contract.config import Config
from pcietool.contract.results import ProbeResult, Status
from pcietool.errors import ExitCode, OutputError, PcietoolError
from pcietool.machines.base import Backend
from pcietool.report import result as report
from pcietool.report import tables
from pcietool.report.columns import Column
from pcietool.report.files import json_text

More = Callable[[Console, Sequence[ProbeResult]], None]


def run_probe(
    probe: str,
    config: Config,
    columns: Sequence[Column],
    common: Common,
    runners: Mapping[Backend, Runner] = RUNNERS,
    hint: str = "",
    more: More = lambda console, results: None,
) -> ExitCode:
    """Runs a probe and leaves its result where the user asked; what was measured before a failure or Ctrl-C is kept.

    `hint`: where to go from a result without fault; `more` prints what a command alone has to show. Raises
    PcietoolError, or what the probe raised, after saving."""
    outputs = Outputs.plan(common, probe)
    backend, why = choose_backend(common)
    recorder = Recorder(tables.make_console(sys.stderr, not common.no_color), common.quiet, common.verbose)
    stopwatch = report.Stopwatch.start()
    recorder.opening = f"{backend} backend ({why})"

    failure = _run_and_record(runners[backend], probe, config, common, recorder)
    if failure and not recorder.has_measured:
        raise failure
    if failure:
        recorder.cut_short(probe, Status.ERROR, _reason(failure))

    machine = recorder.machine or _undescribed(backend)
    document = report.build_document(machine, _effective_config(config, common, machine), recorder.results, stopwatch)
    try:
        outputs.write(document, recorder.results, recorder.note)
        if recorder.trace is not None:
            outputs.write_trace(recorder.trace, document, recorder.note)
    finally:
        _print(document, recorder.results, columns, common, outputs.json_on_stdout, hint, more)
    if failure:
        raise failure
    return report.exit_code(recorder.results)


def _run_and_record(runner: Runner, probe: str, config: Config, common: Common, recorder: Recorder) -> Exception | None:
    """Runs the probe; a failure is returned, and Ctrl-C recorded as a result, so that the rest can be saved."""
    try:
        with interruptible(), recorder:
            runner(probe, config, common, recorder)
    except KeyboardInterrupt as interrupt:
        recorder.cut_short(probe, Status.INTERRUPTED, str(interrupt) or "Ctrl-C")
    except Exception as error:
        return error
    return None


def _reason(failure: Exception) -> str:
    return str(failure) if isinstance(failure, PcietoolError) else f"{type(failure).__name__}: {failure}"


def _effective_config(config: Config, common: Common, machine: Mapping[str, Any]) -> dict[str, Any]:
    """What each part made of the defaults is its `effort`."""
    return {
        **asdict(config),
        "gpus": common.gpu_names or [str(device.get("machine_index")) for device in machine["devices"]],
        "num_gpus": len(machine["devices"]),
        "fabric": common.fabric or machine["facts"].get("fabric"),
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
    hint: str,
    more: More,
) -> None:
    """On standard output. Raises OutputError."""
    with printing():
        if as_json:
            sys.stdout.write(json_text(document))
        else:
            console = tables.make_console(sys.stdout, not common.no_color)
            shown = None if common.quiet else columns
            tables.print_screen(console, document, results, shown, hint, every_check=common.verbose)
            if shown is not None:
                more(console, results)


@contextmanager
def printing() -> Iterator[None]:
    """What is done inside writes to standard output. Raises OutputError; a reader that left is nobody's error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains at its end
    except OSError as error:
        raise OutputError(f"the result could not be printed: {error.strerror}; write it with --json FILE") from error
