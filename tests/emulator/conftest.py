"""`machine`: instruction tests run on both tenants; what only the emulator can do takes `emulated`."""

import sys
from pathlib import Path

import pytest

from pcietool.errors import NothingToRunError
from pcietool.machines import open_machine
from pcietool.machines.emulated import EmulatedMachine

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "litmus"))  # random_programs
sys.path.insert(0, str(TESTS / "emulator"))  # what is no test here: programs and cases


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)], scope="module")
def machine(request):
    try:
        opened = open_machine(request.param, fabric="h200-nvlink2" if request.param == "emulated" else None)
    except NothingToRunError as error:
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.fixture
def emulated():
    """A machine nobody else has used: PCIe, no native atomics, 4 GPUs."""
    with EmulatedMachine.open("pcie5-switch4") as opened:
        yield opened
