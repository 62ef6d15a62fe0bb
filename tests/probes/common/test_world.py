"""The memory of the ranks, and how long what they run takes."""

import pytest

from pcietool.contract.outcomes import Outcome
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common.world import World


@pytest.mark.parametrize("graph", [False, True])
def test_operations_take_as_long_as_on_the_gpu_that_did_not_wait_for_others(
    emulated: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, graph: bool
) -> None:
    outcome = Outcome({0: 90e3, 1: 40e3, 2: 70e3})
    monkeypatch.setattr(emulated, "run", lambda *_, **__: outcome)
    world = World(emulated, "peer", (0, 1, 2), None, (), {}, {})  # type: ignore[arg-type]
    monkeypatch.setattr(emulated, "graph", lambda launches: emulated)
    assert world.replayer([], 5, graph=graph)("test") == 8.0
