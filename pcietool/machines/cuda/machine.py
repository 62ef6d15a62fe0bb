"""The Machine on real GPUs: opens them, and puts programs, buffers, launches and rounds together.

Must only live in a process that may be killed: see `supervision.child`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from cuda import bindings
from cuda.bindings import driver

from pcietool.compiler import prefer_major
from pcietool.contract.outcomes import Outcome
from pcietool.errors import DriverError, UsageError
from pcietool.machines.allocation import Allocation
from pcietool.machines.base import (
    HOST,
    Buffer,
    CopyStream,
    Kernel,
    Launch,
    Machine,
    Place,
    Program,
)
from pcietool.machines.cuda.agents import atomic_fetch_add
from pcietool.machines.cuda.copies import CopyQueue, copy_call
from pcietool.machines.cuda.devices import common_name, connect, describe_device, describe_host_link, identities
from pcietool.machines.cuda.driver import call, initialise
from pcietool.machines.cuda.gpu import WatchedGpu
from pcietool.machines.cuda.launch import PreparedLaunch, record
from pcietool.machines.cuda.memory import DeviceAllocation, HostAllocation
from pcietool.machines.cuda.program import CudaProgram, cuda_program
from pcietool.machines.cuda.rounds import StuckError, run_round
from pcietool.machines.cuda.telemetry import Telemetry
from pcietool.machines.devices import Device, HostLink, Link
from pcietool.machines.graph import Runner
from pcietool.machines.host_agents import HostAgent
from pcietool.machines.naming import launch_names
from pcietool.machines.selection import select_gpus

MAX_QUEUED = 512
"""Launches of one round on one GPU. Beyond about 1024 the driver makes the host wait for room in the queue, and the
launches that would let the GPU go on are never made."""

_REPORTED_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING")
_REPORTED_PREFIX = "NCCL_"


class CudaMachine(Machine):
    """Selected GPUs of this process, numbered from 0 in the order of the selection."""

    backend = "cuda"

    def __init__(self, gpus: Sequence[WatchedGpu], telemetry: Telemetry) -> None:
        super().__init__()
        self._gpus = tuple(gpus)
        self._telemetry = telemetry
        self.stuck = False
        self._copy_queues: dict[int, CopyQueue] = {}
        self.devices: tuple[Device, ...] = tuple(gpu.device for gpu in gpus)
        self._links = {
            (src.index, dst.index): connect(src, dst, telemetry) for src in gpus for dst in gpus if src is not dst
        }
        self._driver_version = telemetry.driver_version()
        self.label = f"{common_name(self.devices)}, driver {self._driver_version or 'unknown'}"

    @classmethod
    def open(cls, gpus: Sequence[str] | None = None, num_gpus: int | None = None) -> CudaMachine:
        """Initialises CUDA in this process and takes the selected GPUs, all of them by default.

        Raises NothingToRunError without driver or GPU, UsageError for a selection that fits none.
        """
        found = identities(initialise())
        chosen = select_gpus(gpus, num_gpus, found)
        prefer_major(int(call(driver.cuDriverGetVersion)) // 1000)
        telemetry = Telemetry()
        opened = []
        for index, identity in enumerate(chosen):
            handle = call(driver.cuDeviceGet, identity.index)
            opened.append(WatchedGpu(describe_device(index, identity, handle, telemetry), handle))
        return cls(opened, telemetry)

    def link(self, src: int, dst: int) -> Link:
        return self._links[src, dst]

    def host_link(self, device: int) -> HostLink:
        return describe_host_link(self._gpus[device])

    def missing(self, capability: Literal["graphs", "host_agent", "copy_engine"]) -> str | None:
        if capability == "host_agent" and atomic_fetch_add() is None:
            return "libatomic.so.1 is missing: install the package libatomic1 (libatomic on Fedora)"
        return None

    def _load(self, name: str, text: str, defines: Mapping[str, int]) -> Program:
        self._refuse_if_stuck(f"load of {name}")
        return CudaProgram.of_source(self._gpus, name, text, defines)

    def load_ptx(self, name: str, ptx: str, takes_watch: Collection[str] = ()) -> Program:
        self._refuse_if_stuck(f"load of {name}")
        return CudaProgram.of_ptx(self._gpus, name, ptx, takes_watch)

    def _alloc(self, place: Place, nbytes: int, name: str) -> Allocation:
        self._refuse_if_stuck(f"alloc of {name}")
        if place.device is not None:
            return DeviceAllocation(self._gpus[place.device], nbytes, name)
        self._gpus[0].make_current()
        return HostAllocation(nbytes)

    def _copy(self, dst: Buffer, src: Buffer, nbytes: int, engine: Literal["copy engine", "staged"]) -> float:
        if engine == "copy engine":
            return self._hop(dst, src, nbytes)
        bounce = self.alloc(HOST, nbytes, "bounce buffer of a staged copy")
        try:
            return self._hop(bounce, src, nbytes) + self._hop(dst, bounce, nbytes)
        finally:
            bounce.free()

    def resident_blocks(self, device: int, kernel: Kernel, block: int, shared: int = 0) -> int:
        gpu = self._gpus[device]
        function = cuda_program(kernel).function(gpu, kernel.name, shared)
        gpu.make_current()
        return gpu.device.sms * int(call(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor, function, block, shared))

    def _round(
        self,
        what: str,
        launches: Sequence[Launch],
        host_agents: Sequence[HostAgent],
        copy_streams: Sequence[CopyStream],
    ) -> Runner:
        if host_agents and (reason := self.missing("host_agent")):
            raise UsageError(f"no CPU thread can take part: {reason}")
        gpus, prepared = self._prepare(launches, alone=not copy_streams)
        queues = [self._copy_queue(stream.device) for stream in copy_streams]
        # Kernels first: they would otherwise start late, by as long as it takes to submit all copies.
        submit = [one.submit for one in prepared]
        submit += [queue.prepared(self._gpus, stream) for queue, stream in zip(queues, copy_streams, strict=True)]
        return lambda deadline_s: self._run_round(gpus, submit, deadline_s, host_agents, what, queues)

    def _graph(self, what: str, launches: Sequence[Launch]) -> Runner:
        gpus, prepared = self._prepare(launches)
        graphs = record(gpus, prepared)
        return lambda deadline_s: self._run_round(gpus, [graphs.launch], deadline_s, (), what)

    def _in_random_order(self, seed: int, tear: bool) -> Machine | None:
        return None

    def facts(self) -> dict[str, Any]:
        version = int(call(driver.cuDriverGetVersion))
        return {
            "driver": self._driver_version,
            "driver_cuda": f"{version // 1000}.{version % 1000 // 10}",
            "cuda_bindings": bindings.__version__,
            "environment": {
                name: value
                for name, value in sorted(os.environ.items())
                if name in _REPORTED_VARIABLES or name.startswith(_REPORTED_PREFIX)
            },
            "nvml_unavailable": self._telemetry.unavailable,
            "gpus_now": [self._telemetry.read(device.pci) for device in self.devices],
        }

    def close(self) -> None:
        """Does nothing on a stuck machine: any CUDA call could wait for the kernel that hangs."""
        if self.stuck:
            return
        for gpu in self._gpus:
            gpu.release()
        self._telemetry.close()

    def _refuse_if_stuck(self, what: str) -> None:
        if self.stuck:
            raise DriverError(f"{what}: this process cannot use the GPUs any more after a hang; run the command again")

    def _copy_queue(self, device: int) -> CopyQueue:
        """Made before anything is launched: making a stream may wait for the GPU."""
        if device not in self._copy_queues:
            self._copy_queues[device] = CopyQueue(self._gpus[device])
        return self._copy_queues[device]

    def _prepare(self, launches: Sequence[Launch], alone: bool = True) -> tuple[list[WatchedGpu], list[PreparedLaunch]]:
        """The GPUs that take part and the launches in the order given."""
        self._refuse_if_stuck("launch")
        if not launches and alone:
            raise UsageError("a round needs at least one launch")
        for device in {launch.device for launch in launches}:
            queued = sum(launch.device == device for launch in launches)
            if queued > MAX_QUEUED:
                raise UsageError(f"{queued} launches at once on GPU {device}: at most {MAX_QUEUED}, use fewer")
        prepared = [PreparedLaunch(self._gpus[launch.device], launch) for launch in launches]
        for launch in launches:
            self.check_residency(launch)
        self._check_room_beside(launches)
        return [gpu for gpu in self._gpus if any(one.gpu is gpu for one in prepared)], prepared

    def _check_room_beside(self, launches: Sequence[Launch]) -> None:
        """Grids of waiting blocks in several streams of a GPU must all fit there at once."""
        for device in {launch.device for launch in launches if launch.stream}:
            taken: dict[int, float] = {}
            for launch in launches:
                if launch.device == device and launch.spins:
                    room = self.resident_blocks(device, launch.kernel, launch.block, launch.shared)
                    taken[launch.stream] = max(taken.get(launch.stream, 0.0), launch.grid / room)
            if len(taken) > 1 and any(one.cooperative for one in launches if one.device == device):
                raise UsageError(
                    f"{launch_names(launches)}: cooperative launches of one GPU run one after the other: its ranks"
                    " cannot wait for each other; use a GPU for each"
                )
            if sum(taken.values()) > 1:
                raise UsageError(
                    f"{launch_names(launches)}: blocks of several streams wait for each other, and are not resident at"
                    " once; use fewer blocks or threads, or more GPUs"
                )

    def _run_round(
        self,
        gpus: Sequence[WatchedGpu],
        submit: Sequence[Callable[[], None]],
        deadline_s: float,
        host_agents: Sequence[HostAgent],
        what: str,
        copy_queues: Sequence[CopyQueue] = (),
    ) -> Outcome:
        try:
            outcome = run_round(gpus, submit, deadline_s, host_agents, what, copy_queues)
        except StuckError:
            self.stuck = True
            raise
        self.stuck = outcome.hang is not None and outcome.hang.limit == "host join timeout"
        return outcome

    def _hop(self, dst: Buffer, src: Buffer, nbytes: int) -> float:
        """One copy by a copy engine, on the source's GPU if it has one; GPU time in ns."""
        owner = src.place.device if src.place.device is not None else dst.place.device
        gpu = self._gpus[owner or 0]
        gpu.record(gpu.began)
        function, arguments = copy_call(self._gpus, dst, src, nbytes, gpu.stream)
        call(function, *arguments)
        gpu.record(gpu.ended)
        gpu.synchronise()
        return gpu.elapsed_ns()
