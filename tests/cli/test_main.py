"""The program as a process: exit codes, streams, start-up."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pcietool import __version__, cli
from pcietool.cli import app as application
from pcietool.errors import NothingToRunError
from pcietool.machines.presence import driver_present
from tests.cli.program import pcietool, python, refusal, words

HEAVY = ("numpy", "pandas", "cuda", "pydantic", "pcietool.machines", "pcietool.emulator", "pcietool.litmus.explore")


def test_version_and_revision() -> None:
    done = pcietool("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"pcietool {__version__} (")


def test_help_lists_commands_in_their_panel() -> None:
    done = pcietool("--help")
    assert done.returncode == 0
    assert done.stdout.index("Measure") < done.stdout.index("barrier-latency")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("command", ["", *application.COMMANDS])
def test_help_imports_nothing_heavy(command: str) -> None:
    program = f"""
import sys
from pcietool.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
sys.exit(",".join(name for name in sys.modules if name in {HEAVY!r} or name.endswith(".probe")) or 0)
"""
    done = python("-c", program, *command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["barrier-latency", "--iters", "0"],
        ["barrier-latency", "--iters", "-3"],
        ["barrier-latency", "--num-gpus", "0"],
        ["barrier-latency", "--gpus", "0,0"],
        ["barrier-latency", "--timeout", "0"],
        ["barrier-latency", "--fabric", "pcie5-switch4", "--backend", "cuda"],
        ["atomic-loss", "--transport", "carrier-pigeon"],
    ],
)
def test_usage_errors_exit_with_2_on_stderr(arguments: list[str]) -> None:
    said = refusal(*arguments)
    assert "Traceback" not in said
    assert "error" in said.lower()


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    def app(prog_name: str, standalone_mode: bool) -> None:
        raise error

    monkeypatch.setattr(application, "app", app)
    monkeypatch.setattr(sys, "argv", ["pcietool", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_an_error_is_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(NothingToRunError("no driver"), monkeypatch) == 6
    assert capsys.readouterr().err == "pcietool: error: no driver\n"


def test_a_bug_says_so_and_verbose_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(KeyError("x"), monkeypatch) == 1
    assert "this is a bug" in capsys.readouterr().err
    with pytest.raises(KeyError):
        fail_with(KeyError("x"), monkeypatch, "--verbose")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m pcietool --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


QUICK = "barrier-latency --fabric h200-nvlink2 --transport peer --order relaxed --mode in-kernel -n 2"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`command`, with PCIETOOL standing for the program and a quick measurement."""
    command = f'set -o pipefail; PCIETOOL() {{ {sys.executable} -m pcietool {QUICK} "$@"; }}; {command}'
    environment = {**os.environ, **environment}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("command", ["PCIETOOL | head -1", "PCIETOOL --json - | head -1", "PCIETOOL | true"])
def test_a_reader_that_leaves_before_the_result_changes_no_exit_code(command: str) -> None:
    done = shell(command)
    assert (done.returncode, "error" in done.stderr, "BrokenPipe" in done.stderr) == (0, False, False)
    assert shell(command.replace("PCIETOOL", "PCIETOOL --inject dead-rank")).returncode == 4


def test_a_closed_output_swallows_the_result() -> None:
    done = shell("PCIETOOL -q >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert shell("PCIETOOL -q 2>&-").returncode == 0


def test_an_output_that_knows_no_micro_sign_gets_a_question_mark() -> None:
    done = shell("PCIETOOL", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    assert "mean ?s" in done.stdout


def test_lines_in_a_pipe_end_where_their_text_does() -> None:
    assert [line for line in shell("PCIETOOL").stdout.splitlines() if line != line.rstrip()] == []


def test_sigterm_saves_the_part_in_progress(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    arguments = f"atomic-loss --fabric h200-nvlink2 --transport host -n 20000 -c 1x1 -c 1x32 --verbose --json {path}"
    command = [sys.executable, "-m", "pcietool", *arguments.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        steps = iter(process.stderr.readline, "")
        assert any("host: atom.sys.add by GPU 0, 1x32" in step for step in steps)
        process.terminate()
        out, _ = process.communicate()
    assert process.returncode == 130
    assert "INTERRUPTED  host  ended early; rows so far: 1," in " ".join(out.split(" "))
    (probe,) = json.loads(path.read_text())["probes"]
    assert [(row["concurrency"], row["expected"]) for row in probe["rows"]] == [("1x1", 20000)]
    assert probe["reason"] == "SIGTERM"


@pytest.mark.skipif(driver_present(), reason="this machine has a driver")
def test_gpus_without_a_driver_are_one_line() -> None:
    done = pcietool("barrier-latency", "--backend", "cuda")
    (line,) = done.stderr.splitlines()
    assert (done.returncode, "no NVIDIA driver" in line) == (6, True)


@pytest.mark.parametrize("option", ["--json", "--csv", "--out"])
def test_an_empty_file_name_is_refused(option: str) -> None:
    assert f"'{option}': the name is empty" in words(refusal("barrier-latency", option, ""))


def test_the_header_is_printed_for_use_elsewhere() -> None:
    from pcietool.data import kernel_source

    done = pcietool("--print-header")
    assert (done.returncode, done.stdout) == (0, kernel_source("slots.cuh"))


def test_fabrics_are_listed() -> None:
    done = pcietool("--list")
    assert done.returncode == 0
    assert "pcie5-switch4 " in done.stdout
    assert "h200-nvlink2 " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "full", "said"),
    [
        (["--list"], "stdout", "pcietool: error: standard output cannot be written: no space left on device"),
        (["--help"], "stdout", "pcietool: error: standard output cannot be written: no space left on device"),
        (["no-such-command"], "stderr", ""),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_full_disk_behind_a_stream_is_no_bug(arguments: list[str], full: str, said: str, unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as disk:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, full: disk}
        command = [sys.executable, "-m", "pcietool", *arguments]
        done = subprocess.run(command, text=True, env=environment, **streams)
    assert (done.returncode, (done.stderr or "").startswith(said)) == (2, True)
    assert (done.stderr or "").count("\n") == bool(said)
