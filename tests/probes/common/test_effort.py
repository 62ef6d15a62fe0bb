"""How much is measured: usual figures, asked ones, and how rounds are shared out among launches."""

from dataclasses import dataclass, fields

import pytest

from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes import PROBES
from pcietool.probes.common.effort import effort_for, split_rounds


@dataclass(frozen=True)
class Effort:
    rounds: int
    warmup: int


@pytest.mark.parametrize(
    ("backend", "warmup", "effort"),
    [
        ("cuda", None, Effort(1000, 20)),
        ("emulated", None, Effort(10, 2)),
        ("emulated", 0, Effort(10, 0)),
    ],
)
def test_what_is_asked_for_comes_before_what_is_usual(
    backend: str, warmup: int | None, effort: Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmulatedMachine.open("pcie5-switch4", [0]) as machine:
        monkeypatch.setattr(machine, "backend", backend)
        assert effort_for(machine, cuda=Effort(1000, 20), emulated=Effort(10, 2), warmup=warmup) == effort


@pytest.mark.parametrize(
    ("total", "launches", "split"), [(50, 2, (50, 2)), (100, 2, (100, 2)), (250, 2, (100, 3)), (101, 9, (100, 9))]
)
def test_more_rounds_than_a_launch_holds_take_more_launches(total: int, launches: int, split: tuple[int, int]) -> None:
    assert split_rounds(total, 100, launches) == split


@pytest.mark.parametrize("name", PROBES)
def test_a_round_that_does_not_end_is_given_up_after_a_usual_time(name: str) -> None:
    """Two seconds, with which the other deadlines are in order."""
    defaults = {field.name: field.default for field in fields(PROBES.config(name))}
    assert defaults.get("timeout_s", 2.0) == 2.0
