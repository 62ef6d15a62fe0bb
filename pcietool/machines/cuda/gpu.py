"""One GPU as this process uses it: context, stream, memory, events, and the Watch that our kernels report to.

Must know nothing of other GPUs, nothing of rounds, and nothing of the libraries that use it too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from cuda.bindings import driver

from pcietool.contract.outcomes import WaitRecord
from pcietool.errors import UsageError
from pcietool.machines.cuda.driver import NOT_READY, OUT_OF_MEMORY, SUCCESS, attempt, call, failure
from pcietool.machines.devices import Device
from pcietool.protocol.watch import MAX_RECORDS, RECORD, WATCH, decode_records, fresh_watch

_NON_BLOCKING = 1
_PORTABLE_AND_MAPPED = 1 | 2


def pinned_memory(nbytes: int) -> np.ndarray:
    """Zeroed page-locked host memory that every GPU maps at the same address; shape (nbytes,), dtype uint8.

    It is never collected: `release_pinned_memory` gives it back. Raises UsageError if there is not enough.
    """
    code, pointer = attempt(driver.cuMemHostAlloc, nbytes, _PORTABLE_AND_MAPPED)
    if code == OUT_OF_MEMORY:
        raise UsageError(f"the host cannot pin {nbytes} bytes of memory; use smaller sizes, or raise `ulimit -l`")
    if code != SUCCESS:
        raise failure(f"cuMemHostAlloc of {nbytes} bytes", code)
    address = int(pointer)
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
    memory[:] = 0
    return memory


def release_pinned_memory(memory: np.ndarray) -> None:
    call(driver.cuMemFreeHost, memory.ctypes.data)


def compute_capability(handle: Any) -> tuple[int, int]:
    major, minor = (
        int(call(driver.cuDeviceGetAttribute, attribute, handle))
        for attribute in (
            driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return major, minor


class Gpu:
    """The primary context of one device, which CUDA's runtime uses too. Everything here happens on its one non-blocking
    stream, but for launches that ask for another one."""

    def __init__(self, index: int, handle: Any) -> None:
        self.index = index
        self.handle = handle
        self.context = call(driver.cuDevicePrimaryCtxRetain, handle)
        self.make_current()
        self.stream = call(driver.cuStreamCreate, _NON_BLOCKING)
        self.began = call(driver.cuEventCreate, 0)
        self.ended = call(driver.cuEventCreate, 0)
        self._beside: dict[int, tuple[Any, Any]] = {}

    def stream_number(self, number: int) -> Any:
        """Stream 0 is its own; others run beside it from `began` to `ended`. Made before anything is launched."""
        if not number:
            return self.stream
        if number not in self._beside:
            self.make_current()
            self._beside[number] = call(driver.cuStreamCreate, _NON_BLOCKING), call(driver.cuEventCreate, 0)
        return self._beside[number][0]

    def begin(self) -> None:
        """What is submitted from now on begins together."""
        self.record(self.began)
        for stream, _ in self._beside.values():
            call(driver.cuStreamWaitEvent, stream, self.began, 0)

    def end(self) -> None:
        """`ended` is when all streams are done."""
        self.make_current()
        for stream, event in self._beside.values():
            call(driver.cuEventRecord, event, stream)
            call(driver.cuStreamWaitEvent, self.stream, event, 0)
        self.record(self.ended)

    def make_current(self) -> None:
        """For this thread."""
        call(driver.cuCtxSetCurrent, self.context)

    def synchronise(self) -> None:
        """Waits for the stream. Never while a kernel may spin."""
        self.make_current()
        call(driver.cuStreamSynchronize, self.stream)

    def alloc(self, nbytes: int, name: str) -> int:
        """The address of device memory, not zeroed. Raises UsageError, saying what is needed and what is free, if there
        is not enough."""
        self.make_current()
        code, address = attempt(driver.cuMemAlloc, nbytes)
        if code == OUT_OF_MEMORY:
            free, _ = call(driver.cuMemGetInfo)
            raise UsageError(
                f"{name} needs {nbytes} bytes on GPU {self.index}, of which {int(free)} are free; use smaller sizes"
            )
        if code:
            raise failure(f"cuMemAlloc of {nbytes} bytes for {name} on GPU {self.index}", code)
        return int(address)

    # On the stream and waited for: a plain copy would run on a stream that ours does not wait for.

    def write(self, address: int, values: np.ndarray) -> None:
        self.make_current()
        data = np.ascontiguousarray(values)
        call(driver.cuMemcpyHtoDAsync, address, data.ctypes.data, data.nbytes, self.stream)
        call(driver.cuStreamSynchronize, self.stream)

    def read_into(self, values: np.ndarray, address: int) -> None:
        self.make_current()
        call(driver.cuMemcpyDtoHAsync, values.ctypes.data, address, values.nbytes, self.stream)
        call(driver.cuStreamSynchronize, self.stream)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.make_current()
        call(driver.cuMemsetD8Async, address, byte, nbytes, self.stream)
        call(driver.cuStreamSynchronize, self.stream)

    def record(self, event: Any) -> None:
        self.make_current()
        call(driver.cuEventRecord, event, self.stream)

    def has_ended(self) -> bool:
        """Is everything before the last `record(ended)` done? Raises DriverError if a kernel broke the context."""
        code, _ = attempt(driver.cuEventQuery, self.ended)
        if code not in (SUCCESS, NOT_READY):
            raise failure(f"GPU {self.index}", code)
        return code == SUCCESS

    def elapsed_ns(self) -> float:
        return float(call(driver.cuEventElapsedTime, self.began, self.ended)) * 1e6


def open_gpus(indices: Sequence[int]) -> list[Gpu]:
    """GPUs for a library of somebody else's, in a process of its own. Initialises CUDA, with modules loaded as the
    library expects it: not eagerly, as ours are."""
    call(driver.cuInit, 0)
    return [Gpu(index, call(driver.cuDeviceGet, index)) for index in indices]


class WatchedGpu(Gpu):
    """A GPU of our machine: described, and with the Watch of its kernels."""

    def __init__(self, device: Device, handle: Any) -> None:
        super().__init__(device.index, handle)
        self.device = device
        self.watch_address = int(call(driver.cuMemAlloc, WATCH.itemsize))
        self._records = pinned_memory(MAX_RECORDS * RECORD.itemsize)

    def arm_watch(self, deadline_s: float) -> None:
        """Before a round: its deadline, and no wait has given up yet."""
        self._records[:] = 0
        self.write(self.watch_address, fresh_watch(deadline_s, self._records.ctypes.data))

    def read_watch(self) -> tuple[bool, int]:
        """After a round: did a wait give up, and how many did?"""
        watch = np.zeros(1, WATCH)
        self.read_into(watch, self.watch_address)
        return bool(watch["gave_up"][0]), int(watch["records_taken"][0])

    def wait_records(self, taken: int = MAX_RECORDS) -> tuple[WaitRecord, ...]:
        """What waits left behind, read from mapped host memory: works while a kernel still hangs."""
        return decode_records(self._records.view(RECORD), taken)

    def release(self) -> None:
        """Gives back the context, and all device memory in it."""
        self.make_current()
        release_pinned_memory(self._records)
        call(driver.cuDevicePrimaryCtxRelease, self.handle)
