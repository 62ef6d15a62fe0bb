"""The parent's side against a real child process on the emulated tenant."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcietool.contract.results import ProbeResult, Row, Status
from pcietool.errors import CompileError, DriverError, ExitCode, NothingToRunError, PcietoolError, UsageError
from pcietool.machines.presence import driver_present
from pcietool.supervision.child import Limits, run_in_child
from tests.processes import is_gone, wait_until_gone
from tests.supervision.child_probes import Config


class Observer:
    def __init__(self, on_progress: Callable[[str], None] = lambda text: None) -> None:
        self.machine: Mapping[str, Any] = {}
        self.progressed: list[str] = []
        self.results: list[ProbeResult] = []
        self.begun = ProbeResult("", Status.ERROR, "nothing begun", "", "")
        self._on_progress = on_progress

    def describe(self, machine: Mapping[str, Any]) -> None:
        self.machine = machine

    def progress(self, text: str) -> None:
        self.progressed.append(text)
        self._on_progress(text)

    def begin(self, result: ProbeResult) -> None:
        self.begun = result

    def result(self, result: ProbeResult) -> None:
        self.results.append(result)


def run(
    probe: str, observer: Observer | None = None, config: Config | None = None, **options: Any
) -> list[ProbeResult]:
    options = {"backend": "emulated", "registry": "tests.supervision.child_probes:PROBES"} | options
    return run_in_child(probe, config or Config(), observer or Observer(), **options)


def test_progress_results_and_the_machine_arrive() -> None:
    observer = Observer()
    (result,) = run("finished", observer, Config(value=5))
    assert observer.results == [result]
    assert observer.progressed == ["measuring"]
    assert (result.status, result.rows) == (Status.PASS, [{"one_way_us": 5.0, "count": 3}])
    np.testing.assert_array_equal(result.samples["rounds"], np.arange(6).reshape(2, 3))
    assert result.samples["rounds"].dtype == np.uint16
    assert observer.machine["backend"] == "emulated"
    assert len(observer.machine["links"]) == len(observer.machine["devices"]) * (len(observer.machine["devices"]) - 1)
    assert "after" in observer.machine["facts"]
    assert list(observer.machine["facts"]["kernels_sha256"]) == ["placement.cu"]


@pytest.mark.parametrize(
    ("probe", "kind", "message"),
    [
        ("refused", CompileError, "the compiler refused it"),
        ("usage", UsageError, "that makes no sense"),
        ("stuck_kernel", DriverError, "a kernel broke its context"),
    ],
)
def test_errors_keep_their_class(probe: str, kind: type[PcietoolError], message: str) -> None:
    with pytest.raises(kind) as caught:
        run(probe)
    assert type(caught.value) is kind
    assert str(caught.value) == message


def test_a_bug_in_the_child_says_where() -> None:
    with pytest.raises(PcietoolError, match=r"IndexError: .* at .*child_probes\.py:\d+"):
        run("broken")


def test_a_crash_names_the_signal_and_quotes_the_last_line() -> None:
    with pytest.raises(DriverError, match="died from SIGSEGV while starting; its last line: last words"):
        run("crashes")


def test_a_silent_child_is_killed_and_earlier_results_stay() -> None:
    observer = Observer()
    kept, hang = run("silent", observer, limits=Limits(quiet_s=60, margin_s=0.5))
    assert (kept.verdict, hang.status) == ("first part", Status.HANG)
    assert "spin_forever on GPU 0" in hang.verdict
    assert "said nothing for 0.7 s" in (hang.reason or "")
    assert "nvidia-smi --gpu-reset" in (hang.reason or "")
    assert observer.results == [kept, hang]


def test_the_same_silence_outside_a_round_is_no_hang() -> None:
    (result,) = run("finished", limits=Limits(quiet_s=60, margin_s=0.0))
    assert result.status is Status.PASS


def test_ctrl_c_is_passed_on_and_results_stay() -> None:
    def press_ctrl_c(text: str) -> None:
        raise KeyboardInterrupt

    observer = Observer(press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        run("interruptible", observer)
    assert [result.verdict for result in observer.results] == ["first part"]


GROWN_ROWS = [{"one_way_us": 1.5}, {"one_way_us": 2.5}]


def test_a_part_grows_at_the_parent_until_it_is_finished() -> None:
    seen: list[Row] = []
    observer: Observer = Observer(lambda text: seen.extend(observer.begun.rows))
    (result,) = run("growing_then_finished", observer)
    assert seen == GROWN_ROWS[:1]
    assert (result.verdict, result.rows, len(result.checks)) == ("fine", GROWN_ROWS, 1)


def test_an_error_leaves_the_part_in_progress() -> None:
    observer = Observer()
    with pytest.raises(CompileError):
        run("growing_then_error", observer)
    assert (observer.begun.transport, observer.begun.rows) == ("peer", GROWN_ROWS)
    assert [check["name"] for check in observer.begun.checks] == ["guards"]
    assert observer.results == []


def test_ctrl_c_leaves_the_part_in_progress() -> None:
    def press_ctrl_c(text: str) -> None:
        if text == "now":
            raise KeyboardInterrupt

    observer = Observer(press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        run("growing_then_interrupted", observer)
    assert observer.begun.rows == GROWN_ROWS


def test_a_killed_child_ends_the_part_in_progress() -> None:
    (hang,) = run("growing_then_silent", limits=Limits(quiet_s=60, margin_s=0.5))
    assert (hang.status, hang.transport, hang.rows) == (Status.HANG, "peer", GROWN_ROWS)
    assert "said nothing for 0.7 s" in (hang.reason or "")


def test_a_child_does_not_outlive_its_parent() -> None:
    program = """
from tests.supervision.test_child import Observer, run
run("orphaned", Observer(lambda text: print(text, flush=True)))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not is_gone(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until_gone(pid)


@pytest.mark.skipif(driver_present(), reason="this machine has a driver")
def test_without_a_driver_there_is_nothing_to_run() -> None:
    with pytest.raises(NothingToRunError, match="no NVIDIA driver found") as caught:
        run("finished", backend="cuda")
    assert caught.value.exit_code == ExitCode.NOTHING_RAN


def test_the_parent_imports_no_cuda() -> None:
    source = Path(run_in_child.__code__.co_filename).read_text(encoding="utf-8")
    assert "cuda.bindings" not in source
