"""The flow of a command, on a fake machine that a runner function stands for."""

import errno
import io
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcietool import __version__
from pcietool.cli.options import BackendChoice, Common
from pcietool.cli.recorder import Recorder
from pcietool.cli.session import run_probe
from pcietool.contract.config import Config
from pcietool.contract.results import ProbeResult, Status
from pcietool.emulator.engine.trace import EventTrace, TraceEvent
from pcietool.errors import CompileError, ExitCode, OutputError, UsageError
from pcietool.report.columns import Column

MACHINE = {"backend": "emulated", "label": "fake pair", "devices": [], "links": [], "host_links": [], "facts": {}}
COLUMNS = [Column("us", "µs")]

Reports = Callable[[Recorder], None]


@dataclass(frozen=True, kw_only=True)
class FakeConfig(Config):
    iterations: int = 3


def part(status: Status = Status.PASS, transport: str = "peer") -> ProbeResult:
    samples = {"us": np.arange(3.0)}
    return ProbeResult("fake", status, f"it is {status}", transport, "counted", rows=[{"us": 1.5}], samples=samples)


def run(reports: Reports, **options: Any) -> ExitCode:
    def runner(probe: str, config: Config, common: Common, recorder: Recorder) -> None:
        recorder.describe(MACHINE)
        reports(recorder)

    hint = options.pop("hint", "")
    common = Common(**{"backend": BackendChoice.emulated, **options})
    return run_probe("fake", FakeConfig(), COLUMNS, common, {"emulated": runner}, hint)


def one_part(recorder: Recorder) -> None:
    recorder.progress("measuring peer")
    recorder.result(part())


def interrupted(recorder: Recorder) -> None:
    recorder.result(part())
    raise KeyboardInterrupt


def grown(recorder: Recorder) -> None:
    """A part in progress, with a row and a check."""
    begun = ProbeResult("fake", Status.PASS, "", "host", "counted")
    recorder.begin(begun)
    begun.rows.append({"us": 2.5})
    begun.checks.append({"name": "guards", "passed": True, "text": "untouched"})


def interrupted_meanwhile(recorder: Recorder) -> None:
    recorder.result(part())
    grown(recorder)
    raise KeyboardInterrupt


def fails_meanwhile(recorder: Recorder) -> None:
    grown(recorder)
    compile_error(recorder)


def fails_before_the_first_row(recorder: Recorder) -> None:
    recorder.begin(ProbeResult("fake", Status.PASS, "", "host", "counted"))
    compile_error(recorder)


def compile_error(recorder: Recorder) -> None:
    raise CompileError("barrier.cu:3: no such thing")


def second_part_fails(recorder: Recorder) -> None:
    recorder.result(part())
    compile_error(recorder)


@pytest.mark.parametrize(
    ("status", "code"), [("pass", 0), ("info", 0), ("waived", 6), ("fail", 3), ("hang", 4), ("error", 1)]
)
def test_the_status_decides_the_exit_code(status: str, code: int) -> None:
    assert run(lambda recorder: recorder.result(part(Status(status)))) == code


def test_stdout_carries_the_verdict_and_stderr_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    run(one_part)
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "emulated: modelled, not measured · fake pair"
    assert out.splitlines()[1].split() == ["PASS", "peer", "it", "is", "pass"]
    assert err == "pcietool: emulated backend (--backend emulated)\n"
    assert "\x1b" not in out + err


def test_verbose_shows_progress_and_quiet_only_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    run(one_part, verbose=True)
    assert "measuring peer\n" in capsys.readouterr().err
    run(one_part, quiet=True)
    out, err = capsys.readouterr()
    assert err == ""
    assert len(out.splitlines()) == 2


def test_json_on_stdout_is_alone(capsys: pytest.CaptureFixture[str]) -> None:
    run(one_part, json=Path("-"), verbose=True)
    document = json.loads(capsys.readouterr().out)
    assert document["probes"][0]["rows"] == [{"us": 1.5}]
    assert document["config"]["iterations"] == 3


def test_only_run_differs_between_two_runs(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in (0, 0, 1):
        run(one_part, json=Path("-"), seed=seed)
        document = json.loads(capsys.readouterr().out)
        document.pop("run")
        texts.append(json.dumps(document))
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_all_files_are_written_where_out_says(tmp_path: Path) -> None:
    run(one_part, out=tmp_path / "new", raw=True)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["fake.csv", "fake.json", "fake.npz"]
    assert (tmp_path / "new" / "fake.csv").read_text().splitlines() == [
        "version,backend,fabric,probe,transport,us",
        f"{__version__},emulated,,fake,peer,1.5",
    ]


def test_an_existing_file_is_refused_before_measuring(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("precious")
    measured: list[str] = []
    with pytest.raises(OutputError, match="--overwrite"):
        run(lambda recorder: measured.append("yes"), json=path)
    assert measured == []
    assert path.read_text() == "precious"
    run(one_part, json=path, overwrite=True)
    assert json.loads(path.read_text())["verdict"]["status"] == "pass"


def test_two_outputs_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="same name"):
        run(one_part, json=tmp_path / "a", csv=tmp_path / "a")
    (tmp_path / "d").mkdir()
    with pytest.raises(UsageError, match="same name"):
        run(one_part, out=tmp_path, json=tmp_path / "d" / ".." / "fake.json")
    assert run(one_part, out=tmp_path, json=tmp_path / "d" / "fake.json") == ExitCode.PASS


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    assert run(interrupted, json=path) == ExitCode.INTERRUPTED
    document = json.loads(path.read_text())
    assert document["verdict"]["status"] == "interrupted"
    assert [probe["status"] for probe in document["probes"]] == ["pass", "interrupted"]
    assert "INTERRUPTED" in capsys.readouterr().out


def test_ctrl_c_keeps_the_part_in_progress(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert run(interrupted_meanwhile, json=path) == ExitCode.INTERRUPTED
    _, host = json.loads(path.read_text())["probes"]
    assert (host["transport"], host["status"], host["reason"]) == ("host", "interrupted", "Ctrl-C")
    assert host["rows"] == [{"us": 2.5}]
    assert [check["name"] for check in host["checks"]] == ["guards"]
    assert host["verdict"] == "ended early; rows so far: 1, checks: 1; complete before: peer"


def test_a_finished_part_is_not_cut_short_by_what_comes_later(tmp_path: Path) -> None:
    def finished_then_interrupted(recorder: Recorder) -> None:
        grown(recorder)
        recorder.result(part(transport="host"))
        raise KeyboardInterrupt

    path = tmp_path / "result.json"
    run(finished_then_interrupted, json=path)
    probes = json.loads(path.read_text())["probes"]
    assert [(probe["transport"], probe["status"]) for probe in probes] == [("host", "pass"), ("-", "interrupted")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_a_run_as_ctrl_c_does(number: signal.Signals, tmp_path: Path) -> None:
    def signalled(recorder: Recorder) -> None:
        grown(recorder)
        os.kill(os.getpid(), number)

    path = tmp_path / "result.json"
    before = signal.signal(number, signal.SIG_DFL)  # as it may be ignored, under nohup
    try:
        assert run(signalled, json=path) == ExitCode.INTERRUPTED
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    (probe,) = json.loads(path.read_text())["probes"]
    assert (probe["rows"], probe["reason"]) == ([{"us": 2.5}], number.name)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    def signalled(recorder: Recorder) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        recorder.result(part())

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(signalled) == ExitCode.PASS
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_failure_keeps_the_part_in_progress(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(CompileError):
        run(fails_meanwhile, json=path)
    (probe,) = json.loads(path.read_text())["probes"]
    assert (probe["status"], probe["transport"], probe["rows"]) == ("error", "host", [{"us": 2.5}])


def test_a_failure_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(CompileError, match="no such thing"):
        run(second_part_fails, json=path)
    document = json.loads(path.read_text())
    assert [probe["status"] for probe in document["probes"]] == ["pass", "error"]
    assert document["probes"][1]["reason"] == "barrier.cu:3: no such thing"


@pytest.mark.parametrize("failure", [compile_error, fails_before_the_first_row])
def test_a_failure_before_any_row_leaves_no_file(
    failure: Reports, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CompileError):
        run(failure, json=tmp_path / "result.json")
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_a_result_that_cannot_be_written_is_still_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"

    def meanwhile(recorder: Recorder) -> None:
        path.write_text("precious")
        recorder.result(part())

    with pytest.raises(OutputError):
        run(meanwhile, json=path)
    assert "PASS" in capsys.readouterr().out
    assert path.read_text() == "precious"


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("options", [{}, {"json": Path("-")}])
def test_a_full_disk_behind_stdout_is_one_line(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", FullDisk())
    with pytest.raises(OutputError, match="No space left"):
        run(one_part, **options)


def test_a_hint_follows_a_verdict_without_fault_only(capsys: pytest.CaptureFixture[str]) -> None:
    for status, shown in ((Status.INFO, True), (Status.FAIL, False)):

        def reports(recorder: Recorder, status: Status = status) -> None:
            recorder.result(part(status))

        run(reports, hint="read the docs")
        assert ("read the docs" in capsys.readouterr().out) is shown
    run(one_part, hint="read the docs", quiet=True)
    assert "read the docs" not in capsys.readouterr().out


def test_the_config_says_what_ran_where_the_user_chose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def reports(recorder: Recorder) -> None:
        devices = [{"index": 0, "machine_index": 3}, {"index": 1, "machine_index": 1}]
        recorder.describe({**MACHINE, "devices": devices, "facts": {"fabric": "fake"}})
        one_part(recorder)

    run(reports, json=Path("-"))
    config = json.loads(capsys.readouterr().out)["config"]
    assert (config["gpus"], config["num_gpus"], config["fabric"]) == (["3", "1"], 2, "fake")


def test_a_bug_names_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    def bug(recorder: Recorder) -> None:
        recorder.result(part())
        raise KeyError("slot")

    with pytest.raises(KeyError):
        run(bug)
    assert "KeyError: 'slot'" in capsys.readouterr().out


def traced(limit: int) -> Reports:
    """A run of three events, of which a trace keeps `limit`."""

    def reports(recorder: Recorder) -> None:
        recorder.trace = EventTrace(limit)
        for time in range(3):
            recorder.trace.add(TraceEvent(time, 1.0, "load", (0, 0, 0), None, "'slot'+0 on GPU 0", time, "a.cu:1", "k"))
        one_part(recorder)

    return reports


def test_a_trace_is_written_and_says_where_to_open_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    assert run(traced(3), trace=path) == ExitCode.PASS
    document = json.loads(path.read_text())
    assert [event["args"]["value"] for event in document["traceEvents"] if event["name"] == "load"] == [0, 1, 2]
    assert document["otherData"]["command"] == "fake"
    said = capsys.readouterr().err
    assert "perfetto" in said
    assert "missing" not in said


def test_a_trace_that_is_cut_says_so_on_screen_and_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    assert run(traced(2), trace=path) == ExitCode.PASS
    other = json.loads(path.read_text())["otherData"]
    assert (other["events"], other["events_left_out"], other["complete"]) == (2, 1, False)
    assert "ends after the first 2 events, 1 are missing" in capsys.readouterr().err


def test_a_trace_never_replaces_a_file_unasked(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("precious")
    with pytest.raises(OutputError, match="--overwrite"):
        run(traced(3), trace=path)
    assert path.read_text() == "precious"
    assert run(traced(3), trace=path, overwrite=True) == ExitCode.PASS
    assert json.loads(path.read_text())
    with pytest.raises(UsageError, match="same name"):
        run(traced(3), trace=path, json=Path(str(path)), overwrite=True)
    with pytest.raises(UsageError, match="--trace needs a file"):
        run(traced(3), trace=Path("-"))
