"""Launches on the emulated machine: the queue of each GPU, running grids, and which of their blocks are resident.

A GPU runs the launches of a stream in order, and streams at once. One that may overlap the launch before it begins once
all blocks of that have let it, or have ended. A grid's blocks start as places become free, so a block beyond residency
waits until another one has ended, as on hardware. Must not know about memory order or links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.engine.threads import BLOCKED, Block, Cluster, GpuState, GridSpec, Thread
from pcietool.emulator.fabric.fabric import GpuModel


def resident_blocks(gpu: GpuModel, threads: int, shared: int) -> int:
    """How many blocks of this shape one modelled GPU holds at once."""
    by_threads = gpu.threads_per_sm // (-(-threads // 32) * 32)
    by_shared = gpu.shared_bytes_per_sm // shared if shared else gpu.blocks_per_sm
    return gpu.sms * min(by_threads, by_shared, gpu.blocks_per_sm)


LANES = 8
"""More than so many launches of one stream never run at once."""


class LaunchQueue(GpuState):
    """One GPU during a run: the launches of each stream, one after the other, those of several streams at once."""

    def __init__(self, index: int, engine: Engine) -> None:
        super().__init__(index)
        self.engine = engine
        self.waiting: dict[int, deque[GridSpec]] = {}
        """By stream."""
        self.grids: list[Grid] = []
        self.begun: dict[int, int] = {}
        """How many launches have begun, by stream."""
        self.ended: dict[int, set[int]] = {}
        """The numbers of those that have ended, and after which others could begin."""
        self.node_gap_ns = 0.0
        self.started_ns: float | None = None
        self.ended_ns = 0.0
        self._lanes: dict[int, int] = {}
        """Of the launch that began last, by stream."""
        self._used: dict[int, tuple[int, int, int]] = {}
        """By SM: threads of whole warps, bytes of shared memory, and blocks."""

    def submit(self, grids: Mapping[int, Sequence[GridSpec]], starts: Mapping[int, float], node_gap_ns: float) -> None:
        """Queues the grids of each stream; the first of each starts when `starts` says."""
        self.node_gap_ns = node_gap_ns
        self.started_ns = min(starts.values())
        self.ended_ns = 0.0
        for stream, specs in grids.items():
            self.waiting[stream] = deque(specs)
            self.begun[stream] = 0
            self.ended[stream] = set()
            self.engine.at(starts[stream], self._next_grid, stream, 0)

    def _next_grid(self, stream: int, number: int) -> None:
        """Launch `number` may begin, unless it has begun."""
        if self.waiting[stream] and self.begun[stream] == number:
            self.begun[stream] += 1
            ended = self.ended[stream]
            known = next(before for before in range(number + 1) if before not in ended)
            lane = 0 if known == number else (self._lanes[stream] + 1) % LANES
            self._lanes[stream] = lane
            grid = Grid(self, self.waiting[stream].popleft(), number, lane, known)
            self.grids.append(grid)
            grid.fill()

    def overlap(self, grid: Grid) -> None:
        """The launch behind this one may begin, if it may overlap at all."""
        waiting = self.waiting[grid.spec.stream]
        if waiting and waiting[0].overlaps:
            self.engine.at(self.engine.now, self._next_grid, grid.spec.stream, grid.number + 1)

    def all_ended_before(self, stream: int, number: int) -> bool:
        return self.ended[stream].issuperset(range(number))

    def abandon(self) -> None:
        """What runs or waits is no more."""
        self.waiting.clear()
        self.grids.clear()
        self.begun.clear()
        self.ended.clear()
        self._used.clear()

    def take(self, sm: int, spec: GridSpec, sign: int = 1) -> bool:
        """A block of this shape comes to an SM, if there is room beside those of other grids, or (-1) leaves it."""
        gpu = self.engine.gpu
        threads, shared, blocks = self._used.get(sm, (0, 0, 0))
        after = threads + sign * (-(-spec.threads // 32) * 32), shared + sign * spec.shared, blocks + sign
        if sign > 0 and (
            after[0] > gpu.threads_per_sm or after[1] > gpu.shared_bytes_per_sm or after[2] > gpu.blocks_per_sm
        ):
            return False
        self._used[sm] = after
        return True

    def block_ended(self) -> None:
        """Whoever waits for a place may find one."""
        for grid in self.grids:
            if grid.next_block < grid.spec.blocks:
                self.engine.at(self.engine.now, grid.fill)

    def grid_ended(self, grid: Grid) -> None:
        """A grid ends when its last store is acknowledged."""
        ended = max(self.engine.now, self.acknowledged)
        self.ended_ns = max(self.ended_ns, ended)
        self.grids.remove(grid)
        stream = grid.spec.stream
        if self.waiting[stream] or any(other.spec.stream == stream for other in self.grids):
            self.engine.at(ended + self.node_gap_ns, self._has_ended, grid)

    def _has_ended(self, grid: Grid, _: Any) -> None:
        stream = grid.spec.stream
        self.ended[stream].add(grid.number)
        begun = self.begun[stream]
        if self.all_ended_before(stream, begun):
            self._next_grid(stream, begun)
        for other in self.grids:
            if other.spec.stream == stream and other.waiting and self.all_ended_before(stream, other.number):
                other.go_on()


class Grid:
    """One running launch. Places are numbered; a place's SM is its number modulo the SM count."""

    def __init__(self, device: LaunchQueue, spec: GridSpec, number: int, lane: int, known: int) -> None:
        """`number`: of the launch in its stream; `lane`: another one than of those that may still run; `known`: it
        knows what was done by the launches before that one."""
        self.device = device
        self.number = number
        self.lane = lane
        self.triggered: set[int] = set()
        """Blocks that let the next launch begin."""
        self.waiting: list[Thread] = []
        """For the launches before this one to end."""
        self.engine = device.engine
        self.spec = spec
        self.free_places = list(range(resident_blocks(self.engine.gpu, spec.threads, spec.shared)))[::-1]
        self.next_block = 0
        self.running: set[Block] = set()
        self.clusters: dict[int, Cluster] = {}
        self.view = self.engine.order.begin_grid(device.index, spec.stream, known, lane)

    def fill(self, _: Any = None, __: Any = None) -> None:
        """Starts as many waiting blocks as there are places."""
        started, taken = [], []
        sms = self.engine.gpu.sms
        while self.next_block < self.spec.blocks and self.free_places:
            place = self.free_places.pop()
            if self.device.take(place % sms, self.spec):
                started.append(self._block(self.next_block, place))
                self.next_block += 1
            else:
                taken.append(place)
        self.free_places += reversed(taken)
        self.running.update(started)
        for block in started:
            self._start(block)

    def _block(self, index: int, place: int) -> Block:
        engine, spec = self.engine, self.spec
        deadline = engine.now + spec.deadline_ns if spec.deadline_ns else inf
        block = Block(self.device, spec, index, place % engine.gpu.sms, deadline, self.view, self.number, self.lane)
        block.on_end = partial(self._block_ended, block, place)
        block.on_trigger = partial(self._triggers, block)
        block.on_wait = self._waits
        if spec.cluster > 1:
            block.cluster = self.clusters.setdefault(index // spec.cluster, block.cluster)
        block.cluster.add(block)
        return block

    def _start(self, block: Block) -> None:
        engine, spec = self.engine, self.spec
        local = engine.memory.local[self.device.index]
        tables = (local[1], local[2], local[4], local[8])
        shared = (block.shared[1], block.shared[2], block.shared[4], block.shared[8])
        start, arguments = spec.lowered.start, spec.arguments
        for thread in block.threads:
            engine.order.begin(thread)
            thread.start(
                start(
                    arguments, thread.tid, spec.threads, block.index, spec.blocks, spec.shape,
                    spec.variables, thread, engine, engine.watched, *tables, *shared,
                )
            )  # fmt: skip
        engine.live += len(block.threads)
        if block.deadline_ns < inf:
            engine.alarm(block.deadline_ns + 1, partial(self._deadline_passed, block))
        for delay, threads in engine.order.starts(block.threads):
            engine.at(engine.now + delay, engine.resume_all, dict.fromkeys(threads))

    def _deadline_passed(self, block: Block) -> None:
        """Threads that wait see for themselves that it is late."""
        for thread in block.threads:
            if thread.parked:
                self.engine.unpark(thread, thread.parked[0], self.engine.now)

    def _triggers(self, block: Block) -> None:
        before = len(self.triggered)
        self.triggered.add(block.index)
        if before < len(self.triggered) == self.spec.blocks:
            self.device.overlap(self)

    def _waits(self, thread: Thread) -> Any:
        if self.device.all_ended_before(self.spec.stream, self.number):
            self.engine.order.wait_for_launches([thread])
            return None
        self.waiting.append(thread)
        return BLOCKED

    def go_on(self) -> None:
        """What the threads waited for has ended."""
        threads, self.waiting = self.waiting, []
        for thread in threads:
            thread.lag = 0.0
        self.engine.order.wait_for_launches(threads)
        for block in dict.fromkeys(thread.block for thread in threads):
            self.engine.resume_all({thread: None for thread in threads if thread.block is block})

    def _block_ended(self, block: Block, place: int) -> None:
        self.running.discard(block)
        self.free_places.append(place)
        self.device.take(place % self.engine.gpu.sms, self.spec, -1)
        self.device.block_ended()
        self._triggers(block)
        if self.next_block == self.spec.blocks and not self.running:
            self.device.grid_ended(self)
