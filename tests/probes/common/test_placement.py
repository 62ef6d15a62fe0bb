"""Where slots lie: the choice of the nearest place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pcietool.machines.base import on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common import placement
from pcietool.probes.common.world import World


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
    placed = placement.near(machine, 0, 512, 128, "slots")
    assert placed.memory.start == 5 * placement.STEP_BYTES
    assert (placed.nearest_cycles, placed.farthest_cycles) == (200, 300)


def test_every_place_is_looked_at(machine: EmulatedMachine) -> None:
    placed = placement.near(machine, 0, 512, 128, "slots")
    round_trip_cycles = machine.spec.gpu.l2_round_trip_ns.value * machine.spec.gpu.clock_ghz.value
    assert placed.nearest_cycles == pytest.approx(round_trip_cycles, rel=0.1)
    assert placed.farthest_cycles == pytest.approx(placed.nearest_cycles, rel=0.1), "the model has no far part"


def test_slots_in_host_memory_and_large_arrays_are_not_placed(machine: EmulatedMachine) -> None:
    assert World.build(machine, "peer", 2, rows=2).poll_cycles is not None
    assert World.build(machine, "host", 2, rows=2).poll_cycles is None
    assert World.build(machine, "peer", 2, rows=100).poll_cycles is None
