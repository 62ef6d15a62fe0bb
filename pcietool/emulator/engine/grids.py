"""Launches on the emulated machine: grids, blocks, their barriers, and which blocks are resident.

A device runs its launches in order. A grid's blocks start as places become free, so a block beyond residency waits
until another one has ended, as on hardware. Must not know about memory order or links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any

from pcietool.emulator.engine.bulk import MBarrier
from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.engine.threads import Thread
from pcietool.emulator.engine.warps import warp_results
from pcietool.emulator.fabric.fabric import GpuModel, Route
from pcietool.emulator.memory import views_of
from pcietool.emulator.ops import Op
from pcietool.emulator.order.views import View
from pcietool.emulator.translate.lower import SHARED_WINDOW, Lowered
from pcietool.errors import EmulationError

WarpKey = tuple[int, int, Op]
"""A warp operation in progress: (warp, mask of its lanes, operation)."""


def resident_blocks(gpu: GpuModel, threads: int, shared: int) -> int:
    """How many blocks of this shape one modelled GPU holds at once."""
    by_threads = gpu.threads_per_sm // (-(-threads // 32) * 32)
    by_shared = gpu.shared_bytes_per_sm // shared if shared else gpu.blocks_per_sm
    return gpu.sms * min(by_threads, by_shared, gpu.blocks_per_sm)


@dataclass(frozen=True)
class GridSpec:
    """One launch as the emulator takes it: `arguments` in parameter order, integers or bit patterns."""

    lowered: Lowered
    blocks: int
    threads: int
    arguments: tuple[int, ...]
    shared: int
    """Static and dynamic bytes."""
    timeout_ns: float


class DeviceState:
    """One GPU during a run: its queue of grids, its free places, its unacknowledged stores."""

    def __init__(self, index: int, engine: Engine) -> None:
        self.index = index
        self.engine = engine
        self.queue: deque[GridSpec] = deque()
        self.grid: Grid | None = None
        self.node_gap_ns = 0.0
        self.started_ns: float | None = None
        self.ended_ns = 0.0
        self._acknowledged = 0.0
        self._flush = 0.0

    def written(self, route: Route, landed: float) -> None:
        """A posted write of this device will land at `landed`."""
        acknowledged = landed + route.acknowledge_extra
        if acknowledged > self._acknowledged:
            self._acknowledged = acknowledged
        if route.flush > self._flush:
            self._flush = route.flush

    def flushed(self, start: float) -> float:
        """When a system fence that starts now has seen all stores of this device acknowledged."""
        flushed = start + self._flush
        self._flush = 0.0
        return flushed if flushed > self._acknowledged else self._acknowledged

    def submit(self, grids: list[GridSpec], start: float, node_gap_ns: float) -> None:
        """Queues grids; the first starts at `start`."""
        self.queue.extend(grids)
        self.node_gap_ns = node_gap_ns
        self.started_ns = start
        self.engine.at(start, self._next_grid)

    def _next_grid(self, _: Any = None, __: Any = None) -> None:
        if self.queue:
            self.grid = Grid(self, self.queue.popleft())
            self.grid.fill()

    def grid_ended(self) -> None:
        """A grid ends when its last store is acknowledged."""
        self.ended_ns = max(self.engine.now, self._acknowledged)
        self.grid = None
        if self.queue:
            self.engine.at(self.ended_ns + self.node_gap_ns, self._next_grid)


class Grid:
    """One running launch. Places are numbered; a place's SM is its number modulo the SM count."""

    def __init__(self, device: DeviceState, spec: GridSpec) -> None:
        self.device = device
        self.spec = spec
        self.lowered = spec.lowered
        gpu = device.engine.gpu
        self.free_places = list(range(resident_blocks(gpu, spec.threads, spec.shared)))[::-1]
        self.next_block = 0
        self.running: set[Block] = set()
        self.view = device.engine.order.begin_grid(device.index)
        """What every thread knows when it starts."""

    def fill(self) -> None:
        """Starts as many waiting blocks as there are places."""
        started = []
        while self.next_block < self.spec.blocks and self.free_places:
            started.append(Block(self, self.next_block, self.free_places.pop()))
            self.next_block += 1
        self.running.update(started)
        for block in started:
            block.start()

    @property
    def waiting_blocks(self) -> int:
        return self.spec.blocks - self.next_block

    def block_ended(self, block: Block) -> None:
        self.running.discard(block)
        self.free_places.append(block.place)
        if self.next_block < self.spec.blocks:
            self.device.engine.at(self.device.engine.now, lambda *_: self.fill())
        elif not self.running:
            self.device.grid_ended()


class BlockBarrier:
    """One named barrier: who waits, how many have arrived, how many are expected (0: all that live). `latest` is the
    greatest lag of those that arrived and went on, `given` what they handed on."""

    __slots__ = ("arrived", "expected", "given", "latest", "op", "votes", "waiting")

    def __init__(self, expected: int, op: Op) -> None:
        self.arrived = 0
        self.expected = expected
        self.op = op
        self.waiting: list[Thread] = []
        self.votes: list[bool] = []
        self.latest = 0.0
        self.given: list[View] = []


class Block:
    """One resident block: its threads, shared memory and barriers."""

    def __init__(self, grid: Grid, index: int, place: int) -> None:
        engine = grid.device.engine
        self.grid = grid
        self.device = grid.device
        self.index = index
        self.place = place
        self.sm = place % engine.gpu.sms
        self.engine = engine
        self.deadline_ns = engine.now + grid.spec.timeout_ns if grid.spec.timeout_ns else inf
        self.barriers: dict[int, BlockBarrier] = {}
        self.mbarriers: dict[int, MBarrier] = {}
        """By offset in shared memory."""
        self.warps: dict[WarpKey, dict[Thread, Any]] = {}
        """Who waits, and what each gave."""
        self.threads = [Thread(self, tid) for tid in range(grid.spec.threads)]
        self.alive = grid.spec.threads
        self.warp_alive = [(1 << min(32, grid.spec.threads - first)) - 1 for first in range(0, grid.spec.threads, 32)]
        """Lanes of each warp that have not exited."""
        self.shared = views_of(bytearray(grid.spec.shared))

    def start(self) -> None:
        engine, spec = self.engine, self.grid.spec
        local = engine.memory.local[self.device.index]
        tables = (local[1], local[2], local[4], local[8])
        shared = (self.shared[1], self.shared[2], self.shared[4], self.shared[8])
        start, arguments = spec.lowered.start, spec.arguments
        for thread in self.threads:
            engine.order.begin(thread)
            thread.start(
                start(
                    arguments, thread.tid, spec.threads, self.index, spec.blocks, thread, engine, engine.watched,
                    *tables, *shared,
                )
            )  # fmt: skip
        engine.live += len(self.threads)
        if self.deadline_ns < inf:
            engine.alarm(self.deadline_ns + 1, self._deadline_passed)
        engine.at(engine.now, engine.resume_all, dict.fromkeys(self.threads))

    def _deadline_passed(self) -> None:
        """Threads that wait see for themselves that it is late."""
        for thread in self.threads:
            if thread.parked:
                self.engine.loads.unpark(thread, thread.parked[0], self.engine.now)

    # -- shared memory through generic addresses ------------------------------------------------------------------

    def load_shared(self, op: Op, address: int) -> Any:
        index = (address & ~SHARED_WINDOW) // op.size
        view = self.shared[op.size]
        return view[index] if op.count == 1 else tuple(view[index + n] for n in range(op.count))

    def store_shared(self, op: Op, address: int, value: Any) -> None:
        index = (address & ~SHARED_WINDOW) // op.size
        for n, element in enumerate((value,) if op.count == 1 else value):
            self.shared[op.size][index + n] = element

    def modify_shared(self, op: Op, address: int, b: int, c: int) -> int:
        index = (address & ~SHARED_WINDOW) // op.size
        old: int = self.shared[op.size][index]
        assert op.modify is not None
        self.shared[op.size][index] = op.modify(old, b, c)
        return old

    # -- barriers -------------------------------------------------------------------------------------------------

    def arrive(self, number: int, count: int, threads: list[Thread], op: Op, *votes: bool) -> None:
        """Threads reach a barrier at the same time; `count` 0 expects all threads that live. `votes` are what they give
        where the barrier counts predicates."""
        barrier = self.barriers.get(number)
        if barrier is None:
            if number > 15:
                raise EmulationError(f"barrier {number}: a block has barriers 0 to 15")
            barrier = self.barriers[number] = BlockBarrier(count, op)
        elif barrier.expected != count:
            raise EmulationError(
                f"two thread counts on barrier {number} of one block: {barrier.expected or 'all'} at"
                f" {barrier.op.where()} and {count or 'all'} at {op.where()}; give one of them a barrier of its own"
            )
        barrier.arrived += len(threads)
        barrier.votes += votes
        if op.kind != "arrive":
            barrier.waiting += threads
        else:
            for thread in threads:
                thread.poll_loop = None
                barrier.latest = max(barrier.latest, thread.lag)
                barrier.given.append(self.engine.order.give(thread))
        if barrier.arrived >= (count or self.alive):
            self._release(number, barrier)

    def _release(self, number: int, barrier: BlockBarrier) -> None:
        del self.barriers[number]
        self.engine.order.meet(barrier.waiting, barrier.given)
        latest = max(barrier.latest, catch_up(barrier.waiting))
        engine = self.engine
        time = engine.now + latest + engine.gpu.block_barrier_ns.value
        engine.at(
            time, engine.resume_all, dict.fromkeys(barrier.waiting, barrier_result(barrier.op.kind, barrier.votes))
        )

    def arrive_warp(self, mask: int, given: dict[Thread, Any], op: Op) -> None:
        """Lanes of one warp reach a warp operation, each with what it gives; the last lane of the mask that lives lets
        all of them go."""
        warp = next(iter(given)).tid >> 5
        if len(self.threads) > 32 and any(thread.tid >> 5 != warp for thread in given):
            for thread, value in given.items():
                self.arrive_warp(mask, {thread: value}, op)
            return
        key = (warp, mask, op)
        gathered = self.warps.setdefault(key, given)
        if gathered is not given:
            gathered.update(given)
        if len(gathered) >= (mask & self.warp_alive[warp]).bit_count():
            self._release_warp(key)

    def _release_warp(self, key: WarpKey) -> None:
        gathered, op = self.warps.pop(key), key[2]
        engine = self.engine
        if op.kind == "sync":  # votes and shuffles order no memory
            engine.order.meet(gathered)
        time = engine.now + catch_up(gathered) + engine.gpu.warp_barrier_ns.value
        engine.at(time, engine.resume_all, warp_results(op.kind, gathered))

    def thread_exited(self, thread: Thread) -> None:
        """Whoever waits for all threads that live waits for one less."""
        self.engine.order.end(thread)
        warp, lane = divmod(thread.tid, 32)
        self.warp_alive[warp] &= ~(1 << lane)
        self.alive -= 1
        for number, barrier in list(self.barriers.items()):
            if not barrier.expected and barrier.arrived >= self.alive:
                self._release(number, barrier)
        for key, gathered in list(self.warps.items()):
            if key[0] == warp and len(gathered) >= (key[1] & self.warp_alive[warp]).bit_count():
                self._release_warp(key)
        if not self.alive:
            self.grid.block_ended(self)


def barrier_result(kind: str, votes: list[bool]) -> int | None:
    """What a barrier that counts predicates gives to all of its threads."""
    match kind:
        case "popc":
            return sum(votes)
        case "and":
            return all(votes)
        case "or":
            return any(votes)
    return None


def catch_up(waiting: Iterable[Thread]) -> float:
    """How far ahead of the clock the last of these threads came. They are let go together: none is ahead of the others
    any more, nor in a wait loop."""
    latest = 0.0
    for thread in waiting:
        thread.poll_loop = None
        if thread.lag:
            latest = max(latest, thread.lag)
            thread.lag = 0.0
    return latest
