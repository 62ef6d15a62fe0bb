"""What an engine runs: threads, the blocks they are in, and what they wait at. Data only; the engine runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import GEN_CREATED, getgeneratorstate
from typing import Any, Final

from pcietool.emulator import mbarriers
from pcietool.emulator.fabric.fabric import Route
from pcietool.emulator.memory import CLUSTER_OFFSET, LANE_SHIFT, RANK_SHIFT, STREAM_SHIFT, Place, Writer, views_of
from pcietool.emulator.ops import Op, Stamp
from pcietool.emulator.order.views import NOTHING, Observer, View
from pcietool.emulator.translate.lower import SHARED_WINDOW, Lowered, ThreadGenerator, misaligned
from pcietool.errors import EmulationError

BLOCKED: Final = object()
"""A handler's answer when the thread goes on later."""
Poll = tuple[Any, float, Op, Place]
"""What a poll saw last: (value, when it was asked, by which load, where)."""
Look = tuple[Op, int]
"""By which load, at which address: a load as a thread asks for it."""
WarpKey = tuple[int, int, str]
"""A warp operation in progress: (warp, mask of its lanes, operation). Lanes may come to it by several instructions."""


@dataclass(slots=True, eq=False)
class Group:
    """Copies committed together: when all have read their source, and when all are done."""

    read: float = 0.0
    done: float = 0.0
    copies: list[Stamp] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Thread:
    """`lag`: ns it has run ahead of the clock. `polls`: what the wait loop `poll_loop` saw last."""

    block: Block
    tid: int
    writer: Writer = field(init=False)
    """What a word remembers of who stored it."""
    generator: ThreadGenerator = field(init=False)
    send: Callable[[Any], tuple[Any, ...]] = field(init=False)
    lag: float = 0.0
    poll_loop: int | None = None
    polls: dict[Look, Poll] = field(default_factory=dict)
    states: dict[Look, tuple[Any, ...]] = field(default_factory=dict)
    """What it carried when it looked last, where that matters."""
    unabridged: int = 0
    """So many looks are made before it may be parked again."""
    parked: list[Parked] = field(default_factory=list)
    pending: tuple[Look, Callable[[Any, Any], None]] = field(init=False)
    """What a parked thread goes on with: a load, and the event that serves it."""
    observer: Observer = field(init=False)
    """What it has seen; only in random memory order."""
    steps_left: int = -1
    """Requests until it stops for a while, if ever; only in random memory order."""
    groups: list[Group] = field(default_factory=lambda: [Group()])
    """Bulk copies not known to be done; the last group is not committed yet."""
    fetches: list[Group] = field(default_factory=lambda: [Group()])
    """The same of its cp.async."""

    def __post_init__(self) -> None:
        block = self.block
        number = block.index + (block.stream << STREAM_SHIFT) + (block.lane << LANE_SHIFT)
        self.writer = (block.device.index, number, self.tid)

    def start(self, generator: ThreadGenerator) -> None:
        self.generator = generator
        self.send = generator.send

    def state(self, op: Op) -> tuple[Any, ...]:
        """What it carries at this load."""
        frame = self.generator.gi_frame
        assert frame is not None
        return tuple(map(frame.f_locals.__getitem__, op.carried))

    def error(self, error: Exception) -> EmulationError:
        """The same error with the thread, and the instruction at which it is."""
        return self.block.lowered.error_at(self, self.generator, error)

    def __str__(self) -> str:
        stream = f" stream {self.block.stream}" if self.block.stream else ""
        return f"GPU {self.block.device.index}{stream} block {self.block.index} thread {self.tid}"


class Parked:
    """A poll that is not emulated until its word changes: asked first at `at`, again every `period` ns."""

    __slots__ = ("address", "at", "op", "period", "place", "thread", "value")

    def __init__(self, thread: Thread, address: int, poll: Poll, period: float) -> None:
        self.thread = thread
        self.address = address
        self.value, self.at, self.op, self.place = poll
        self.period = period


@dataclass(slots=True, eq=False)
class BlockBarrier:
    """One named barrier: who waits, how many have arrived, how many are expected (0: all that live). `latest` is the
    greatest lag of those that arrived and went on, `given` what they handed on."""

    expected: int
    op: Op
    arrived: int = 0
    padded: bool = False
    """Have the lanes arrived that the block's last warp lacks?"""
    waiting: list[Thread] = field(default_factory=list)
    votes: list[bool] = field(default_factory=list)
    latest: float = 0.0
    given: list[View] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class MBarrier:
    """Arrivals and bytes that the present phase still waits for, and the threads that wait for its end. `given`: what
    those that have arrived hand on; `completed`: the same of the phase before. It stands in `memory`, its 8 bytes."""

    memory: memoryview
    count: int
    pending: int
    transfer: int = 0
    phase: int = 0
    waiting: list[Thread] = field(default_factory=list)
    given: list[View] = field(default_factory=list)
    completed: View = NOTHING

    @property
    def content(self) -> bytes:
        return mbarriers.word(self.phase, self.count, self.pending, self.transfer).to_bytes(mbarriers.BYTES, "little")

    def keep(self) -> None:
        self.memory[:] = self.content


@dataclass(frozen=True)
class GridSpec:
    """One launch as the emulator takes it: `arguments` in parameter order, integers or bit patterns."""

    lowered: Lowered
    blocks: int
    threads: int
    arguments: tuple[int, ...]
    shared: int
    """Static and dynamic bytes."""
    deadline_ns: float
    """From the start of each block."""
    stream: int = 0
    overlaps: bool = False
    """It may begin before the launch before it in its stream has ended."""
    shape: tuple[int, ...] | None = None
    """Blocks in x, y, z, then threads; None for one dimension."""
    variables: Mapping[str, int] = field(default_factory=dict)
    """Addresses of the module's variables that it uses."""
    cluster: int = 1
    """Blocks of each cluster."""


class GpuState:
    """One GPU: its number in the fabric, and its stores that are not acknowledged yet."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.acknowledged = 0.0
        """When all of them are."""
        self._flush = 0.0

    def written(self, route: Route, landed: float) -> None:
        """A posted write of this GPU will land at `landed`."""
        acknowledged = landed + route.acknowledge_extra
        if acknowledged > self.acknowledged:
            self.acknowledged = acknowledged
        if route.flush > self._flush:
            self._flush = route.flush

    def flushed(self, start: float) -> float:
        """When a system fence that starts now has seen all stores of this GPU acknowledged."""
        flushed = start + self._flush
        self._flush = 0.0
        return flushed if flushed > self.acknowledged else self.acknowledged


class Block:
    """One resident block: its threads, shared memory and barriers. `view`: what every thread knows when it starts."""

    def __init__(
        self,
        device: GpuState,
        spec: GridSpec,
        index: int,
        sm: int,
        deadline_ns: float,
        view: View,
        number: int = 0,
        lane: int = 0,
    ) -> None:
        """`number`: of its launch in its stream; `lane`: another one than of launches of that stream that may
        still run."""
        self.device = device
        self.number = number
        self.lane = lane
        self.lowered = spec.lowered
        self.index = index
        self.stream = spec.stream
        self.sm = sm
        self.deadline_ns = deadline_ns
        self.view = view
        self.on_end: Callable[[], None]
        self.on_trigger: Callable[[], None]
        """The next launch may begin as far as this block is concerned."""
        self.on_wait: Callable[[Thread], Any]
        """A thread waits for the launches before: None, or BLOCKED."""
        self.barriers: dict[int, BlockBarrier] = {}
        self.mbarriers: dict[int, MBarrier] = {}
        """By offset in shared memory."""
        self.warps: dict[WarpKey, dict[Thread, Any]] = {}
        """Who waits, and what each gave."""
        self.threads = [Thread(self, tid) for tid in range(spec.threads)]
        self.alive = spec.threads
        self.warp_alive = [(1 << min(32, spec.threads - first)) - 1 for first in range(0, spec.threads, 32)]
        """Lanes of each warp that have not exited."""
        self.shared = views_of(bytearray(spec.shared))
        self.cluster = Cluster(spec.cluster)

    @property
    def cluster_size(self) -> int:
        return self.cluster.size

    def at(self, address: int) -> tuple[Block, int]:
        """Whose shared memory an address is in, and the offset there."""
        offset = address & ~SHARED_WINDOW
        return self.cluster.block_at(self, offset) if offset >> RANK_SHIFT else (self, offset)

    # -- shared memory through generic addresses --------------------------------------------------------------------

    def check_shared(self, op: Op, address: int) -> None:
        """Raises EmulationError unless all of the access is in shared memory, and aligned."""
        block, offset = self.at(address)
        length = len(block.shared[1])
        if offset % op.bytes:
            misaligned(offset, op.bytes, "shared")
        if offset + op.bytes > length:
            far = offset >> 31
            where = f"{(1 << 32) - offset % (1 << 32)} bytes before the start of" if far else f"at offset {offset} of"
            end = "" if far else f", {offset + op.bytes - length} bytes beyond its end at {length}"
            raise EmulationError(f"{op.bytes} byte access {where} shared memory{end}")

    def load_shared(self, op: Op, address: int) -> Any:
        block, offset = self.at(address)
        index, view = offset // op.size, block.shared[op.size]
        return view[index] if op.count == 1 else tuple(view[index + n] for n in range(op.count))

    def store_shared(self, op: Op, address: int, value: Any) -> None:
        block, offset = self.at(address)
        for n, element in enumerate((value,) if op.count == 1 else value):
            block.shared[op.size][offset // op.size + n] = element

    def modify_shared(self, op: Op, address: int, b: int, c: int) -> int:
        block, offset = self.at(address)
        memory, index = block.shared[op.size], offset // op.size
        old: int = memory[index]
        assert op.modify is not None
        memory[index] = op.modify(old, b, c)
        return old


LARGEST_CLUSTER = 16
"""Blocks of one on any GPU so far."""


class Cluster:
    """`blocks` by rank, as far as they have started. `given`: what threads that have arrived in this phase hand on;
    `completed`: the same of the phase before."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.blocks: dict[int, Block] = {}
        self.arrived: set[Thread] = set()
        """Of this phase, those that live."""
        self.passed: set[Thread] = set()
        """They have arrived in the phase before, and not asked yet whether it has ended."""
        self.waiting: list[Thread] = []
        self.given: list[View] = []
        self.completed: View = NOTHING

    def add(self, block: Block) -> None:
        self.blocks[block.index % self.size] = block

    def arrive(self, thread: Thread) -> None:
        if thread in self.arrived or thread in self.passed:
            raise EmulationError("barrier.cluster.arrive again without a wait between; wait for the one before")
        self.arrived.add(thread)

    def leave(self, thread: Thread) -> None:
        """It has ended: whoever has not arrived is waited for as before."""
        self.arrived.discard(thread)
        self.passed.discard(thread)

    @property
    def missing(self) -> int:
        """So many threads have not arrived, blocks that have not started not counted."""
        return sum(block.alive for block in self.blocks.values()) - len(self.arrived)

    @property
    def is_complete(self) -> bool:
        return len(self.blocks) == self.size and bool(self.arrived) and not self.missing

    def block_at(self, own: Block, address: int) -> tuple[Block, int]:
        """Whose shared memory an address without its window is in, and the offset there."""
        rank = (address >> RANK_SHIFT) - 1
        if not 0 <= rank < LARGEST_CLUSTER or self.size == 1:  # an offset of the own block, below its start perhaps
            return own, address
        if rank >= self.size:
            raise EmulationError(f"access to the shared memory of block {rank} of a cluster of {self.size}")
        block = self.blocks.get(rank)
        has_started = block is not None and any(map(_has_started, block.threads))
        if block is None or not has_started or not block.alive:
            state = "has ended" if has_started else "has not started yet"
            raise EmulationError(
                f"access to the shared memory of block {rank} of the cluster, which {state}: put a cluster.sync()"
                " between"
            )
        return block, address & CLUSTER_OFFSET


def _has_started(thread: Thread) -> bool:
    return getgeneratorstate(thread.generator) != GEN_CREATED
