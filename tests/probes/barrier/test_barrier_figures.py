"""barrier-latency's figures where their right values follow by arithmetic: from a fabric with one slow link, and from
time stamps of ranks unlike each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcietool.contract.results import Row
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.barrier import probe as barrier
from pcietool.probes.barrier.config import BarrierConfig
from pcietool.probes.barrier.kernel import Barrier
from pcietool.probes.common.world import World
from tests.listening import Listener

FAR_US = 1000
FAR = f"""
schema = "pcietool.fabric/1"
name = "far"
base = "h200-nvlink2"

[peer]
write_latency_ns = {{ value = {1000 * FAR_US}, source = "assumed" }}
jitter = 0.0
"""
ROUNDS, WARMUP, LAUNCHES = 12, 2, 3
CONFIG: dict[str, Any] = {"transport": "peer", "iterations": ROUNDS, "warmup": WARMUP, "launches": LAUNCHES}


@pytest.fixture
def far(tmp_path: Path) -> EmulatedMachine:
    """Whose barriers take as long as one signal needs, and hardly anything else."""
    path = tmp_path / "far.toml"
    path.write_text(FAR)
    return EmulatedMachine.open(str(path))


def rows(machine: EmulatedMachine, **config: Any) -> list[Row]:
    (result,) = barrier.run(machine, BarrierConfig(**{**CONFIG, "orders": ("relaxed",), **config}), Listener())
    return result.rows


def test_a_barrier_takes_as_long_as_its_slow_link_in_every_mode(far: EmulatedMachine) -> None:
    found = rows(far, modes=("in-kernel", "launched", "graph"), timeout_s=10)
    assert [row["mode"] for row in found] == ["in-kernel", "launched", "graph"]
    for row in found:
        assert row["mean_period_us"] == pytest.approx(FAR_US, rel=0.01)
        assert row["period_us_of_launches_median"] == pytest.approx(FAR_US, rel=0.01)


def test_a_round_is_its_slowest_rank_and_warm_up_is_left_out(
    far: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In launch n a round of rank r takes n * (r + 1) us, the first two of them 100 times as long."""
    launched: list[int] = []

    def periods_ns(self: Barrier, rounds: int) -> np.ndarray:
        launched.append(rounds)
        one_us = len(launched) * np.array([[1.0], [2.0]]) * np.where(np.arange(rounds) < WARMUP, 100, 1)
        return 1e3 * one_us

    monkeypatch.setattr(barrier, "_self_tests", lambda *_: [])
    monkeypatch.setattr(Barrier, "read_periods_ns", periods_ns)
    (row,) = rows(far, modes=("in-kernel",))
    assert launched == [ROUNDS + WARMUP] * LAUNCHES
    slowest_us = [2.0, 4.0, 6.0]
    assert row["period_us_n"] == LAUNCHES * ROUNDS
    assert (row["period_us_min"], row["period_us_max"]) == (2.0, 6.0)
    assert row["period_us_mean"] == pytest.approx(np.mean(slowest_us))
    assert row["period_us_of_launches_median"] == np.median(slowest_us)


def test_the_mean_is_the_slowest_ranks_whole_kernel_by_all_its_rounds(
    far: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warm-up included, which is in the kernel's time; the median of launches that take 5, 15 and 7 us a round."""
    spans_ns = iter([np.array([1e3, 5e3]), np.array([15e3, 1e3]), np.array([7e3, 6e3])])
    monkeypatch.setattr(barrier, "_self_tests", lambda *_: [])
    monkeypatch.setattr(Barrier, "read_periods_ns", lambda self, rounds: np.ones((2, rounds)))
    monkeypatch.setattr(Barrier, "read_spans_ns", lambda self: (ROUNDS + WARMUP) * next(spans_ns))
    (row,) = rows(far, modes=("in-kernel",))
    assert row["mean_period_us"] == pytest.approx(7.0)


def test_the_self_test_takes_the_block_that_left_first_of_any_rank_but_the_late_one(
    far: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without delay blocks take 30 us at least, so 200 us are enough; then the late rank itself, at which nobody
    looks, takes 1 us, and the others 300 us and more."""
    world = World.build(far, "peer", 2, rows=2, deadline_s=10)
    spans_us = iter([[[1, 2], [30, 40]], [[1, 1], [310, 320]], [[305, 300], [1, 1]]])
    monkeypatch.setattr(Barrier, "read_block_spans_ns", lambda self: 1e3 * np.array(next(spans_us)))
    tested = Barrier(far, world, "publishing", BarrierConfig(blocks=2), inject=True)
    assert barrier._least_span_us(tested) == (200.0, 300.0)
