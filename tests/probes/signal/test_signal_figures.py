"""signal-latency's figures where their right values follow by arithmetic: from a fabric with unlike links, and from
time stamps that were chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from pcietool.contract.results import Row
from pcietool.machines.base import Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.signal import probe
from pcietool.probes.signal.config import SignalConfig
from pcietool.probes.signal.roles import RESULT, VECTOR, Kind, LaunchRecord, Pair, Role
from pcietool.probes.signal.trials import TrialRunner
from tests.listening import Listener

PAIRS = [Pair(a, b) for a in range(3) for b in range(3) if a != b]
NEAR_US, FAR_US = 200, 1000
TWO_DISTANCES = f"""
schema = "pcietool.fabric/1"
name = "two distances"
base = "pcie5-two-roots8"

[peer]
write_latency_ns = {{ value = {1000 * NEAR_US}, source = "assumed" }}
jitter = 0.0

[cross]
write_latency_ns = {{ value = {1000 * FAR_US}, source = "assumed" }}
jitter = 0.0
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[EmulatedMachine]:
    """GPU 2 of three is far from both others."""
    path = tmp_path / "two.toml"
    path.write_text(TWO_DISTANCES)
    with EmulatedMachine.open(str(path), gpus=[0, 1, 4]) as opened:
        yield opened


def rows(machine: Machine, **options: Any) -> list[Row]:
    few = {"transport": "peer", "iterations": 4, "warmup": 2, "launches": 3, "max_bytes": 8, "timeout_s": 10}
    (result,) = probe.run(machine, SignalConfig(**{**few, **options}), Listener())
    return result.rows


def test_one_way_is_what_the_link_takes_and_the_slowest_pair_counts(machine: EmulatedMachine) -> None:
    found = rows(machine, polls=("local",), waits=("acquire",), nanosleeps_ns=(0,), pairings=("isolated", "all"))
    for row in found:
        if row["pairs"] == 1 and not row["payload_bytes"]:
            takes_us = FAR_US if 2 in (row["writer"], row["owner"]) else NEAR_US
            assert row["slowest_pair_one_way_us_p50"] == row["one_way_us_p50"] == pytest.approx(takes_us, rel=0.01)
            assert row["round_trip_us_p50"] == pytest.approx(2 * takes_us, rel=0.01)
            assert row["times_base"] == pytest.approx(takes_us / NEAR_US, rel=0.01)
            assert row["one_way_us_n"] == 3 * 4
    (together,) = [row for row in found if row["pairs"] > 1]
    assert together["one_way_us_n"] == 3 * 6 * 4
    assert together["slowest_pair_one_way_us_p50"] >= FAR_US


def test_the_slowest_pair_is_the_one_with_the_largest_median() -> None:
    """Not the one with the slowest round, nor the median of all."""
    samples = np.array([[[1.0, 1.0, 90.0], [4.0, 5.0, 6.0], [2.0, 2.0, 2.0]]])
    runner = TrialRunner(Mock(), Mock(), Mock(), Listener())
    figures = runner._figures(np.concatenate([samples, 3 * samples]), np.concatenate([samples, samples]))
    assert figures["slowest_pair_one_way_us_p50"] == np.median([4, 5, 6, 12, 15, 18])
    assert figures["one_way_us_max"] == 270
    assert figures["one_way_us_of_launches_median"] == 4
    assert figures["times_base"] == (1 + 3) / 2


def test_warm_up_is_left_out(machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rounds take 1000 times as long as the others, each of which takes 8 us there and back."""
    periods_ns = np.array([8e6, 8e6, 8e3, 8e3, 8e3, 8e3])
    monkeypatch.setattr(LaunchRecord, "periods_ns", lambda self: dict.fromkeys(PAIRS, periods_ns))
    found = rows(machine, polls=("local",), waits=("acquire",), nanosleeps_ns=(0,), pairings=("all",))
    assert {(row["one_way_us_p50"], row["one_way_us_max"]) for row in found} == {(4.0, 4.0)}


def record(*blocks: tuple[Role, int, int]) -> LaunchRecord:
    """Of (role, ns that its block took, what it has done); each began at another time."""
    results = np.array([(1000 * n, 1000 * n + ns, done) for n, (_, ns, done) in enumerate(blocks)], RESULT)
    return LaunchRecord([role for role, _, _ in blocks], list(results))


def test_rates_are_sums_over_blocks_each_over_its_own_time() -> None:
    mover, poller = Role(Kind.MOVES, 0, amount=100), Role(Kind.POLLS, 1)
    starter = Role(Kind.STARTS, 0)
    busy = record((mover, 400, 3), (starter, 7000, 9), (mover, 800, 4), (poller, 2000, 50), (poller, 500, 20))
    assert busy.moved_gb_per_s() == pytest.approx(3 * 100 * VECTOR / 400 + 4 * 100 * VECTOR / 800)
    assert busy.polls_per_us() == pytest.approx(50 / 2 + 20 / 0.5)
    assert record((starter, 100, 1)).moved_gb_per_s() is None


def test_what_any_launch_finds_wrong_counts() -> None:
    runner = TrialRunner(Mock(), Mock(launches=3), Mock(), Listener())
    records = [Mock(wrong=Mock(return_value=[f"launch {launch}"])) for launch in range(3)]
    ping_pong = Mock(run=Mock(side_effect=records))
    assert runner._by_turns([ping_pong], ["test"]) == [records]
    assert runner.wrong == ["launch 0", "launch 1", "launch 2"]
