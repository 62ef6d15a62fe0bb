"""The one contract between probes and hardware: a Machine with devices, links and five verbs.

A probe asks a Machine for memory, kernels and launches, and never learns whether real GPUs or the emulator
answer. Two tenants implement it: `machines.cuda` and `machines.emulated`. This module must not import either,
nor any CUDA package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import DTypeLike

from pcietool import data
from pcietool.compiler import source_sha256
from pcietool.contract.outcomes import Outcome
from pcietool.errors import UsageError
from pcietool.ptx.model import Parameter

Backend = Literal["cuda", "emulated"]
NativeAtomics = Literal["full", "partial", "none", "unknown"]


@dataclass(frozen=True)
class Device:
    """One GPU as the machine numbers it; `index` is what every other call takes."""

    index: int
    name: str
    uuid: str
    pci: str
    compute_capability: tuple[int, int]
    sms: int
    memory_bytes: int
    max_threads_per_block: int = 1024
    machine_index: int | None = None
    """What the whole machine calls it, the number that --gpus takes."""
    kernel_timeout: bool = False
    """A display watchdog ends kernels on this GPU after a few seconds."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More facts for the result file (link generation and width, clocks, ...), JSON values only."""


@dataclass(frozen=True)
class Link:
    """What the driver says about one ordered pair: `src` stores to and reads from memory of `dst`."""

    src: int
    dst: int
    kind: Literal["pcie", "nvlink", "unknown"]
    access: bool
    native_atomics: NativeAtomics
    atomic_ops: Mapping[str, str] = field(default_factory=dict)
    """Per operation, where the driver knows ("add": "u32 u64"); empty where it does not say."""
    reason: str | None = None
    """Why there is no access."""


@dataclass(frozen=True)
class HostLink:
    """What the driver says about one device and mapped host memory."""

    device: int
    native_atomics: NativeAtomics
    atomic_ops: Mapping[str, str] = field(default_factory=dict)


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


class Buffer(ABC):
    """Zero-initialised memory with one address that every device uses (unified addressing)."""

    place: Place
    nbytes: int
    address: int

    @abstractmethod
    def read(self, dtype: DTypeLike = np.uint8, count: int | None = None, offset: int = 0) -> np.ndarray:
        """A copy of `count` elements (default: all) from byte `offset`. Not while a launch runs."""

    @abstractmethod
    def write(self, values: np.ndarray, offset: int = 0) -> None:
        """Copies the bytes of `values` to byte `offset`. Not while a launch runs."""

    @abstractmethod
    def fill(self, byte: int) -> None:
        """Sets every byte."""

    @abstractmethod
    def free(self) -> None:
        """Gives the memory back; using it afterwards is an error."""


class Part(Buffer):
    """`nbytes` of another buffer from byte `start` on, as a buffer of its own. Freeing it frees the whole."""

    def __init__(self, whole: Buffer, start: int, nbytes: int) -> None:
        if not 0 <= start <= start + nbytes <= whole.nbytes:
            raise UsageError(f"{nbytes} bytes from {start} on are not part of {whole.nbytes} bytes")
        self.whole = whole
        self.start = start
        self.place = whole.place
        self.nbytes = nbytes
        self.address = whole.address + start

    def read(self, dtype: DTypeLike = np.uint8, count: int | None = None, offset: int = 0) -> np.ndarray:
        count = (self.nbytes - offset) // np.dtype(dtype).itemsize if count is None else count
        return self.whole.read(dtype, count, self.start + offset)

    def write(self, values: np.ndarray, offset: int = 0) -> None:
        self.whole.write(values, self.start + offset)

    def fill(self, byte: int) -> None:
        self.write(np.full(self.nbytes, byte, np.uint8))

    def free(self) -> None:
        self.whole.free()


Argument = int | float | Buffer | bytes | np.void | np.ndarray
"""For a struct passed by value its bytes, or a numpy array or element of one that holds them."""


@dataclass(frozen=True)
class Kernel:
    """One entry point of a loaded program. The first of its parameters always takes the device's Watch, which the
    machine passes by itself."""

    name: str
    parameters: tuple[Parameter, ...]
    program: Program


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
    """One grid of a round. Launches of one device run in the order given, those of different devices at once."""

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
    overlaps: bool = False
    """Its kernel waits for the launch before it by itself (overlap.cuh), so in a graph it may start before that one
    has ended. A machine that cannot do so starts it afterwards."""

    def __post_init__(self) -> None:
        args = tuple(one.tobytes() if isinstance(one, np.void | np.ndarray) else one for one in self.args)
        object.__setattr__(self, "args", args)  # structs as they are now: numpy's memory may change later


@dataclass(frozen=True)
class HostAgent:
    """A CPU thread that takes part in a round: `adds` atomic increments of the 32-bit word at `offset`."""

    buffer: Buffer
    offset: int
    adds: int


@dataclass(frozen=True)
class StreamCopy:
    """`nbytes` from the start of `src` to the start of `dst`, by a copy engine."""

    dst: Buffer
    src: Buffer
    nbytes: int


@dataclass(frozen=True)
class StreamWrite:
    """The 32-bit `value` stored to the first four bytes of `word`, when all before it in the stream has arrived."""

    word: Buffer
    value: int


@dataclass(frozen=True)
class CopyStream:
    """Copies and stores that one device makes in a round, one after the other and beside its launches. They must wait
    for no launch: the host submits them one by one, and may have to wait for room in the queue."""

    device: int
    steps: tuple[StreamCopy | StreamWrite, ...]


class Graph(ABC):
    """A round that was recorded once and can run again and again (a CUDA graph per device)."""

    @abstractmethod
    def run(self, deadline_s: float) -> Outcome:
        """Runs it on all devices at once. The same arguments each time."""


class Machine(ABC):
    """Devices and links, and the verbs load, alloc, copy, run and graph."""

    backend: Backend
    label: str
    """One line for the first screen, such as the fabric's name."""
    devices: tuple[Device, ...]
    stuck: bool = False
    """A kernel hangs and never ends: the process must leave the GPUs alone and go (never emulated)."""

    @abstractmethod
    def link(self, src: int, dst: int) -> Link: ...

    @abstractmethod
    def host_link(self, device: int) -> HostLink: ...

    @abstractmethod
    def missing(self, capability: Literal["graphs", "host_agent", "copy_engine"]) -> str | None:
        """None if the machine has it, else the reason why not."""

    def __init__(self) -> None:
        self._programs: dict[tuple[object, ...], Program] = {}
        self.kernels_sha256: dict[str, dict[str, Any]] = {}
        """What was loaded: by source, {"source": hash of its text, "ptx": {architecture and defines: hash}}."""

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
    def _load(self, name: str, text: str, defines: Mapping[str, int]) -> Program: ...

    @abstractmethod
    def alloc(self, place: Place, nbytes: int, name: str) -> Buffer:
        """Zeroed memory. `name` appears in error messages and hang reports. Raises UsageError, saying what is
        needed and what is free, if there is not enough."""

    @abstractmethod
    def copy(self, dst: Buffer, src: Buffer, nbytes: int, engine: Literal["copy engine", "staged"]) -> float:
        """Copies and waits; returns nanoseconds of GPU time."""

    @abstractmethod
    def resident_blocks(self, device: int, kernel: Kernel, block: int, shared: int = 0) -> int:
        """How many blocks of this kernel can be resident on the device at once."""

    @abstractmethod
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

    @abstractmethod
    def graph(self, launches: Sequence[Launch]) -> Graph:
        """Records the launches, instantiated and uploaded on every device."""

    def in_random_order(self, seed: int) -> Machine | None:
        """The same machine with memory as weak as PTX allows, by seed, to be closed by the caller; None where only
        hardware decides."""
        return None

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """JSON-ready description of what else a result must say about this machine: versions, clocks, fabric
        parameters and their sources."""

    @abstractmethod
    def close(self) -> None: ...

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
