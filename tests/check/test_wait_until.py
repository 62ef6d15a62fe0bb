"""WAIT_UNTIL in kernels of users: it waits, it gives up, and it leaves its line, who waited, and for whom."""

from pathlib import Path

import pytest

from pcietool.check import Scenario, World
from pcietool.contract.outcomes import WaitRecord
from tests.check.checking import checked, kernel, one, scenario_file, word
from tests.cli.program import document, pcietool

BODY = """
    const Deadline deadline = deadline_from(watch);
    __shared__ bool arrived;
    if (threadIdx.x == 0) {
        if (rank != DEAD) store_release_sys(theirs, 1);
        arrived = WAIT_UNTIL(load_acquire_sys(mine) == 1, deadline, rank, (rank + RANKS - 1) % RANKS);
    }
    __syncthreads();
    if (threadIdx.x == 0 && arrived) *out = rank + 10;
"""
PARAMETERS = "Watch* watch, u32* mine, u32* theirs, u32 rank, u32* out"
LINE = 8


def meeting(dead: int) -> Scenario:
    """Three ranks in a ring, each waits for the one before it; one may never signal."""
    body = BODY.replace("DEAD", str(dead)).replace("RANKS", "3")

    def meet(w: World) -> None:
        flag, out = w.each("flag", "u4"), w.each("out", "u4")
        w.launch(lambda r: [flag[r], flag[(r + 1) % 3], r, out[r]])
        w.expect(out, lambda r: [r + 10])

    return one(kernel(body, PARAMETERS), meet, ranks=3, block=32, small={"block": 1})


def test_a_wait_that_comes_is_proved_to_come() -> None:
    result = checked(meeting(dead=9), quick=True)
    assert word(result) == "PASS"
    assert "every execution" in result.verdict


def test_a_wait_that_never_comes_leaves_its_line_and_for_whom() -> None:
    result = checked(meeting(dead=1), engine="timing", quick=True)
    assert word(result) == "HANG"
    (finding,) = result.details["findings"]
    (record,) = finding["records"]
    assert (record["rank"], record["col"], record["line"]) == (2, 1, LINE)
    assert f"rank 2 waited for rank 1 in line {LINE}" in str(WaitRecord(**record))
    assert [(step["at"], step["who"]) for step in finding["witness"]] == [
        (f"k.cu:{LINE}", "block 0 thread 0"),
        ("k.cu:10", "block 0 threads 1 to 31"),
    ]


def test_relaxed_inside_it_is_found() -> None:
    """The macro adds no order of its own."""
    body = BODY.replace("load_acquire_sys", "load_relaxed_sys").replace("DEAD", "9").replace("RANKS", "3")
    body = body.replace("store_release_sys(theirs, 1)", "theirs[1] = 5, store_release_sys(theirs, 1)")
    body = body.replace("*out = rank + 10", "*out = mine[1]")

    def meet(w: World) -> None:
        flag, out = w.each("flag", "u4", 2), w.each("out", "u4")
        w.launch(lambda r: [flag[r], flag[(r + 1) % 3], r, out[r]])
        w.expect(out, 5)

    result = checked(one(kernel(body, PARAMETERS), meet, ranks=3, block=32, small={"block": 1}))
    assert word(result) == "WRONG DATA"
    (edit,) = result.details["repair"]["edits"]
    assert (edit["at"], "acquire" in edit["change"]) == (f"k.cu:{LINE}", True)


SCENARIO = """
@scenario(Kernel("ring.cu", "ring"), ranks=2, block=32)
def ring(w):
    flag, out = w.each("flag", np.uint32), w.each("out", np.uint32)
    w.launch(lambda r: [flag[r], flag[1 - r], r, out[r]])
    w.expect(out, lambda r: [r + 10])
"""


def test_the_screen_has_who_waited_for_whom(tmp_path: Path) -> None:
    path = written(tmp_path)
    done = pcietool("check", str(path), "--engine", "timing", "--quick", "--backend", "emulated")
    assert done.returncode == 4
    assert f"rank 1   line {LINE}" in done.stdout


@pytest.mark.gpu
def test_on_gpus_the_line_is_all_that_is_known(tmp_path: Path) -> None:
    path = written(tmp_path)
    done = pcietool("check", str(path), "--backend", "cuda", "--runs", "1", "--quick", "--timeout", "0.2")
    if done.returncode == 6:
        pytest.skip(done.stderr)
    assert done.returncode == 4, done.stderr
    assert f"rank 1 waited for rank 0 in line {LINE}" in " ".join(done.stdout.split())
    again = document("check", str(path), "--backend", "cuda", "--runs", "1", "--quick", "--timeout", "0.2", exit_code=4)
    (record,) = again["probes"][0]["details"]["findings"][0]["records"]
    assert record["line"] == LINE


def written(folder: Path) -> Path:
    """A ring of two whose rank 0 never signals."""
    body = BODY.replace("DEAD", "0").replace("RANKS", "2")
    text = f'#include "slots.cuh"\nextern "C" __global__ void ring({PARAMETERS}) {{\n{body}\n}}\n'
    (folder / "ring.cu").write_text(text)
    return scenario_file(folder, SCENARIO)
