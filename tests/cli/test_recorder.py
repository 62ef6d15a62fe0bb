"""What a run says of itself while it runs, by a clock of ours."""

import io
import threading
from typing import Any

import pytest

from pcietool.cli.recorder import SILENCE_S, Recorder
from pcietool.contract.results import ProbeResult, Status
from pcietool.report.tables import make_console
from tests.clock import Clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def recorder(clock: Clock, stderr: io.StringIO, **options: Any) -> Recorder:
    return Recorder(make_console(stderr), clock=clock.monotonic, **options)


def test_without_a_terminal_a_line_breaks_each_long_silence() -> None:
    clock, stderr = Clock(0.0), io.StringIO()
    seen = recorder(clock, stderr)
    seen.progress("peer: dispatch, 2 of 5")
    for _ in range(25):
        clock.sleep(1.0)
        seen.beat()
    seen.result(ProbeResult("verify", Status.PASS, "good", "peer", "as it is"))
    seen.progress("host: signal, 1 of 5")
    clock.sleep(SILENCE_S)
    seen.beat()
    assert stderr.getvalue().splitlines() == [
        "pcietool: 10 s: peer: dispatch, 2 of 5",
        "pcietool: 20 s: peer: dispatch, 2 of 5",
        "pcietool: 35 s: host: signal, 1 of 5; complete: peer",
    ]


def test_a_short_run_and_a_quiet_one_say_nothing() -> None:
    for seconds, options in ((SILENCE_S - 1, {}), (1000.0, {"quiet": True})):
        clock, stderr = Clock(0.0), io.StringIO()
        seen = recorder(clock, stderr, **options)
        clock.sleep(seconds)
        seen.beat()
        assert stderr.getvalue() == ""


def test_a_terminal_shows_what_runs_and_for_how_long() -> None:
    clock, stderr = Clock(0.0), Terminal()
    seen = recorder(clock, stderr)
    with seen:
        clock.sleep(3.0)
        seen.progress("peer: dispatch, 2 of 5")
    assert "3 s: peer: dispatch, 2 of 5" in stderr.getvalue()


def test_what_verbose_prints_is_no_silence() -> None:
    clock, stderr = Clock(0.0), io.StringIO()
    seen = recorder(clock, stderr, verbose=True)
    clock.sleep(SILENCE_S - 1)
    seen.progress("peer: barrier")
    clock.sleep(SILENCE_S - 1)
    seen.beat()
    assert stderr.getvalue() == "peer: barrier\n"


class Heard(io.StringIO):
    """Says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.anything = threading.Event()

    def flush(self) -> None:
        self.anything.set()


def test_while_it_runs_it_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcietool.cli.recorder.BEAT_S", 0.001)
    stderr = Heard()
    with recorder(Clock(SILENCE_S), stderr):
        assert stderr.anything.wait(60)
    assert "s: preparing" in stderr.getvalue()
