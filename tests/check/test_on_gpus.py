"""Scenarios on real GPUs, several ranks on one where there is only one: right ones are right there, and have a time."""

from pathlib import Path

import pytest

from pcietool.cli.commands import check
from pcietool.report.tables import rows_table
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
