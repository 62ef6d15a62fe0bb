"""What tests share: `machine`, the same test functions on both tenants, and `emulated` for what only the emulator can
do."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, settings

from pcietool.errors import NothingToRunError
from pcietool.machines import open_machine
from pcietool.machines.base import Machine, Program
from pcietool.machines.emulated.machine import EmulatedMachine

# A busy machine is no failure: neither an example nor making it has a limit of its own.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")

FABRIC = "pcie5-switch4"
"""PCIe, no native atomics, 4 GPUs."""


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors. Said here because pyproject.toml would say it to other plugins while they start, and one
    that warns then (pytest-benchmark with xdist, pytest-asyncio) ends the run before the first test."""
    config.addinivalue_line("filterwarnings", "error")


@pytest.fixture(scope="session", autouse=True)
def _programs_are_made_once() -> Iterator[None]:
    """An emulated program knows nothing of the machine that loads it, and most tests open a machine of their own:
    compiling and translating the same kernels again took a third of the time of all tests."""
    load = EmulatedMachine._load
    made: dict[tuple[object, ...], Program] = {}

    def load_once(machine: EmulatedMachine, name: str, text: str, defines: Mapping[str, int]) -> Program:
        key = (machine.spec.gpu.compute_capability, machine.order, name, text, *sorted(defines.items()))
        if key not in made:
            made[key] = load(machine, name, text, defines)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmulatedMachine, "_load", load_once)
        yield


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)], scope="module")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    try:
        opened = open_machine(request.param, fabric=FABRIC if request.param == "emulated" else None)
    except NothingToRunError as error:
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.fixture
def emulated() -> Iterator[EmulatedMachine]:
    """One that nobody else has used."""
    with EmulatedMachine.open(FABRIC) as opened:
        yield opened
