"""GPUs for a library of somebody else's, which runs in a process of its own: contexts, streams, memory, events, graphs.

Here the host may wait for the GPU: whoever hangs is killed from outside. Must know no contender's library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cuda.bindings import driver

from pcietool.machines.cuda.driver import call

_NON_BLOCKING = 1


class Gpu:
    """The primary context of one GPU, which CUDA's runtime and NCCL use too, and one stream."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._device = call(driver.cuDeviceGet, index)
        self._context = call(driver.cuDevicePrimaryCtxRetain, self._device)
        self.make_current()
        self.stream = call(driver.cuStreamCreate, _NON_BLOCKING)
        self._began = call(driver.cuEventCreate, 0)
        self._ended = call(driver.cuEventCreate, 0)

    @property
    def stream_address(self) -> int:
        return int(self.stream)

    @property
    def architecture(self) -> str:
        attribute = driver.CUdevice_attribute
        names = (f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}" for part in ("MAJOR", "MINOR"))
        major, minor = (
            int(call(driver.cuDeviceGetAttribute, getattr(attribute, name), self._device)) for name in names
        )
        return f"sm_{major}{minor}"

    def make_current(self) -> None:
        """For this thread."""
        call(driver.cuCtxSetCurrent, self._context)

    def alloc(self, nbytes: int) -> int:
        self.make_current()
        return int(call(driver.cuMemAlloc, nbytes))

    def write(self, address: int, values: np.ndarray) -> None:
        self.make_current()
        call(driver.cuMemcpyHtoDAsync, address, values.ctypes.data, values.nbytes, self.stream)
        self.synchronise()

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.make_current()
        call(driver.cuMemsetD8Async, address, byte, nbytes, self.stream)
        self.synchronise()

    def read(self, address: int, count: int) -> np.ndarray:
        """[count] of float32."""
        self.make_current()
        values = np.empty(count, np.float32)
        call(driver.cuMemcpyDtoHAsync, values.ctypes.data, address, values.nbytes, self.stream)
        self.synchronise()
        return values

    def synchronise(self) -> None:
        self.make_current()
        call(driver.cuStreamSynchronize, self.stream)

    def record_begin(self) -> None:
        self.make_current()
        call(driver.cuEventRecord, self._began, self.stream)

    def record_end(self) -> None:
        self.make_current()
        call(driver.cuEventRecord, self._ended, self.stream)

    def elapsed_us(self) -> float:
        return float(call(driver.cuEventElapsedTime, self._began, self._ended)) * 1e3


def open_gpus(indices: Sequence[int]) -> list[Gpu]:
    """Initialises CUDA in this process, with modules loaded as the library expects it: not eagerly, as ours are."""
    call(driver.cuInit, 0)
    return [Gpu(index) for index in indices]


def shortest_us(gpus: Sequence[Gpu], submit: Callable[[], None]) -> float:
    """What `submit` takes on the GPU where that is shortest: the others also waited for the last one to be started."""
    for gpu in gpus:
        gpu.record_begin()
    submit()
    for gpu in gpus:
        gpu.record_end()
    for gpu in gpus:
        gpu.synchronise()
    return min(gpu.elapsed_us() for gpu in gpus)


class Graphs:
    """What `submit` enqueues on all GPUs, recorded as one graph for each."""

    def __init__(self, gpus: Sequence[Gpu], submit: Callable[[], None]) -> None:
        self._gpus = gpus
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        for gpu in gpus:
            gpu.make_current()
            call(driver.cuStreamBeginCapture, gpu.stream, mode)
        submit()
        self._executables: list[Any] = []
        for gpu in gpus:
            gpu.make_current()
            graph = call(driver.cuStreamEndCapture, gpu.stream)
            self._executables.append(call(driver.cuGraphInstantiate, graph, 0))
            call(driver.cuGraphDestroy, graph)
        for gpu, executable in zip(gpus, self._executables, strict=True):
            gpu.make_current()
            call(driver.cuGraphUpload, executable, gpu.stream)
            gpu.synchronise()

    def launch(self) -> None:
        for gpu, executable in zip(self._gpus, self._executables, strict=True):
            gpu.make_current()
            call(driver.cuGraphLaunch, executable, gpu.stream)
