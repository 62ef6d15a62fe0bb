"""A round recorded as one CUDA graph per GPU, uploaded before its first run.

Must not run anything while it records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cuda.bindings import driver

from pcietool.contract.outcomes import Outcome
from pcietool.errors import DriverError
from pcietool.machines.base import Graph
from pcietool.machines.cuda.driver import call
from pcietool.machines.cuda.gpu import Gpu
from pcietool.machines.cuda.launch import PreparedLaunch

RoundRunner = Callable[[Sequence[Gpu], Sequence[Callable[[], None]], float], Outcome]


class CudaGraph(Graph):
    """`run_round` is the machine's way to run a round with these launches."""

    def __init__(self, gpus: Sequence[Gpu], launches: Sequence[PreparedLaunch], run_round: RoundRunner) -> None:
        self._gpus = gpus
        self._run_round = run_round
        self._executables = [(gpu, _record(gpu, [one for one in launches if one.gpu is gpu])) for gpu in gpus]
        for gpu, executable in self._executables:
            gpu.make_current()
            call(driver.cuGraphUpload, executable, gpu.stream)
        for gpu in gpus:
            gpu.synchronise()

    def run(self, deadline_s: float) -> Outcome:
        submit = [partial(_submit, gpu, executable) for gpu, executable in self._executables]
        return self._run_round(self._gpus, submit, deadline_s)


def _record(gpu: Gpu, launches: Sequence[PreparedLaunch]) -> Any:
    try:
        return _capture(gpu, [one.record for one in launches])
    except DriverError:
        # A driver may not record cooperative launches; that all blocks are resident was checked before.
        return _capture(gpu, [one.submit_plain for one in launches])


def _capture(gpu: Gpu, submit: Sequence[Callable[[], None]]) -> Any:
    gpu.make_current()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    call(driver.cuStreamBeginCapture, gpu.stream, mode)
    try:
        for launch in submit:
            launch()
    finally:
        graph = call(driver.cuStreamEndCapture, gpu.stream)
    executable = call(driver.cuGraphInstantiate, graph, 0)
    call(driver.cuGraphDestroy, graph)
    return executable


def _submit(gpu: Gpu, executable: Any) -> None:
    gpu.make_current()
    call(driver.cuGraphLaunch, executable, gpu.stream)
