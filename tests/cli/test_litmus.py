"""`pcietool litmus` as a process: what it prints, where, and its exit code."""

import json
import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "cuda", "pydantic")


def litmus(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "pcietool", "litmus", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60)


def words(text: str) -> str:
    """As one line, however it was wrapped."""
    return " ".join(text.split())


@pytest.fixture
def wrong(tmp_path):
    """A test that says forbidden of what is allowed."""
    path = tmp_path / "wrong.litmus"
    path.write_text(
        "PTX wrong\n{ x=0; }\nP0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\nst.weak x, 1 | ld.weak r0, x ;\n~exists (P1:r0 = 1)\n"
    )
    return path


def test_packaged_tests_by_name():
    done = litmus("sb-fence.sc.sys", "mp-weak")
    assert (done.returncode, done.stderr) == (0, "")
    assert words(done.stdout).startswith(
        "emulated: modelled, not measured · PTX memory model"
        " PASS model 3 tests, 3 of 3 as expected: 1 allowed, 2 forbidden; every execution explored, "
    )
    assert "mp-weak-gpus" in done.stdout
    assert "P1:r0=" not in done.stdout


def test_outcomes_and_trace():
    done = litmus("mp-weak-gpus", "--outcomes", "--trace")
    assert "  * P1:r0=1 P1:r1=0\n" in done.stdout
    assert "    P1:r0=0 P1:r1=0\n" in done.stdout
    assert "    4  P1: ld.weak r1, x -> 0 (initial value, though a later store exists)\n" in done.stdout


def test_trace_of_what_is_forbidden_has_nothing_to_show():
    assert "no execution to show: forbidden" in litmus("coww", "--trace").stdout


def test_a_wrong_expectation_is_exit_code_3(wrong):
    done = litmus(str(wrong))
    assert done.returncode == 3
    assert "FAIL" in done.stdout
    assert "wrong: allowed, though the test says forbidden" in words(done.stdout)


def test_a_bound_that_ends_the_search_is_exit_code_1():
    done = litmus("mp-release.sys-acquire.sys-gpus", "--max-states", "2")
    assert done.returncode == 1
    assert "which proves nothing; raise --max-states" in words(done.stdout)
    assert "; not every execution explored" in words(done.stdout)


@pytest.mark.parametrize("json_option", ["-", "FILE"])
def test_the_document(wrong, tmp_path, json_option):
    target = tmp_path / "result.json"
    done = litmus(str(wrong), "--outcomes", "--json", "-" if json_option == "-" else str(target))
    document = json.loads(done.stdout if json_option == "-" else target.read_text())
    assert (document["schema"], document["backend"]) == ("pcietool.result/1", "emulated")
    assert document["verdict"]["status"] == "fail"
    (row,) = document["probes"][0]["rows"]
    assert (row["test"], row["verdict"], row["expected"], row["complete"]) == ("wrong", "allowed", "forbidden", True)


def test_quiet_prints_the_verdict_alone():
    done = litmus("coww", "--quiet", "--outcomes", "--trace")
    assert words(done.stdout).endswith("states")
    assert "coww" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-test"], "is no file, no directory and not how a packaged test's name starts"),
        (["coww", "--max-states", "0"], "--max-states"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_exit_code_2(arguments, message):
    done = litmus(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in words(done.stderr)


def test_a_broken_file_is_one_line_with_line_and_column(tmp_path):
    path = tmp_path / "broken.litmus"
    path.write_text("PTX broken\n{ x=0; }\nP0@cta 0,gpu 0 ;\nst.weak x, r3 ;\nexists (x = 0)\n")
    done = litmus(str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"pcietool: error: {path} line 4, column 12: nothing sets register r3 in this thread\n"


def test_help_says_what_it_is_not_and_imports_nothing_heavy():
    program = f"""
import sys
from pcietool.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
sys.exit(",".join(name for name in {HEAVY!r} if name in sys.modules) or 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "litmus", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert "Without --trials nothing runs on a GPU" in words(done.stdout)
    assert "--warmup" not in done.stdout
