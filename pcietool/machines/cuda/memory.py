"""A buffer's memory as CUDA has it: device memory of one GPU, or pinned host memory that all of them map.

Must not launch anything.
"""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver

from pcietool.machines.allocation import Allocation
from pcietool.machines.cuda.driver import call
from pcietool.machines.cuda.gpu import Gpu, pinned_memory, release_pinned_memory


class DeviceAllocation(Allocation):
    """Memory of one GPU."""

    def __init__(self, gpu: Gpu, nbytes: int, name: str) -> None:
        self._gpu = gpu
        self.address = gpu.alloc(nbytes, name)
        self.fill(0, 0, nbytes)

    def read_into(self, values: np.ndarray, offset: int) -> None:
        self._gpu.read_into(values, self.address + offset)

    def write(self, values: np.ndarray, offset: int) -> None:
        self._gpu.write(self.address + offset, values)

    def fill(self, byte: int, offset: int, nbytes: int) -> None:
        self._gpu.fill(self.address + offset, byte, nbytes)

    def free(self) -> None:
        self._gpu.make_current()
        call(driver.cuMemFree, self.address)


class HostAllocation(Allocation):
    """Pinned, mapped host memory."""

    def __init__(self, nbytes: int) -> None:
        self._memory = pinned_memory(nbytes)
        self.address = self._memory.ctypes.data

    def read_into(self, values: np.ndarray, offset: int) -> None:
        values[:] = self._memory[offset : offset + values.size]

    def write(self, values: np.ndarray, offset: int) -> None:
        self._memory[offset : offset + values.size] = values

    def fill(self, byte: int, offset: int, nbytes: int) -> None:
        self._memory[offset : offset + nbytes] = byte

    def free(self) -> None:
        release_pinned_memory(self._memory)
