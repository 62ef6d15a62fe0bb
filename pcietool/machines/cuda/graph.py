"""What several GPUs do, recorded as one CUDA graph for each and uploaded before its first run.

Must not run anything while it records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver

from pcietool.machines.cuda.driver import call
from pcietool.machines.cuda.gpu import Gpu


class Graphs:
    """One executable graph for each GPU, as `capture` makes them."""

    def __init__(self, gpus: Sequence[Gpu], executables: Sequence[Any]) -> None:
        self._executables = list(zip(gpus, executables, strict=True))
        for gpu, executable in self._executables:
            gpu.make_current()
            call(driver.cuGraphUpload, executable, gpu.stream)
        for gpu in gpus:
            gpu.synchronise()

    def launch(self) -> None:
        for gpu, executable in self._executables:
            gpu.make_current()
            call(driver.cuGraphLaunch, executable, gpu.stream)


def capture(gpus: Sequence[Gpu], submit: Sequence[Callable[[], None]]) -> list[Any]:
    """What all of `submit` enqueue on the streams of all these GPUs, as an executable graph for each."""
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    for gpu in gpus:
        gpu.make_current()
        call(driver.cuStreamBeginCapture, gpu.stream, mode)
    try:
        for launch in submit:
            launch()
    except BaseException:
        for gpu in gpus:
            _end_capture(gpu)
        raise
    executables = []
    for gpu in gpus:
        graph = _end_capture(gpu)
        executables.append(call(driver.cuGraphInstantiate, graph, 0))
        call(driver.cuGraphDestroy, graph)
    return executables


def _end_capture(gpu: Gpu) -> Any:
    gpu.make_current()
    return call(driver.cuStreamEndCapture, gpu.stream)
