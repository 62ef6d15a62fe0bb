"""Where slots lie: the choice of the nearest place, and what becomes of a search that hangs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from pcietool.contract.outcomes import Outcome
from pcietool.contract.results import Status
from pcietool.machines.base import Buffer, Launch, Place, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.barrier.config import BarrierConfig
from pcietool.probes.barrier.probe import run
from pcietool.probes.common import placement
from pcietool.probes.common.world import World
from tests.listening import Listener


@pytest.fixture
def machine() -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("h200-nvlink2") as opened:
        yield opened


def test_the_place_that_is_polled_fastest_is_taken(machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    times = np.full(placement.CANDIDATES, 300 * placement.LOOKS, np.uint32)
    times[5] = 200 * placement.LOOKS
    read = type(machine.alloc(on_device(0), 4, "any")).read
    monkeypatch.setattr(
        type(machine.alloc(on_device(0), 4, "any")),
        "read",
        lambda self, *args, **kwargs: times if self.nbytes == 4 * placement.CANDIDATES else read(self, *args, **kwargs),
    )
    placed = placement.near(machine, 0, 512, 128, "slots", 2.0)
    assert placed.memory.start == 5 * placement.STEP_BYTES
    assert (placed.nearest_cycles, placed.farthest_cycles) == (200, 300)


def test_every_place_is_looked_at(machine: EmulatedMachine) -> None:
    placed = placement.near(machine, 0, 512, 128, "slots", 2.0)
    round_trip_cycles = machine.spec.gpu.l2_round_trip_ns.value * machine.spec.gpu.clock_ghz.value
    assert placed.nearest_cycles == pytest.approx(round_trip_cycles, rel=0.1)
    assert placed.farthest_cycles == pytest.approx(placed.nearest_cycles, rel=0.1), "the model has no far part"


def test_slots_in_host_memory_and_large_arrays_are_not_placed(machine: EmulatedMachine) -> None:
    assert World.build(machine, "peer", 2, rows=2).poll_cycles is not None
    assert World.build(machine, "host", 2, rows=2).poll_cycles is None
    assert World.build(machine, "peer", 2, rows=100).poll_cycles is None


class FarMemory(EmulatedMachine):
    """Gives GPU 0 slots in the memory of GPU 1, so that the search for a near place crosses their link."""

    deadlines_s: list[float]

    def alloc(self, place: Place, nbytes: int, name: str) -> Buffer:
        return super().alloc(on_device(1) if name == "slots of rank 0" else place, nbytes, name)

    def run(self, launches: Sequence[Launch], deadline_s: float, *more: Any, **named: Any) -> Outcome:
        self.deadlines_s.append(deadline_s)
        return super().run(launches, deadline_s, *more, **named)


@pytest.mark.parametrize("fabric", ["pcie5-switch4", "faulty/stuck-link"])
def test_a_search_that_hangs_is_a_hang_with_the_deadline_that_was_asked_for(fabric: str) -> None:
    config = BarrierConfig(transport="peer", orders=("floor",), modes=("in-kernel",), timeout_s=0.5)
    with FarMemory.open(fabric, [0, 1]) as machine:
        assert isinstance(machine, FarMemory)
        machine.deadlines_s = []
        (result,) = run(machine, config, Listener())
        assert set(machine.deadlines_s) == {0.5}
    if fabric == "pcie5-switch4":
        assert result.status is Status.PASS
        return
    assert result.status is Status.HANG
    assert "during the search for a near place for the slots of rank 0" in result.verdict
    assert result.reason is not None
    assert "look at that link" in result.reason
    assert result.hang is not None
    assert result.hang["proof"]
