"""The flow of a command, on a fake machine that a runner function stands for."""

import errno
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, Field

from pcietool.cli.options import BackendChoice, Common
from pcietool.cli.recorder import Recorder
from pcietool.cli.session import make_config, run_probe
from pcietool.errors import CompileError, ExitCode, OutputError, UsageError
from pcietool.probes.base import ProbeResult, Status
from pcietool.report.columns import Column

MACHINE = {"backend": "emulated", "label": "fake pair", "devices": [], "links": [], "host_links": [], "facts": {}}
COLUMNS = [Column("us", "µs")]

Reports = Callable[[Recorder], None]


class FakeConfig(BaseModel):
    iterations: int = Field(default=3, ge=1)


def part(status: Status = Status.PASS, transport: str = "peer") -> ProbeResult:
    samples = {"us": np.arange(3.0)}
    return ProbeResult("fake", status, f"it is {status}", transport, "counted", rows=[{"us": 1.5}], samples=samples)


def run(reports: Reports, **options: Any) -> ExitCode:
    def runner(probe: str, config: BaseModel, common: Common, recorder: Recorder) -> None:
        recorder.describe(MACHINE)
        reports(recorder)

    common = Common(**{"backend": BackendChoice.emulated, **options})
    return run_probe("fake", FakeConfig(), COLUMNS, common, {"emulated": runner})


def one_part(recorder: Recorder) -> None:
    recorder.progress("measuring peer")
    recorder.result(part())


def interrupted(recorder: Recorder) -> None:
    recorder.result(part())
    raise KeyboardInterrupt


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
    assert (tmp_path / "new" / "fake.csv").read_text() == "probe,transport,us\nfake,peer,1.5\n"


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


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    assert run(interrupted, json=path) == ExitCode.INTERRUPTED
    document = json.loads(path.read_text())
    assert document["verdict"]["status"] == "interrupted"
    assert [probe["status"] for probe in document["probes"]] == ["pass", "interrupted"]
    assert "INTERRUPTED" in capsys.readouterr().out


def test_a_failure_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(CompileError, match="no such thing"):
        run(second_part_fails, json=path)
    document = json.loads(path.read_text())
    assert [probe["status"] for probe in document["probes"]] == ["pass", "error"]
    assert document["probes"][1]["reason"] == "barrier.cu:3: no such thing"


def test_a_failure_before_any_result_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CompileError):
        run(compile_error, json=tmp_path / "result.json")
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


def test_a_config_says_in_one_line_what_is_wrong() -> None:
    assert make_config(FakeConfig, iterations=2) == FakeConfig(iterations=2)
    with pytest.raises(UsageError, match=r"iterations: .*greater than or equal to 1"):
        make_config(FakeConfig, iterations=0)


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("options", [{}, {"json": Path("-")}])
def test_a_full_disk_behind_stdout_is_one_line(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", FullDisk())
    with pytest.raises(OutputError, match="No space left"):
        run(one_part, **options)


def test_a_bug_names_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    def bug(recorder: Recorder) -> None:
        recorder.result(part())
        raise KeyError("slot")

    with pytest.raises(KeyError):
        run(bug)
    assert "KeyError: 'slot'" in capsys.readouterr().out
