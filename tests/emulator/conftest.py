"""`machine`: instruction tests run on both tenants; what only the emulator can do takes `emulated`."""

import pytest

from pcietool.errors import NothingToRunError
from pcietool.machines import open_machine
from pcietool.machines.base import on_device
from pcietool.machines.emulated.machine import EmulatedMachine


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


@pytest.fixture
def buffers(machine):
    """Two of 64 KiB on GPU 0: input and output."""
    pair = [machine.alloc(on_device(0), 1 << 16, name) for name in ("input", "output")]
    yield pair
    for buffer in pair:
        buffer.free()
