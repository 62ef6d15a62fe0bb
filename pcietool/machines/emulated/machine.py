"""The Machine without GPUs: the PTX of the same compile, run by the emulator on a modelled fabric.

Must stay a thin tenant: argument checks and bookkeeping here, behaviour in `emulator`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from pcietool.compiler import compile_source
from pcietool.contract.outcomes import Hang, Outcome
from pcietool.emulator.engine.grids import LaunchQueue, resident_blocks
from pcietool.emulator.engine.threads import GridSpec
from pcietool.emulator.engine.trace import EventTrace, TracedEngine
from pcietool.emulator.engine.variants import OrderName, engine_of
from pcietool.emulator.exploring.explore import BOUNDS, MAX_STATES, KernelExploration, Observed, explore
from pcietool.emulator.exploring.launches import ExploredLaunch
from pcietool.emulator.fabric.fabric import FabricSpec, load_fabric
from pcietool.emulator.memory import HOST, Memory
from pcietool.emulator.translate.lower import Lowered
from pcietool.emulator.translate.translation import GRID_BARRIER
from pcietool.errors import EmulationError, UsageError
from pcietool.machines.allocation import Allocation
from pcietool.machines.arguments import bit_patterns
from pcietool.machines.base import (
    JOIN_MARGIN_S,
    Backend,
    Buffer,
    CopyStream,
    Kernel,
    Launch,
    Machine,
    Place,
    Program,
)
from pcietool.machines.devices import Device, HostLink, Link
from pcietool.machines.emulated.agents import start_agent
from pcietool.machines.emulated.copies import start_copies
from pcietool.machines.emulated.ending import Ending, run_to_the_end
from pcietool.machines.emulated.memory import EmulatedAllocation
from pcietool.machines.emulated.program import EmulatedProgram, cluster_of, shared_bytes
from pcietool.machines.graph import Runner
from pcietool.machines.host_agents import HostAgent
from pcietool.protocol.watch import MAX_RECORDS, RECORD, WATCH, decode_records, fresh_watch
from pcietool.ptx.model import Variable

RESERVED_SHARED = 1024
"""Bytes of each SM's shared memory that CUDA keeps for itself, a block."""
OVERLAPPING = (9, 0)
"""Compute capability from which on a launch may begin before the one ahead of it has ended."""
DEFAULT_FABRIC = "pcie5-switch4"


class EmulatedMachine(Machine):
    """One modelled machine. Times are modelled, never measured; the same seed gives the same run."""

    backend: Backend = "emulated"

    def __init__(
        self,
        spec: FabricSpec,
        gpus: Sequence[int],
        seed: int,
        order: OrderName = "timing",
        trace: EventTrace | None = None,
        *,
        tear: bool = False,
    ) -> None:
        super().__init__()
        if order == "random" and spec.fault is not None:
            raise UsageError(
                f"fabric {spec.name} has a fault, which random memory order cannot show; use a healthy one"
            )
        self.spec = spec
        self.seed = seed
        self.order = order
        self.tear = tear
        self.label = f"fabric {spec.name}"
        self.memory = Memory(spec.gpu.count)
        self.engine = engine_of(self.memory, spec, seed, order, trace, tear=tear)
        self._used: Counter[int] = Counter()
        self._variables: dict[tuple[Program, int, int, str], Buffer] = {}
        self.gpus = tuple(gpus)
        """The fabric's GPU behind each device: devices are numbered 0.. as selected."""
        self._states = [LaunchQueue(gpu, self.engine) for gpu in range(spec.gpu.count)]
        self.devices = tuple(
            Device(
                index=index,
                name=spec.gpu.name,
                uuid=f"EMU-{spec.name}-{gpu}",
                pci=f"0000:{gpu + 1:02x}:00.0",
                compute_capability=spec.gpu.compute_capability,
                sms=spec.gpu.sms,
                memory_bytes=int(spec.gpu.memory_gib * 2**30),
            )
            for index, gpu in enumerate(self.gpus)
        )
        self._watches = [self.alloc(Place(d.index), WATCH.itemsize, f"watch of GPU {d.index}") for d in self.devices]
        self._records = [
            self.alloc(Place(None), RECORD.itemsize * MAX_RECORDS, f"records of GPU {d.index}") for d in self.devices
        ]

    @classmethod
    def open(
        cls,
        fabric: str = DEFAULT_FABRIC,
        gpus: Sequence[int] | None = None,
        seed: int = 0,
        order: OrderName = "timing",
        trace: EventTrace | None = None,
        *,
        tear: bool = False,
    ) -> EmulatedMachine:
        """A machine of the named fabric (or fabric file) with these of its GPUs (default: all). Its memory events go
        to `trace`, if there is one. `tear`: random order may show the elements of any vector one by one, which is what
        PTX allows, also where the fabric says that vectors are whole. Raises UsageError for random order on a faulty
        fabric, which is not modelled."""
        spec = load_fabric(fabric)
        chosen = range(spec.gpu.count) if gpus is None else gpus
        for gpu in chosen:
            if not 0 <= gpu < spec.gpu.count:
                raise UsageError(f"no GPU {gpu}: fabric {spec.name} has GPUs 0 to {spec.gpu.count - 1}")
        return cls(spec, list(chosen), seed, order, trace, tear=tear)

    # -- what there is ----------------------------------------------------------------------------------------------

    def link(self, src: int, dst: int) -> Link:
        link = self.spec.link_between(self.gpus[src], self.gpus[dst])
        return Link(src, dst, link.kind, access=True, native_atomics="full" if link.native_atomics else "none")

    def host_link(self, device: int) -> HostLink:
        return HostLink(device, "full" if self.spec.host.native_atomics else "none")

    def missing(self, capability: Literal["graphs", "host_agent", "copy_engine"]) -> str | None:
        return None

    def _in_random_order(self, seed: int, tear: bool) -> Machine | None:
        return EmulatedMachine(self.spec, self.gpus, seed, "random", tear=tear or self.tear)

    def facts(self) -> dict[str, Any]:
        return {
            "fabric": self.spec.name,
            "fabric_description": self.spec.description,
            "figures_by_source": self.spec.sources(),
            "fault": self.spec.fault and self.spec.fault.model_dump(mode="json"),
            "seed": self.seed,
        }

    def close(self) -> None:
        if isinstance(self.engine, TracedEngine):
            self.engine.note_unanswered()
        self.memory.segments.clear()

    # -- memory and programs ----------------------------------------------------------------------------------------

    def _load(self, name: str, text: str, defines: Mapping[str, int]) -> Program:
        architecture = self.spec.gpu.compute_capability
        compiled = compile_source(text, name=name, architecture=architecture, defines=defines)
        program = EmulatedProgram(name, defines, compiled.ptx, self.order, text)
        program.ptx_sha256 = {compiled.architecture: compiled.ptx_sha256}
        return program

    def load_ptx(self, name: str, ptx: str, takes_watch: Collection[str] = ()) -> Program:
        return EmulatedProgram(name, {}, ptx, self.order, takes_watch=takes_watch)

    def _alloc(self, place: Place, nbytes: int, name: str) -> Allocation:
        home = self._home(place)
        free = min(int(self.spec.gpu.memory_gib * 2**30) - self._used[home], 2**32 - 1)
        if nbytes > free:
            where = "host memory" if place.is_host else f"GPU {place.device}"
            raise UsageError(f"{name}: {nbytes} bytes needed on {where}, {free} free (emulated)")
        return EmulatedAllocation(self.memory, self._used, home, nbytes, name)

    def _home(self, place: Place) -> int:
        """The fabric's GPU whose memory it is, or HOST."""
        return HOST if place.device is None else self.gpus[place.device]

    def _copy(self, dst: Buffer, src: Buffer, nbytes: int, engine: Literal["copy engine", "staged"]) -> float:
        start = self.engine.now
        ends = [self._home(buffer.place) for buffer in (src, dst)]
        hops = [(ends[0], HOST), (HOST, ends[1])] if engine == "staged" else [(ends[0], ends[1])]
        arrived = start
        for hop in hops:
            if hop[0] != hop[1]:
                arrived = self.engine.fabric.routes[hop].write(arrived, nbytes, coalesced=True)
        if arrived == inf:
            raise EmulationError(f"a copy from {ends[0]} to {ends[1]} never arrives: {self.spec.fault}")
        self.engine.now = arrived
        stamp = self.engine.order.outside("copy engine", ends[0], strong=False)
        self.engine.deliver(ends[0], dst.address, src.read(np.uint8, nbytes).tobytes(), stamp)
        return arrived - start

    # -- running ----------------------------------------------------------------------------------------------------

    def resident_blocks(self, device: int, kernel: Kernel, block: int, shared: int = 0) -> int:
        return resident_blocks(self.spec.gpu, block, shared_bytes(self._lowered(kernel).function, shared))

    def check_shape(self, launch: Launch) -> None:
        super().check_shape(launch)
        shared = shared_bytes(self._lowered(launch.kernel).function, launch.shared)
        limit = self.spec.gpu.shared_bytes_per_sm - RESERVED_SHARED
        if shared > limit:
            raise UsageError(
                f"{launch.kernel.name}: {shared} bytes of shared memory a block, GPU {launch.device} has {limit}; use"
                " fewer rounds or smaller sizes"
            )

    def _round(
        self,
        what: str,
        launches: Sequence[Launch],
        host_agents: Sequence[HostAgent],
        copy_streams: Sequence[CopyStream],
    ) -> Runner:
        gap_ns = self.spec.gpu.stream_node_ns.value
        return lambda deadline_s: self.run_with_gap(launches, deadline_s, host_agents, gap_ns, copy_streams)

    def _graph(self, what: str, launches: Sequence[Launch]) -> Runner:
        recorded = tuple(launches)
        for launch in recorded:
            self.check_residency(launch)
        return lambda deadline_s: self.run_with_gap(recorded, deadline_s, (), self.spec.gpu.graph_node_ns.value)

    def run_with_gap(
        self,
        launches: Sequence[Launch],
        deadline_s: float,
        host_agents: Sequence[HostAgent],
        gap_ns: float,
        copy_streams: Sequence[CopyStream] = (),
    ) -> Outcome:
        """One round; `gap_ns` between the launches, and between the copies, of one device."""
        for launch in launches:
            self.check_residency(launch)
        self._reset_watches(deadline_s)
        engine = self.engine
        used = sorted({launch.device for launch in launches})
        began = engine.now
        engine.order.begin_round()
        for device in used:
            streams = sorted({launch.stream for launch in launches if launch.device == device})
            grids = {
                stream: [
                    self._grid(launch, deadline_s, self._lowered(launch.kernel))
                    for launch in launches
                    if (launch.device, launch.stream) == (device, stream)
                ]
                for stream in streams
            }
            launched = began + engine.gpu.launch_ns.value
            starts = {
                stream: launched
                + (engine.fabric.rng.random() * engine.gpu.issue_ns.value + engine.order.launch_delay_ns())
                for stream in streams
            }
            self._states[self.gpus[device]].submit(grids, starts, gap_ns)
        interval_ns = self.spec.host_agent_add_ns.value
        agents = [start_agent(engine, agent, began, interval_ns, deadline_s * 1e9) for agent in host_agents]
        copying = [
            start_copies(engine, self.gpus[stream.device], stream.steps, began + engine.gpu.launch_ns.value, gap_ns)
            for stream in copy_streams
        ]
        join_ns = engine.now + engine.gpu.launch_ns.value + (deadline_s + JOIN_MARGIN_S) * 1e9
        ending = run_to_the_end(engine, self._states, join_ns)
        elapsed = {
            device: state.ended_ns - (state.started_ns or 0.0)
            for device, state in ((device, self._states[self.gpus[device]]) for device in used)
        }
        ended = [self._states[self.gpus[device]].ended_ns for device in used]
        engine.now = max([engine.now, *(time for time in ended if time < inf)])
        return Outcome(
            elapsed,
            self._hang(ending),
            tuple(agent.ended_ns - began for agent in agents),
            tuple(span.ended_ns - span.started_ns for span in copying),
            engine.order.unordered(),
            engine.taken_prints(),
        )

    def explore(
        self,
        launches: Sequence[Launch],
        observe: Sequence[tuple[Buffer, DTypeLike, int]] = (),
        max_states: int = MAX_STATES,
        max_seconds: float = inf,
        progress: Callable[[int], None] = lambda states: None,
    ) -> KernelExploration:
        """All executions, under the rules of `litmus`, of launches that start together, from the memory as it is, which
        is left as it is. `observe`: (buffer, element type, count) of what makes up an outcome. `progress` is told now
        and then how many states there are."""
        for launch in launches:
            self.check_shape(launch)
            self.check_residency(launch)
        self._reset_watches(deadline_s=1.0)  # no time passes: any will do
        explored = [
            ExploredLaunch(
                self.gpus[launch.device],
                self._grid(launch, 1.0, self._program(launch.kernel).explored(launch.kernel.name)),
            )
            for launch in launches
        ]
        observed = [Observed(buffer.address, dtype, count) for buffer, dtype, count in observe]
        bounds = replace(BOUNDS, states=max_states, seconds=max_seconds, progress=progress)

        def bytes_whole(home: int) -> float:
            return 0 if self.tear else self.spec.vector_bytes_whole(home)

        return explore(explored, self.memory, self.engine.fabric.is_native, bytes_whole, observed, bounds)

    def _reset_watches(self, deadline_s: float) -> None:
        for watch, records in zip(self._watches, self._records, strict=True):
            watch.write(fresh_watch(deadline_s, records.address))
            records.fill(0)

    def _hang(self, ending: Ending) -> Hang | None:
        watches = [watch.read(WATCH)[0] for watch in self._watches]
        records = tuple(
            record
            for watch, buffer in zip(watches, self._records, strict=True)
            for record in decode_records(buffer.read(RECORD), int(watch["records_taken"]))
        )
        if not ending.stuck and not any(watch["gave_up"] for watch in watches):
            return None
        dropped = sum(max(0, int(watch["records_taken"]) - MAX_RECORDS) for watch in watches)
        limit: Literal["host join timeout", "device deadline"] = (
            "host join timeout" if ending.stuck else "device deadline"
        )
        return Hang(limit, records, dropped, ending.proof, ending.running)

    def _program(self, kernel: Kernel) -> EmulatedProgram:
        assert isinstance(kernel.program, EmulatedProgram)
        assert kernel.program.order == self.order
        return kernel.program

    def _lowered(self, kernel: Kernel) -> Lowered:
        return self._program(kernel).lowered[kernel.name]

    def _grid(self, launch: Launch, deadline_s: float, lowered: Lowered) -> GridSpec:
        if lowered.non_coherent:
            self.engine.order.watch_non_coherent(self.memory)
        cluster = cluster_of(lowered.function)
        if launch.grid % cluster:
            raise UsageError(
                f"{launch.kernel.name}: {launch.grid} blocks are no whole clusters of {cluster}; launch a multiple"
            )
        arguments = bit_patterns(launch.kernel, self._watches[launch.device].address, launch.args)
        return GridSpec(
            lowered=lowered,
            blocks=launch.grid,
            threads=launch.block,
            arguments=arguments,
            shared=shared_bytes(lowered.function, launch.shared),
            deadline_ns=deadline_s * 1e9 if launch.kernel.takes_watch and lowered.reads_timers else inf,
            stream=launch.stream,
            overlaps=launch.overlaps and self.spec.gpu.compute_capability >= OVERLAPPING,
            shape=launch.shape,
            cluster=cluster,
            variables={one.name: self._variable(launch, one) for one in lowered.module_variables},
        )

    def _variable(self, launch: Launch, variable: Variable) -> int:
        """Its address: each program has its own on each device, with its initial value. Each stream has a grid barrier,
        which a launch that is not cooperative is not told of."""
        if variable is GRID_BARRIER and not launch.cooperative:
            return 0
        stream = launch.stream if variable is GRID_BARRIER else 0
        key = launch.kernel.program, launch.device, stream, variable.name
        if key not in self._variables:
            buffer = self.alloc(Place(launch.device), max(1, variable.bytes), variable.name)
            if variable.initial is not None:
                buffer.write(np.frombuffer(variable.initial, np.uint8))
            self._variables[key] = buffer
        return self._variables[key].address
