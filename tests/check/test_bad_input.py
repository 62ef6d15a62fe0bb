"""What is wrong with a scenario is said in a line with its place, and what to do; never as a traceback of ours."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pcietool.check.scenario import load_scenarios
from pcietool.contract.results import ProbeResult, Status
from pcietool.errors import CompileError, PcietoolError, ScenarioError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.check import probe
from pcietool.probes.check.config import CheckConfig
from tests.check.checking import scenario_file, word
from tests.cli.program import pcietool
from tests.listening import Listener

KERNELS = """#include "slots.cuh"
__global__ void put(u32* a, u32 v) { a[threadIdx.x] = v; }
__global__ void far(u32* a, u32 v) { a[threadIdx.x + 1000] = v; }
"""
ARRAY = 'def s(w):\n    a = w.each("a", np.uint32, 8)\n'
HEAD = '@scenario(Kernel("k.cuh", "put"), block=8, small={"block": 1})\n'


def run(folder: Path, text: str, kernels: str = KERNELS) -> ProbeResult:
    (folder / "k.cuh").write_text(kernels)
    path = scenario_file(folder, text)
    config = CheckConfig(file=str(path), seeds=3, quick=True)
    listener = Listener()
    with EmulatedMachine.open("pcie5-switch4") as machine:
        return probe.run(machine, config, listener)[0]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('    {}["x"]', r"scenarios\.py:6: scenario s raised KeyError"),
        ("    raise SystemExit(0)", r"scenarios\.py:6: scenario s raised SystemExit"),
        ("    s.function(w)", r"scenarios\.py:5: scenario s: there are two arrays called 'a'"),
        ("    w.launch(lambda r: [a[r]]); w.expect(a, 1)", r"scenarios\.py:6: scenario s: put .*2 arguments.*not 1"),
        ("    w.launch(lambda r: [1, a[r]]); w.expect(a, 1)", r"scenarios\.py:6: scenario s: put, argument 1"),
        ("    w.launch(lambda r: None)", r"scenarios\.py:6: .*a list of arguments, not a NoneType"),
        ("    w.launch(lambda r: [a[r], 'x'])", r"scenarios\.py:6: .*argument 1 is a str"),
        ("    w.launch(lambda r: [a[r], 1], block='32')", r"scenarios\.py:6: .*block='32'"),
        ("    w.launch(lambda r: [a[r], 1], kernel='k.cuh')", r"scenarios\.py:6: .*'k.cuh' is no kernel"),
        ("    w.launch(lambda r: [a[r], 1], block=4096); w.expect(a, 1)", r"scenarios\.py:6: .*1 to 1024 threads"),
        ("    w.launch(lambda r: [a[r], 1]); w.expect(a, [1, 2])", r"scenarios\.py:6: .*has 8 elements"),
        ("    w.launch(lambda r: [a[r], 1])", r"scenarios\.py: scenario s: it expects nothing at its end"),
        ('    w.each("b", np.uint32, 1 << 40)', r"scenarios\.py:6: .*up to 1 GiB"),
        ('    w.each("b", object)', r"scenarios\.py:6: .*no fixed size"),
    ],
)
def test_a_broken_scenario_names_its_line(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        run(tmp_path, HEAD + ARRAY + body + "\n")


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ('@scenario("k.cuh")', "'k.cuh' is no kernel; write Kernel"),
        ("@scenario", "is no kernel; write Kernel"),
        ('@scenario(Kernel("k.cuh", "put"), ranks=100)', "ranks=100: a scenario has 1 to 16"),
        ('@scenario(Kernel("k.cuh", "put"), ranks=())', "ranks is empty"),
        ('@scenario(Kernel("k.cuh", "put"), small={"ranks": 100})', "ranks=100: a scenario has 1 to 16"),
        ('@scenario(Kernel("k.cuh", "put"), small={"block": 0})', "small block=0"),
        ('@scenario(Kernel("k.cuh", "put"), small={"wrods": 1})', "small has wrods"),
        ('raise SystemExit(0)\n@scenario(Kernel("k.cuh", "put"))', r"scenarios\.py:3: this file raised SystemExit"),
        ("def (:", r"scenarios\.py:3: invalid syntax"),
    ],
)
def test_a_file_that_cannot_be_loaded_says_why(tmp_path: Path, head: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        load_scenarios(scenario_file(tmp_path, f"{head}\n{ARRAY}"))


def test_a_function_without_a_world_is_none(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="first parameter is the world"):
        load_scenarios(scenario_file(tmp_path, '@scenario(Kernel("k.cuh", "put"))\ndef s():\n    pass\n'))


@pytest.mark.parametrize(
    ("kernel", "kernels", "says"),
    [
        ('Kernel("k.cuh", "putt")', KERNELS, "no kernel 'putt'; it has far, put"),
        ('Kernel("none.cuh", "put")', KERNELS, "none.cuh cannot be read"),
        (
            'Kernel("k.cuh", "put", include=["inc"])',
            '#include "m.h"\n' + KERNELS,
            r"no m\.h to include; searched: .*inc",
        ),
    ],
)
def test_what_cannot_be_compiled_ends_before_anything_begins(
    tmp_path: Path, kernel: str, kernels: str, says: str
) -> None:
    text = f"@scenario({kernel}, block=8)\n{ARRAY}    w.launch(lambda r: [a[r], 1])\n    w.expect(a, 1)\n"
    with pytest.raises(PcietoolError, match=says) as caught:
        run(tmp_path, text, kernels)
    assert isinstance(caught.value, CompileError) == ("none.cuh" not in kernel)


def test_an_access_out_of_bounds_is_a_crash_at_its_line(tmp_path: Path) -> None:
    text = HEAD.replace('"put"', '"far"') + ARRAY + "    w.launch(lambda r: [a[r], 1])\n    w.expect(a, 1)\n"
    result = run(tmp_path, text)
    assert (result.status, word(result)) == (Status.FAIL, "CRASH")
    assert all(part in result.verdict for part in ("thread 0", "k.cuh:3", "a of rank 0", "3972 bytes beyond its end"))


def test_a_compilers_log_keeps_its_lines(tmp_path: Path) -> None:
    (tmp_path / "k.cuh").write_text("__global__ void put(int* a) { *a = nothing; }\n")
    body = "    w.launch(lambda r: [a[r]])\n    w.expect(a, 1)\n"
    ended = pcietool("check", str(scenario_file(tmp_path, HEAD + ARRAY + body)), "--backend", "emulated")
    assert ended.returncode == 1
    assert any(line.startswith("k.cuh(1): error: ") for line in ended.stderr.splitlines())


ENDLESS = """
template <int N, long long M> struct F { static constexpr int v = (F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v) & 1; };
template <long long M> struct F<0, M> { static constexpr int v = 1; };
extern "C" __global__ void endless(int* a) { *a = F<60, 1>::v; }
"""


def test_ctrl_c_ends_a_compile_that_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "k.cuh").write_text(ENDLESS)
    body = '    a = w.one("a", "u4")\n    w.launch([a])\n    w.expect(a, 1)\n'
    body = f'@scenario(Kernel("k.cuh", "endless"))\ndef s(w):\n{body}'
    command = [sys.executable, "-m", "pcietool", "check", str(scenario_file(tmp_path, body)), "--backend", "emulated"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL) as running:
        assert running.stderr is not None
        assert "emulated backend" in running.stderr.readline()  # from here on it compiles
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130
    assert "Traceback" not in said
