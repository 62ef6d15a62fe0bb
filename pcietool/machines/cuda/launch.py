"""One launch, prepared: arguments in place and handles resolved, so that submitting it is a single driver call.

Must not decide when anything is launched: that is a round's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda.bindings import driver

from pcietool.errors import DriverError, UsageError
from pcietool.machines.base import Launch
from pcietool.machines.cuda.arguments import ArgumentBlock
from pcietool.machines.cuda.driver import call
from pcietool.machines.cuda.gpu import WatchedGpu
from pcietool.machines.cuda.graph import Graphs, capture
from pcietool.machines.cuda.program import cuda_program

OVERLAPPING = (9, 0)
"""From this compute capability on, a launch can start before the one before it has ended."""

_SHAPE = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ")


class PreparedLaunch:
    """A grid of several blocks that wait is cooperative: the driver refuses what is not resident at once. One block
    is always resident, and its plain launch is cheaper."""

    def __init__(self, gpu: WatchedGpu, launch: Launch) -> None:
        self.gpu = gpu
        self.name = launch.kernel.name
        self._stream = launch.stream
        # Two cooperative launches of one GPU may wait for each other: where there are streams, what is resident is
        # counted by `prepare` alone.
        waits = launch.spins and launch.grid > 1 and not launch.beyond_residency and not launch.stream
        self._cooperative = launch.cooperative or waits
        self._overlaps = launch.overlaps and gpu.device.compute_capability >= OVERLAPPING
        self._arguments = ArgumentBlock(launch.kernel, gpu.watch_address, launch.args)
        function = cuda_program(launch.kernel).function(gpu, launch.kernel.name, launch.shared)
        shape = launch.shape or (launch.grid, 1, 1, launch.block, 1, 1)
        self._configuration = (
            function, *shape, launch.shared, gpu.stream_number(launch.stream),
            self._arguments.address,
        )  # fmt: skip

    def submit(self) -> None:
        if not self._cooperative:
            return self.submit_plain()
        self.gpu.make_current()
        call(driver.cuLaunchCooperativeKernel, *self._configuration)

    def submit_plain(self) -> None:
        """Without the driver's check that all blocks are resident."""
        self.gpu.make_current()
        call(driver.cuLaunchKernel, *self._configuration, 0)

    def record(self) -> None:
        """As a node of the graph that the stream records, allowed to overlap the node before where the kernel takes
        care of that itself."""
        if self._stream:
            raise UsageError(f"{self.name}: a graph has one stream; use stream 0, or no graph")
        if self._cooperative or not self._overlaps:
            return self.submit()
        self.gpu.make_current()
        function, *shape, shared, stream, arguments = self._configuration
        configuration = driver.CUlaunchConfig()
        for name, value in zip(_SHAPE, shape, strict=True):
            setattr(configuration, name, value)
        configuration.sharedMemBytes = shared
        configuration.hStream = stream
        overlap = driver.CUlaunchAttribute()
        overlap.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        overlap.value.programmaticStreamSerializationAllowed = 1
        configuration.attrs = [overlap]
        configuration.numAttrs = 1
        call(driver.cuLaunchKernelEx, configuration, function, arguments, 0)


def record(gpus: Sequence[WatchedGpu], launches: Sequence[PreparedLaunch]) -> Graphs:
    """A graph of its own launches for each GPU."""
    return Graphs(gpus, [_recorded(gpu, [one for one in launches if one.gpu is gpu]) for gpu in gpus])


def _recorded(gpu: WatchedGpu, launches: Sequence[PreparedLaunch]) -> Any:
    try:
        (executable,) = capture([gpu], [one.record for one in launches])
    except DriverError:
        # A driver may not record cooperative launches; that all blocks are resident was checked before.
        (executable,) = capture([gpu], [one.submit_plain for one in launches])
    return executable
