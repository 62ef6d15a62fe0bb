"""Clusters of blocks: their barrier, their shared memory, and what kernels with them get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pcietool.check import Kernel, Scenario, World, scenario
from pcietool.contract.results import ProbeResult
from tests.check.checking import checked, scenario_file, word
from tests.cli.program import pcietool

KERNEL = """#include <cooperative_groups.h>
extern "C" __global__ __cluster_dims__(DIMS) void swap(unsigned* out) {
    __shared__ unsigned box[32];
    auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank(), i = threadIdx.x;
    FIRST;
    cluster.map_shared_rank(box, rank ^ 1)[i] = rank * 100 + i + blockIdx.x * 1000;
    SECOND;
    out[blockIdx.x * blockDim.x + i] = box[i ^ 1] + cluster.num_blocks();
    LAST;
}
"""
SYNC = "cluster.sync()"


def text(first: str = SYNC, second: str = SYNC, dims: str = "2") -> str:
    replaced = KERNEL.replace("DIMS", dims).replace("FIRST", first).replace("SECOND", second)
    return replaced.replace("LAST", SYNC)


def expected(blocks: int) -> list[int]:
    return [(b ^ 1) % 2 * 100 + (t ^ 1) + (b ^ 1) * 1000 + 2 for b in range(blocks) for t in range(32)]


def swapping(source: str, grid: int = 4) -> Scenario:
    @scenario(Kernel("swap.cu", "swap", text=source), ranks=1, grid=grid, block=32)
    def swap(w: World) -> None:
        out = w.one("out", "u4", 32 * grid)
        w.launch([out])
        w.expect(out, expected(grid))

    return swap


def ran(source: str, grid: int = 4) -> ProbeResult:
    return checked(swapping(source, grid), engine="timing,random", quick=True)


def test_blocks_of_a_cluster_reach_each_others_shared_memory() -> None:
    result = ran(text())
    assert not result.details["findings"]
    assert word(result) == "NOT PROVED"  # they are not explored


def test_a_block_that_may_not_have_started_must_not_be_reached() -> None:
    result = ran(text(first=""))
    assert word(result) == "CRASH"
    assert "which has not started yet: put a cluster.sync() between" in result.verdict
    assert "swap.cu:7" in result.verdict


def test_a_block_that_the_cluster_does_not_have_must_not_be_reached() -> None:
    result = ran(text().replace("rank ^ 1)[i]", "rank ^ 4)[i]"))
    assert word(result) == "CRASH"
    assert "shared memory of block 4 of a cluster of 2" in result.verdict or "block 5 of" in result.verdict


@pytest.mark.parametrize("instead", ["", "__syncthreads()"])
def test_a_barrier_of_the_block_is_none_of_the_cluster(instead: str) -> None:
    assert word(ran(text(second=instead))) in ("WRONG DATA", "RACE")


def test_arriving_alone_is_not_waiting() -> None:
    halves = [f'asm volatile("barrier.cluster.{half};" ::: "memory");' for half in ("arrive", "wait")]
    assert not ran(text(second=halves[0] + halves[1])).details["findings"]
    relaxed = halves[0].replace("arrive;", "arrive.relaxed;")
    assert word(ran(text(second=relaxed + halves[1]))) in ("WRONG DATA", "RACE")
    twice = ran(text(second=halves[0] + halves[0]))
    assert (word(twice), "arrive again without a wait" in twice.verdict) == ("CRASH", True)
    never = ran(text(second=halves[1]))
    assert (word(never), "that has not arrived" in never.verdict) == ("CRASH", True)


LEAVING = """#include "slots.cuh"
extern "C" __global__ __cluster_dims__(2) void leave(u32* out) {
    if (threadIdx.x % 2) {  // arrives, and does not wait
        asm volatile("barrier.cluster.arrive;" ::: "memory");
        return;
    }
    if (blockIdx.x) __nanosleep(3000);
    if (blockIdx.x) out[threadIdx.x] = 7;
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
    if (!blockIdx.x) out[32 + threadIdx.x] = out[threadIdx.x];
}
"""


def test_threads_that_arrive_and_leave_do_not_arrive_for_others() -> None:
    @scenario(Kernel("leave.cu", "leave", text=LEAVING), ranks=1, grid=2, block=32)
    def leave(w: World) -> None:
        out = w.one("out", "u4", 64)
        w.launch([out])
        w.expect(out, [0 if t % 2 else 7 for t in range(64)])

    assert not checked(leave, engine="timing,random", quick=True).details["findings"]


def test_a_block_that_leaves_the_others_waiting_is_in_the_proof() -> None:
    result = ran(text(second=f"if (blockIdx.x != 1 || i) {SYNC}; else while (atomicAdd(out, 0u) != 77) {{}}"))
    assert word(result) == "HANG"
    steps = [step["does"] for step in result.details["findings"][0]["witness"]]
    assert any("barrier of the cluster: 1 threads have not arrived" in does for does in steps)


def test_a_grid_is_made_of_whole_clusters(tmp_path: Path) -> None:
    (tmp_path / "swap.cu").write_text(text())
    body = "    out = w.one('out', 'u4', 96)\n    w.launch([out])\n    w.expect(out, 1)\n"
    path = scenario_file(
        tmp_path, f'@scenario(Kernel("swap.cu", "swap"), ranks=1, grid=3, block=32)\ndef s(w):\n{body}'
    )
    done = pcietool("check", str(path), "--backend", "emulated", "--engine", "timing")
    assert done.returncode == 2
    assert "3 blocks are no whole clusters of 2" in done.stderr


def test_clusters_in_two_dimensions_are_refused() -> None:
    lines = ran(text(dims="1, 2")).details["not_covered"]
    assert any("clusters along x only" in line for line in lines)


def test_cluster_scope_is_refused_there() -> None:
    """It counts as block scope, which would accuse what is right."""
    fence = 'asm volatile("fence.acq_rel.cluster;" ::: "memory")'
    lines = ran(text(second=f"{fence}; {SYNC}")).details["not_covered"]
    assert any("no cluster scope between blocks of a cluster" in line and "swap.cu:8" in line for line in lines)


SCENARIO = f"""
@scenario(Kernel("swap.cu", "swap"), ranks=1, grid=4, block=32)
def swap(w):
    out = w.one("out", np.uint32, 128)
    w.launch([out])
    w.expect(out, {expected(4)})
"""


@pytest.mark.gpu
def test_gpus_have_clusters(tmp_path: Path) -> None:
    (tmp_path / "swap.cu").write_text(text())
    done = pcietool("check", str(scenario_file(tmp_path, SCENARIO)), "--backend", "cuda", "--runs", "5", "--quick")
    if done.returncode == 6:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right in every run" in done.stdout
