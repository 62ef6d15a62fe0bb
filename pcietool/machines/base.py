"""The one contract between probes and hardware: a Machine with devices, links and five verbs.

A probe asks a Machine for memory, kernels and launches, and never learns whether real GPUs or the emulator
answer. Two tenants implement it: `machines.cuda` and `machines.emulated`. This module must not import either,
nor any CUDA package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import DTypeLike

from pcietool import data
from pcietool.compiler import source_sha256
from pcietool.contract.outcomes import Outcome
from pcietool.errors import DriverError, UsageError
from pcietool.machines.allocation import Allocation
from pcietool.machines.devices import Device, HostLink, Link
from pcietool.machines.graph import Graph, Runner
from pcietool.machines.host_agents import HostAgent
from pcietool.machines.naming import launch_names
from pcietool.ptx.model import Parameter

Backend = Literal["cuda", "emulated"]
JOIN_MARGIN_S = 2.0
"""How long after a round's deadline, by which its kernels should have ended, the host gives up."""
MOST_BLOCKS = 2**31 - 1
WORD_BYTES = 4
"""What copy streams write."""


@dataclass(frozen=True)
class Place:
    """Where memory lives: on one device, or in pinned host memory that every device maps."""

    device: int | None

    @property
    def is_host(self) -> bool:
        return self.device is None


HOST = Place(None)


def on_device(index: int) -> Place:
    return Place(index)


class Buffer:
    """Memory with one address that every device uses (unified addressing).

    Every use raises UsageError beyond its bounds or after `free`, DriverError on a machine that is stuck.
    """

    def __init__(
        self, machine: Machine, allocation: Allocation, place: Place, nbytes: int, name: str, start: int = 0
    ) -> None:
        self.place = place
        self.nbytes = nbytes
        self.name = name
        self.start = start
        """Where it begins in its allocation."""
        self._machine = machine
        self._allocation = allocation

    @property
    def address(self) -> int:
        self._check_not_freed()
        return self._allocation.address + self.start

    def read(self, dtype: DTypeLike = np.uint8, count: int | None = None, offset: int = 0) -> np.ndarray:
        """A copy of `count` elements (default: all) from byte `offset`. Not while a launch runs."""
        kind = np.dtype(dtype)
        count = max(0, self.nbytes - offset) // kind.itemsize if count is None else count
        self.check(offset, count * kind.itemsize)
        values = np.empty(count, kind)
        if values.nbytes:
            self._allocation.read_into(values.reshape(-1).view(np.uint8), self.start + offset)
        return values

    def write(self, values: np.ndarray, offset: int = 0) -> None:
        """Copies the bytes of `values` to byte `offset`. Not while a launch runs."""
        self.check(offset, values.nbytes)
        if values.nbytes:
            raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
            self._allocation.write(raw, self.start + offset)

    def fill(self, byte: int) -> None:
        """Sets every byte."""
        self.check(0, self.nbytes)
        self._allocation.fill(byte, self.start, self.nbytes)

    def free(self) -> None:
        """Gives the memory back, once; using it afterwards is an error. Does nothing on a stuck machine, where it would
        wait for the kernel that hangs."""
        if not self._allocation.is_freed and not self._machine.stuck:
            self._allocation.free()
            self._allocation.is_freed = True

    def check(self, offset: int, nbytes: int) -> None:
        """Raises as every use does unless the bytes from `offset` on are part of it."""
        self._check_not_freed()
        if self._machine.stuck:
            raise DriverError(f"buffer {self.name} cannot be used any more: a kernel hangs; run the command again")
        if min(offset, nbytes) < 0 or offset + nbytes > self.nbytes:
            raise UsageError(
                f"buffer {self.name} has {self.nbytes} bytes, not {nbytes} from byte {offset} on; use fewer, or make it"
                " larger"
            )

    def _check_not_freed(self) -> None:
        if self._allocation.is_freed:
            raise UsageError(f"buffer {self.name} ({self.nbytes} bytes) was freed; free it after its last use")


class Part(Buffer):
    """`nbytes` of another buffer from byte `start` on, as a buffer of its own. Freeing it frees the whole."""

    def __init__(self, whole: Buffer, start: int, nbytes: int) -> None:
        whole.check(start, nbytes)
        name = f"part of {whole.name}"
        super().__init__(whole._machine, whole._allocation, whole.place, nbytes, name, whole.start + start)


Argument = int | float | Buffer | bytes | np.void | np.ndarray
"""For a struct passed by value its bytes, or a numpy array or element of one that holds them."""


@dataclass(frozen=True)
class Kernel:
    """One entry point of a loaded program. Where its first parameter is a `Watch*` (watch_parameter), the machine
    passes the device's Watch there by itself."""

    name: str
    parameters: tuple[Parameter, ...]
    program: Program
    takes_watch: bool = True


class Program(ABC):
    """One compiled source, loaded on every device before anything is launched."""

    source: str
    defines: Mapping[str, int]
    ptx_sha256: Mapping[str, str]
    """Of the PTX of each architecture that it was compiled for, such as "sm_90"."""

    @abstractmethod
    def kernel(self, name: str) -> Kernel:
        """Raises CompileError, naming the entries there are, if there is none of that name."""


@dataclass(frozen=True)
class Launch:
    """One grid of a round. Launches of one stream of a device run in the order given, all others at once."""

    device: int
    kernel: Kernel
    grid: int
    block: int
    args: tuple[Argument, ...]
    shared: int = 0
    """Bytes of dynamic shared memory."""
    spins: bool = True
    """Its blocks wait for each other or for other devices, so all of them must be resident."""
    beyond_residency: bool = False
    """Launch it although not all of its blocks are resident: only to show what happens then."""
    cooperative: bool = False
    """Its kernel asks for its whole grid (cooperative_groups)."""
    overlaps: bool = False
    """Its kernel waits for the launch before it by itself (overlap.cuh), so in a graph it may start before that one
    has ended. A machine that cannot do so starts it afterwards."""
    stream: int = 0
    shape: tuple[int, ...] | None = None
    """Blocks in x, y, z, then threads, of whose products `grid` and `block` are; None for one dimension."""

    def __post_init__(self) -> None:
        args = tuple(one.tobytes() if isinstance(one, np.void | np.ndarray) else one for one in self.args)
        object.__setattr__(self, "args", args)  # structs as they are now: numpy's memory may change later


@dataclass(frozen=True)
class StreamCopy:
    """`nbytes` from the start of `src` to the start of `dst`, by a copy engine."""

    dst: Buffer
    src: Buffer
    nbytes: int

    def check(self) -> None:
        for buffer in (self.dst, self.src):
            buffer.check(0, self.nbytes)


@dataclass(frozen=True)
class StreamWrite:
    """The 32-bit `value` stored to the first four bytes of `word`, when all before it in the stream has arrived."""

    word: Buffer
    value: int

    def check(self) -> None:
        self.word.check(0, WORD_BYTES)


@dataclass(frozen=True)
class CopyStream:
    """Copies and stores that one device makes in a round, one after the other and beside its launches. They must wait
    for no launch: the host submits them one by one, and may have to wait for room in the queue."""

    device: int
    steps: tuple[StreamCopy | StreamWrite, ...]


class Machine(ABC):
    """Devices and links, and the verbs load, alloc, copy, run and graph: checks here, the work in a tenant's hooks."""

    backend: Backend
    label: str
    """One line for the first screen, such as the fabric's name."""
    devices: tuple[Device, ...]
    stuck: bool = False
    """A kernel hangs and never ends: the process must leave the GPUs alone and go (never emulated)."""

    def __init__(self) -> None:
        self.announce: Callable[[str, float], None] = lambda what, deadline_s: None
        """Called before every round with what starts and its deadline in seconds, and with a deadline of 0 after it, so
        that a parent process knows when silence means a hang."""
        self._programs: dict[tuple[object, ...], Program] = {}
        self.kernels_sha256: dict[str, dict[str, Any]] = {}
        """What was loaded: by source, {"source": hash of its text, "ptx": {architecture and defines: hash}}."""

    @abstractmethod
    def link(self, src: int, dst: int) -> Link: ...

    @abstractmethod
    def host_link(self, device: int) -> HostLink: ...

    @abstractmethod
    def missing(self, capability: Literal["graphs", "host_agent", "copy_engine"]) -> str | None:
        """None if the machine has it, else the reason why not."""

    def load(self, source: str, defines: Mapping[str, int] | None = None) -> Program:
        """Compiles `kernels/<source>` for every device's architecture and loads it everywhere; once for the same
        source and defines.

        Raises CompileError with NVRTC's log, PtxError where the emulator does not know an instruction.
        """
        key = (source, *sorted((defines or {}).items()))
        if key not in self._programs:
            self._programs[key] = self.load_text(source, data.kernel_source(source), defines)
        return self._programs[key]

    def load_text(self, name: str, text: str, defines: Mapping[str, int] | None = None) -> Program:
        """The same for CUDA C++ that no file holds, anew at every call; `name` is what messages call it. It may include
        the headers of kernels/.

        Raises what `load` raises.
        """
        program = self._load(name, text, dict(defines or {}))
        known = self.kernels_sha256.setdefault(name, {"source": source_sha256(text, data.kernel_headers()), "ptx": {}})
        form = "".join(f" {key}={value}" for key, value in sorted(program.defines.items()))
        known["ptx"] |= {architecture + form: digest for architecture, digest in program.ptx_sha256.items()}
        return program

    @abstractmethod
    def load_ptx(self, name: str, ptx: str, takes_watch: Collection[str] = ()) -> Program:
        """Loads ready PTX everywhere; the kernels named in `takes_watch` are passed the Watch. Raises what `load`
        raises."""

    @abstractmethod
    def _load(self, name: str, text: str, defines: Mapping[str, int]) -> Program: ...

    def alloc(self, place: Place, nbytes: int, name: str) -> Buffer:
        """Zeroed memory. `name` appears in error messages and hang reports. Raises UsageError, saying what is
        needed and what is free, if there is not enough."""
        if nbytes < 1:
            raise UsageError(f"{name}: cannot allocate {nbytes} bytes; a buffer has at least one")
        return Buffer(self, self._alloc(place, nbytes, name), place, nbytes, name)

    @abstractmethod
    def _alloc(self, place: Place, nbytes: int, name: str) -> Allocation: ...

    def copy(self, dst: Buffer, src: Buffer, nbytes: int, engine: Literal["copy engine", "staged"]) -> float:
        """Copies and waits; returns nanoseconds of GPU time."""
        StreamCopy(dst, src, nbytes).check()
        return self._copy(dst, src, nbytes, engine)

    @abstractmethod
    def _copy(self, dst: Buffer, src: Buffer, nbytes: int, engine: Literal["copy engine", "staged"]) -> float: ...

    @abstractmethod
    def resident_blocks(self, device: int, kernel: Kernel, block: int, shared: int = 0) -> int:
        """How many blocks of this kernel can be resident on the device at once."""

    def run(
        self,
        launches: Sequence[Launch],
        deadline_s: float,
        host_agents: Sequence[HostAgent] = (),
        copy_streams: Sequence[CopyStream] = (),
    ) -> Outcome:
        """Starts everything at once, at most one copy stream a device, and waits for the end or for the deadline.
        Nothing that synchronises happens in between. Raises UsageError for a spinning grid beyond residency (unless
        the launch says so), DriverError for a step that the driver refuses."""
        for launch in launches:
            self.check_shape(launch)
        for agent in host_agents:
            agent.check()
        for stream in copy_streams:
            for step in stream.steps:
                step.check()
        copying = ", ".join(str(stream.device) for stream in copy_streams)
        parts = [launch_names(launches)] * bool(launches) + [f"copies by GPU {copying}"] * bool(copy_streams)
        what = " with ".join(parts)
        return self._announced(what, deadline_s, self._round(what, launches, host_agents, copy_streams))

    @abstractmethod
    def _round(
        self,
        what: str,
        launches: Sequence[Launch],
        host_agents: Sequence[HostAgent],
        copy_streams: Sequence[CopyStream],
    ) -> Runner:
        """Prepares a round, which `what` names in messages; returns what runs it."""

    def graph(self, launches: Sequence[Launch]) -> Graph:
        """Records the launches, instantiated and uploaded on every device."""
        for launch in launches:
            self.check_shape(launch)
        what = f"graph of {launch_names(launches)}"
        recorded = self._graph(what, launches)
        return Graph(lambda deadline_s: self._announced(what, deadline_s, recorded))

    @abstractmethod
    def _graph(self, what: str, launches: Sequence[Launch]) -> Runner: ...

    def _announced(self, what: str, deadline_s: float, run: Runner) -> Outcome:
        self.announce(what, deadline_s)
        outcome = run(deadline_s)
        self.announce(what, 0)
        return outcome

    def in_random_order(self, seed: int, *, tear: bool = False) -> Machine | None:
        """The same machine with memory as weak as PTX allows, by seed, to be closed by the caller; None where only
        hardware decides. `tear`: no vector is whole, also where the machine's are."""
        machine = self._in_random_order(seed, tear)
        if machine is not None:
            machine.announce = self.announce
            machine.kernels_sha256 = self.kernels_sha256  # one run, one list
        return machine

    @abstractmethod
    def _in_random_order(self, seed: int, tear: bool) -> Machine | None: ...

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """JSON-ready description of what else a result must say about this machine: versions, clocks, fabric
        parameters and their sources."""

    @abstractmethod
    def close(self) -> None: ...

    def check_shape(self, launch: Launch) -> None:
        """Refuses a grid or block of a size that there is not."""
        device = self.devices[launch.device]
        if not 1 <= launch.block <= device.max_threads_per_block or not 1 <= launch.grid <= MOST_BLOCKS:
            raise UsageError(
                f"{launch.kernel.name}: cannot launch {launch.grid} blocks of {launch.block} threads; a block has 1 to"
                f" {device.max_threads_per_block} threads on GPU {launch.device}"
            )

    def check_residency(self, launch: Launch) -> None:
        """Refuses a grid of waiting blocks of which some could never start."""
        if not launch.spins or launch.beyond_residency:
            return
        room = self.resident_blocks(launch.device, launch.kernel, launch.block, launch.shared)
        if launch.grid > room:
            raise UsageError(
                f"{launch.kernel.name}: {launch.grid} blocks of {launch.block} threads wait for each other, but GPU"
                f" {launch.device} holds only {room} of them at once; use fewer blocks or threads"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
