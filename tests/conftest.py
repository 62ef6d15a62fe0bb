"""What tests share: `machine`, the same test functions on both tenants, and `emulated` for what only the emulator can
do."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from pcietool.errors import NothingToRunError
from pcietool.machines import open_machine
from pcietool.machines.base import Machine
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
