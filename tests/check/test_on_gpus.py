"""Scenarios on real GPUs, several ranks on one where there is only one: right ones are right there, and have a time."""

from pathlib import Path

import pytest

from pcietool.cli.commands import check
from pcietool.report.tables import rows_table
from tests.check.checking import scenario_file
from tests.cli.program import document, pcietool

EXAMPLES = Path(__file__).parents[2] / "examples" / "check"
RIGHT = {
    "check_all_reduce.py": ["all_reduce_one_stage", "all_reduce_two_stages"],
    "check_messages.py": ["packets_with_their_flag", "sentinels_in_rotation", "fifo_with_head_and_tail"],
    "check_grid.py": ["sum_by_last_block", "grid_barrier_again_and_again", "ranks_signal_in_slots"],
}


def test_without_gpus_it_says_so() -> None:
    done = pcietool("check", str(EXAMPLES / "check_grid.py"), "--backend", "cuda")
    if done.returncode == 6:
        assert "pcietool: error" in done.stderr
    else:
        assert "cuda backend" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("file", RIGHT)
def test_right_ones_are_right(file: str) -> None:
    probe = pcietool("check", str(EXAMPLES / file), "--backend", "cuda", "--runs", "1", "--quick", RIGHT[file][0])
    if probe.returncode == 6:
        pytest.skip(probe.stderr)
    found = document("check", str(EXAMPLES / file), *RIGHT[file], "--backend", "cuda", "--runs", "5", "--quick")
    assert [part["transport"] for part in found["probes"]] == RIGHT[file]
    for part in found["probes"]:
        assert part["details"]["verdict"] == "NOT PROVED"
        assert all(row["elapsed_us"] > 0 and row["tries"] == 5 for row in part["rows"])
        assert rows_table(part["rows"], check.COLUMNS).row_count == len(part["rows"])


GRAPH = """
@scenario(Kernel("k.cu", "k"), ranks=RANKS, block=1)
def replayed(w):
    a = w.each("a", np.uint32, 4)
    with w.graph(replays=3):
        w.launch(lambda r: [a[r], 2])
        w.launch(lambda r: [a[r], 3])
    w.expect(a, [0, 0, 3, 3])
"""


def replayed(folder: Path, ranks: int, *arguments: str) -> tuple[int, str, str]:
    text = '#include "slots.cuh"\nextern "C" __global__ void k(u32* a, u32 b) { a[b] += 1; }\n'
    (folder / "k.cu").write_text(text)
    path = scenario_file(folder, GRAPH.replace("RANKS", str(ranks)))
    done = pcietool("check", str(path), "--quick", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_graph_is_replayed_emulated(tmp_path: Path) -> None:
    code, out, _ = replayed(tmp_path, 2, "--backend", "emulated", "--seeds", "3")
    assert code == 0
    assert "PASS  replayed" in out


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [1, 16])
def test_a_graph_is_replayed_on_gpus(tmp_path: Path, ranks: int) -> None:
    """Sixteen ranks share GPUs, and are told that they have no graph."""
    code, out, err = replayed(tmp_path, ranks, "--backend", "cuda", "--runs", "3")
    if code == 6:
        pytest.skip(err)
    assert code == 0, out + err
    assert "right in every run" in " ".join(out.split())
    assert ("ranks that share a GPU have none" in out) == (ranks == 16)
