"""What check prints, and leaves for CI: JUnit, SARIF, and scenarios as tests of pytest."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from pcietool.report.check import _print_orderings
from tests.check.checking import scenario_file
from tests.cli.program import pcietool

KERNEL = '#include "slots.cuh"\nextern "C" __global__ void k(u32* a) { a[0] = 7 + blockIdx.x; }\n'
SCENARIOS = """
@scenario(Kernel("mine.cu", "k"), ranks=1, block=1)
def right(w):
    a = w.one("a", np.uint32)
    w.launch([a])
    w.expect(a, 7)

@scenario(Kernel("mine.cu", "k"), ranks=1, grid=2, block=1)
def raced(w):
    a = w.one("a", np.uint32)
    w.launch([a])
    w.expect_that(a, lambda values, rank: values[0] in (7, 8), "7 or 8")
"""


def written(folder: Path) -> Path:
    (folder / "mine.cu").write_text(KERNEL)
    return scenario_file(folder, SCENARIOS)


def test_junit_has_a_case_a_scenario_and_sarif_the_line(tmp_path: Path) -> None:
    path = written(tmp_path)
    junit, sarif = tmp_path / "out.xml", tmp_path / "out.sarif"
    done = pcietool("check", str(path), "--seeds", "5", "--junit", str(junit), "--sarif", str(sarif))
    assert done.returncode == 3, done.stderr
    suite = ElementTree.parse(junit).getroot()
    cases = {case.get("name"): [child.tag for child in case] for case in suite.findall("testcase")}
    assert cases == {"right": ["system-out"], "raced": ["failure"]}
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (found,) = json.loads(sarif.read_text())["runs"][0]["results"]
    place = found["locations"][0]["physicalLocation"]
    assert (found["ruleId"], found["level"]) == ("check/race", "error")
    assert place["artifactLocation"]["uri"].endswith("/mine.cu")
    assert place["region"]["startLine"] == 2


def test_scenarios_are_tests(tmp_path: Path) -> None:
    written(tmp_path).rename(tmp_path / "check_mine.py")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-p", "pcietool.pytest_plugin", "-p", "no:cacheprovider", "-v"]
    command += ["--pcietool-seeds", "5"]
    run = {"capture_output": True, "text": True, "cwd": tmp_path, "env": environment}
    ignored = subprocess.run(command, **run)  # type: ignore[call-overload]
    assert "no tests ran" in ignored.stdout
    done = subprocess.run([*command, "--pcietool"], **run)  # type: ignore[call-overload]
    assert done.returncode == 1, done.stdout
    assert "check_mine.py::right PASSED" in done.stdout
    assert "check_mine.py::raced FAILED" in done.stdout
    assert "RACE: 'a'" in done.stdout
    assert "Traceback" not in done.stdout


def test_two_orderings_of_one_call_are_told_apart_by_where_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"is": "needed", "at": "a.cuh:9", "inlined_from": f"a.cuh:{n}", "change": change, "by": "x"}
        for n, change in ((3, "without the block barrier"), (7, "without the block barrier"), (5, "release -> relaxed"))
    ]
    _print_orderings(Console(width=80), rows, {"a.cuh:9": "sync(p);"})
    printed = capsys.readouterr().out
    assert "in a.cuh:3" in printed
    assert "in a.cuh:7" in printed
    assert "in a.cuh:5" not in printed
