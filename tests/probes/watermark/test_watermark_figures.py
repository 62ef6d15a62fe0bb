"""watermark's figures where their right values follow by arithmetic: from a fabric with one slow link, and from pushes
that take a time that was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcietool.contract.results import Row
from pcietool.machines.base import Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.watermark.config import WatermarkConfig
from pcietool.probes.watermark.probe import run
from pcietool.probes.watermark.pushing import Pushed, Pusher
from tests.listening import Listener

ROWS, ROW_BYTES = 64, 1024
NBYTES = ROWS * ROW_BYTES
SLOW_GB_PER_S = 0.1
ONE_SLOW_LINK = f"""
schema = "pcietool.fabric/1"
name = "one slow link"
base = "pcie5-two-roots8"

[cross]
bandwidth_gb_s = {{ value = {SLOW_GB_PER_S}, source = "assumed" }}
packet_overhead_bytes = {{ value = 0, source = "assumed" }}
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[EmulatedMachine]:
    """GPU 2 of three is behind the slow link, and its bytes take 0.66 ms; those between the others one us."""
    path = tmp_path / "slow.toml"
    path.write_text(ONE_SLOW_LINK)
    with EmulatedMachine.open(str(path), gpus=[0, 1, 4]) as opened:
        yield opened


def rows(machine: Machine, **options: Any) -> list[Row]:
    usual = {"rows": ROWS, "row_bytes": ROW_BYTES, "threads": 64, "groups": 2, "chunks": "all", "iterations": 3}
    (result,) = run(machine, WatermarkConfig(**{"transport": "peer", **usual, **options}), Listener())
    return result.rows


def test_a_rate_is_that_of_the_producer_with_the_slowest_link(machine: EmulatedMachine) -> None:
    (row,) = rows(machine, pattern="many-to-one", sms="2", paths=("vector",))
    assert row["gb_per_s"] == pytest.approx(SLOW_GB_PER_S, rel=0.01)
    assert row["sm_copy_gb_per_s"] == pytest.approx(SLOW_GB_PER_S, rel=0.01)
    assert row["percent_of_sm_copy"] == pytest.approx(100, rel=0.01)
    assert row["bytes"] == 2 * NBYTES


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Pushes without signals take 1, 2, 3 us and so on, those right behind them twice as long. Which had signals."""
    pushed: list[bool] = []

    def push(self: Pusher, *_: Any, signals: bool = True, **__: Any) -> Pushed:
        pushed.append(signals)
        turn = (len(pushed) + 1) // 2
        return Pushed(2e3 * turn if signals else 1e3 * turn, 100.0 * turn if signals else None, None, None)

    monkeypatch.setattr(Pusher, "push", push)
    return pushed


def test_shares_are_of_the_copy_in_the_same_turn_and_warm_up_is_left_out(
    machine: EmulatedMachine, chosen: list[bool]
) -> None:
    (row,) = rows(machine, pattern="many-to-one", sms="2", paths=("vector",), warmup=2)
    assert chosen[:10] == [False, True] * 5
    turns = np.array([3, 4, 5])
    assert row["sm_copy_gb_per_s"] == pytest.approx(np.median(NBYTES / (1e3 * turns)))
    assert row["gb_per_s"] == pytest.approx(np.median(NBYTES / (2e3 * turns)))
    assert row["percent_of_sm_copy"] == pytest.approx(50)
    assert row["first_release_us"] == pytest.approx(0.1 * np.median(turns))


def test_the_share_of_the_copy_engine_is_of_its_median_copy(
    machine: EmulatedMachine, chosen: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies_ns = iter([9e3, 1e3, 3e3])
    monkeypatch.setattr(Pusher, "copy_by_engine", lambda self: next(copies_ns))
    (row,) = rows(machine, pattern="one-to-one", sms="2", paths=("vector",))
    assert row["copy_engine_gb_per_s"] == pytest.approx(NBYTES / 3e3)
    assert row["percent_of_copy_engine"] == pytest.approx(100 * 3e3 / 4e3)
