"""Copies and 32-bit stores of one GPU on a stream of their own, so that they run beside its kernels.

Must not decide when they are submitted: that is a round's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver

from pcietool.errors import DriverError
from pcietool.machines.base import Buffer, CopyStream, StreamCopy
from pcietool.machines.cuda.driver import NOT_READY, SUCCESS, attempt, call, failure
from pcietool.machines.cuda.gpu import Gpu

DriverCall = tuple[Callable[..., tuple[Any, ...]], tuple[Any, ...]]

_NON_BLOCKING = 1
_AFTER_ALL_BEFORE = 0
"""CU_STREAM_WRITE_VALUE_DEFAULT: a system-wide fence precedes the store."""


def copy_call(gpus: Sequence[Gpu], dst: Buffer, src: Buffer, nbytes: int, stream: Any) -> DriverCall:
    """The driver's call, and its arguments, that copies on `stream`."""
    if src.place.device is not None and dst.place.device is not None and src.place != dst.place:
        contexts = gpus[dst.place.device].context, gpus[src.place.device].context
        return driver.cuMemcpyPeerAsync, (dst.address, contexts[0], src.address, contexts[1], nbytes, stream)
    return driver.cuMemcpyAsync, (dst.address, src.address, nbytes, stream)


class CopyQueue:
    """The stream of one GPU for copies, and its events. It goes with the GPU's context."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        gpu.make_current()
        self.stream = call(driver.cuStreamCreate, _NON_BLOCKING)
        self._began = call(driver.cuEventCreate, 0)
        self._ended = call(driver.cuEventCreate, 0)

    def prepared(self, gpus: Sequence[Gpu], copies: CopyStream) -> Callable[[], None]:
        """What submits all steps, with their arguments in place. It raises DriverError for a step that the driver
        refuses; those before it run."""
        calls = [
            copy_call(gpus, step.dst, step.src, step.nbytes, self.stream)
            if isinstance(step, StreamCopy)
            else (driver.cuStreamWriteValue32, (self.stream, step.word.address, step.value, _AFTER_ALL_BEFORE))
            for step in copies.steps
        ]

        def submit() -> None:
            self.gpu.make_current()
            call(driver.cuEventRecord, self._began, self.stream)
            try:
                for function, arguments in calls:
                    call(function, *arguments)
            except DriverError as error:
                raise DriverError(f"copies by GPU {self.gpu.index}: {error}") from None
            finally:
                call(driver.cuEventRecord, self._ended, self.stream)

        return submit

    def has_ended(self) -> bool:
        """Is everything that was submitted done? Raises DriverError if something broke the context."""
        code, _ = attempt(driver.cuEventQuery, self._ended)
        if code not in (SUCCESS, NOT_READY):
            raise failure(f"copies by GPU {self.gpu.index}", code)
        return code == SUCCESS

    def elapsed_ns(self) -> float:
        return float(call(driver.cuEventElapsedTime, self._began, self._ended)) * 1e6
