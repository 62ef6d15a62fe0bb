from collections.abc import Iterator

import pytest

from pcietool.machines.base import Buffer, Machine, on_device


@pytest.fixture
def buffers(machine: Machine) -> Iterator[list[Buffer]]:
    """Two of 64 KiB on GPU 0: input and output."""
    pair = [machine.alloc(on_device(0), 1 << 16, name) for name in ("input", "output")]
    yield pair
    for buffer in pair:
        buffer.free()
