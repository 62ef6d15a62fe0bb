"""Buffers of the CUDA tenant: device memory of one GPU, or pinned host memory that all of them map.

Must not launch anything.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from cuda.bindings import driver
from numpy.typing import DTypeLike

from pcietool.errors import DriverError, UsageError
from pcietool.machines.base import HOST, Buffer, on_device
from pcietool.machines.cuda.driver import OUT_OF_MEMORY, attempt, call, failure
from pcietool.machines.cuda.gpu import Gpu, pinned_memory, release_pinned_memory


class CudaBuffer(Buffer):
    """What both kinds share: bounds, and that freed memory is not used again."""

    def __init__(self, name: str, nbytes: int, address: int, is_stuck: Callable[[], bool]) -> None:
        self.name = name
        self.nbytes = nbytes
        self.address = address
        self._is_stuck = is_stuck
        self._freed = False

    def read(self, dtype: DTypeLike = np.uint8, count: int | None = None, offset: int = 0) -> np.ndarray:
        itemsize = np.dtype(dtype).itemsize
        values = np.empty((self.nbytes - offset) // itemsize if count is None else count, dtype)
        self._check_range(offset, values.nbytes)
        if values.nbytes:
            self._read_into(values, offset)
        return values

    def write(self, values: np.ndarray, offset: int = 0) -> None:
        self._check_range(offset, values.nbytes)
        if values.nbytes:
            self._write(values, offset)

    def free(self) -> None:
        """Does nothing on a stuck machine: giving memory back would wait for the kernel that hangs."""
        if self._freed or self._is_stuck():
            return
        self._free()
        self._freed = True

    def _check_range(self, offset: int, nbytes: int) -> None:
        if self._is_stuck():
            raise DriverError(f"buffer {self.name} cannot be used any more: a kernel hangs; run the command again")
        if self._freed:
            raise ValueError(f"buffer {self.name} was freed")
        if offset < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"buffer {self.name} has {self.nbytes} bytes, not {nbytes} from byte {offset}")

    def _read_into(self, values: np.ndarray, offset: int) -> None:
        raise NotImplementedError

    def _write(self, values: np.ndarray, offset: int) -> None:
        raise NotImplementedError

    def _free(self) -> None:
        raise NotImplementedError


class DeviceBuffer(CudaBuffer):
    """Memory of one GPU."""

    def __init__(self, gpu: Gpu, nbytes: int, name: str, is_stuck: Callable[[], bool]) -> None:
        gpu.make_current()
        code, address = attempt(driver.cuMemAlloc, nbytes)
        if code == OUT_OF_MEMORY:
            free, _ = call(driver.cuMemGetInfo)
            raise UsageError(
                f"{name} needs {nbytes} bytes on GPU {gpu.index}, of which {int(free)} are free; use smaller sizes"
            )
        if code:
            raise failure(f"cuMemAlloc of {nbytes} bytes for {name} on GPU {gpu.index}", code)
        super().__init__(name, nbytes, int(address), is_stuck)
        self.place = on_device(gpu.index)
        self.gpu = gpu
        self.fill(0)

    def fill(self, byte: int) -> None:
        self._check_range(0, self.nbytes)
        self.gpu.fill(self.address, byte, self.nbytes)

    def _read_into(self, values: np.ndarray, offset: int) -> None:
        self.gpu.read_into(values, self.address + offset)

    def _write(self, values: np.ndarray, offset: int) -> None:
        self.gpu.write(self.address + offset, values)

    def _free(self) -> None:
        self.gpu.make_current()
        call(driver.cuMemFree, self.address)


class HostBuffer(CudaBuffer):
    """Pinned, mapped host memory."""

    def __init__(self, nbytes: int, name: str, is_stuck: Callable[[], bool]) -> None:
        self._memory = pinned_memory(nbytes)
        super().__init__(name, nbytes, self._memory.ctypes.data, is_stuck)
        self.place = HOST

    def fill(self, byte: int) -> None:
        self._check_range(0, self.nbytes)
        self._memory[:] = byte

    def _read_into(self, values: np.ndarray, offset: int) -> None:
        values.view(np.uint8).reshape(-1)[:] = self._memory[offset : offset + values.nbytes]

    def _write(self, values: np.ndarray, offset: int) -> None:
        self._memory[offset : offset + values.nbytes] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)

    def _free(self) -> None:
        release_pinned_memory(self._memory)
