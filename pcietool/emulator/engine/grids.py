"""Launches on the emulated machine: the queue of each GPU, running grids, and which of their blocks are resident.

A GPU runs its launches in order. A grid's blocks start as places become free, so a block beyond residency waits until
another one has ended, as on hardware. Must not know about memory order or links.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from math import inf
from typing import Any

from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.engine.threads import Block, GpuState, GridSpec
from pcietool.emulator.fabric.fabric import GpuModel


def resident_blocks(gpu: GpuModel, threads: int, shared: int) -> int:
    """How many blocks of this shape one modelled GPU holds at once."""
    by_threads = gpu.threads_per_sm // (-(-threads // 32) * 32)
    by_shared = gpu.shared_bytes_per_sm // shared if shared else gpu.blocks_per_sm
    return gpu.sms * min(by_threads, by_shared, gpu.blocks_per_sm)


class LaunchQueue(GpuState):
    """One GPU during a run: its launches, one after the other."""

    def __init__(self, index: int, engine: Engine) -> None:
        super().__init__(index)
        self.engine = engine
        self.waiting: deque[GridSpec] = deque()
        self.grid: Grid | None = None
        self.node_gap_ns = 0.0
        self.started_ns: float | None = None
        self.ended_ns = 0.0

    def submit(self, grids: list[GridSpec], start: float, node_gap_ns: float) -> None:
        """Queues grids; the first starts at `start`."""
        self.waiting.extend(grids)
        self.node_gap_ns = node_gap_ns
        self.started_ns = start
        self.engine.at(start, self._next_grid)

    def _next_grid(self, _: Any = None, __: Any = None) -> None:
        if self.waiting:
            self.grid = Grid(self, self.waiting.popleft())
            self.grid.fill()

    def abandon(self) -> None:
        """What runs or waits is no more."""
        self.waiting.clear()
        self.grid = None

    def grid_ended(self) -> None:
        """A grid ends when its last store is acknowledged."""
        self.ended_ns = max(self.engine.now, self.acknowledged)
        self.grid = None
        if self.waiting:
            self.engine.at(self.ended_ns + self.node_gap_ns, self._next_grid)


class Grid:
    """One running launch. Places are numbered; a place's SM is its number modulo the SM count."""

    def __init__(self, device: LaunchQueue, spec: GridSpec) -> None:
        self.device = device
        self.engine = device.engine
        self.spec = spec
        self.free_places = list(range(resident_blocks(self.engine.gpu, spec.threads, spec.shared)))[::-1]
        self.next_block = 0
        self.running: set[Block] = set()
        self.view = self.engine.order.begin_grid(device.index)

    def fill(self, _: Any = None, __: Any = None) -> None:
        """Starts as many waiting blocks as there are places."""
        started = []
        while self.next_block < self.spec.blocks and self.free_places:
            started.append(self._block(self.next_block, self.free_places.pop()))
            self.next_block += 1
        self.running.update(started)
        for block in started:
            self._start(block)

    def _block(self, index: int, place: int) -> Block:
        engine, spec = self.engine, self.spec
        deadline = engine.now + spec.deadline_ns if spec.deadline_ns else inf
        block = Block(self.device, spec, index, place % engine.gpu.sms, deadline, self.view)
        block.on_end = partial(self._block_ended, block, place)
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
                    arguments, thread.tid, spec.threads, block.index, spec.blocks, thread, engine, engine.watched,
                    *tables, *shared,
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

    def _block_ended(self, block: Block, place: int) -> None:
        self.running.discard(block)
        self.free_places.append(place)
        if self.next_block < self.spec.blocks:
            self.engine.at(self.engine.now, self.fill)
        elif not self.running:
            self.device.grid_ended()
