"""`cooperative_groups::this_grid().sync()`: right and needed in a cooperative launch, and refused in any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from pcietool.check import Kernel, Scenario, World, scenario
from tests.check.checking import checked, scenario_file, word
from tests.cli.program import pcietool

KERNEL = """#include <cooperative_groups.h>
extern "C" __global__ void turn(unsigned* a, unsigned* out) {
    const unsigned me = blockIdx.x * blockDim.x + threadIdx.x;
    a[me] = me + 1;
    SYNC;
    out[me] = a[(me + blockDim.x) % (gridDim.x * blockDim.x)];
}
"""
SYNC = "cooperative_groups::this_grid().sync()"
SMALL = {"grid": 2, "block": 1}


def turning(sync: str = SYNC, cooperative: bool = True) -> Scenario:
    what = Kernel("turn.cu", "turn", text=KERNEL.replace("SYNC", sync))

    @scenario(what, ranks=1, grid=4, block=32, small=SMALL)
    def turned(w: World) -> None:
        assert isinstance(w.grid, int)
        assert isinstance(w.block, int)
        n, block = w.grid * w.block, w.block
        a, out = w.one("a", "u4", n), w.one("out", "u4", n)
        w.launch([a, out], cooperative=cooperative)
        w.launch([a, out], cooperative=cooperative)  # its barrier is used again
        w.expect(out, [(i + block) % n + 1 for i in range(n)])

    return turned


def test_it_orders_the_grid_and_each_of_its_parts_is_needed() -> None:
    result = checked(turning())
    assert word(result) == "PASS"
    assert "every execution" in result.verdict
    found = {(one["inlined_from"].partition(":")[0], one["change"]): one["is"] for one in result.details["orderings"]}
    assert found["sync.h", "release -> relaxed"] == "needed"
    assert found["sync.h", "acquire -> relaxed"] == "needed"


def test_a_block_barrier_is_none_for_the_grid() -> None:
    assert word(checked(turning("__syncthreads()"), quick=True)) in ("WRONG DATA", "RACE")


def test_a_launch_that_is_not_cooperative_cannot() -> None:
    result = checked(turning(cooperative=False), quick=True)
    assert word(result) == "CRASH"
    assert "launch it with cooperative=True" in result.verdict


def test_a_grid_that_is_not_resident_at_once_is_refused(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(KERNEL.replace("SYNC", SYNC))
    text = (
        '@scenario(Kernel("turn.cu", "turn"), ranks=1, grid=100000, block=32)\n'
        'def s(w):\n    a = w.one("a", "u4", 3200000)\n    w.launch([a, a], cooperative=True, spins=False)\n'
        "    w.expect(a, 1)\n"
    )
    done = pcietool("check", str(scenario_file(tmp_path, text)), "--backend", "emulated", "--engine", "timing")
    assert done.returncode == 2
    assert "holds only" in done.stderr


SCENARIO = """
@scenario(Kernel("turn.cu", "turn"), ranks=1, grid=4, block=32)
def turned(w):
    a, out = w.one("a", np.uint32, 128), w.one("out", np.uint32, 128)
    w.launch([a, out], cooperative=True)
    w.expect(out, [(i + 32) % 128 + 1 for i in range(128)])
"""


@pytest.mark.gpu
def test_gpus_sync_their_grid(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(KERNEL.replace("SYNC", SYNC))
    path = scenario_file(tmp_path, SCENARIO)
    done = pcietool("check", str(path), "--backend", "cuda", "--runs", "5", "--quick")
    if done.returncode == 6:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right in every run" in done.stdout
