"""Bulk copies and mbarriers in virtual time.

A copy to global memory belongs to its thread's current group. It has *read* its source once the last byte is on the
way, and is *done* once the write is acknowledged. A copy to shared memory completes its bytes on an mbarrier.
"""

from __future__ import annotations

from typing import Any

from pcietool.emulator import mbarriers
from pcietool.emulator.engine.copies.fetches import Fetches
from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.threads import BLOCKED, Block, Group, MBarrier, Thread
from pcietool.emulator.memory import Place
from pcietool.emulator.ops import Op, Stamp
from pcietool.emulator.order.views import join
from pcietool.errors import EmulationError

ALIGNMENT = 16
"""Of both addresses and the size, in bytes."""


class Bulk:
    """Serves cp.async.bulk and mbarrier, and hands cp.async on."""

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.memory = engine.memory
        self.order = engine.order
        self.routes = engine.fabric.routes
        self.issue = engine.gpu.issue_ns.value
        self.ns_per_byte = 1 / engine.gpu.bulk_bytes_per_ns.value
        self.fetches = Fetches(engine)

    # -- copies -----------------------------------------------------------------------------------------------------

    def serve(self, thread: Thread, request: tuple[Any, ...]) -> Any:
        op: Op = request[0]
        thread.poll_loop = None
        if op.kind == "store":
            self._store(thread, op, *request[1:4])
        elif op.kind == "load":
            self._load(thread, op, *request[1:5])
        elif op.kind == "commit":
            thread.groups.append(Group())
        elif op.kind == "fetch":
            self.fetches.begin(thread, op, *request[1:4])
        elif op.kind == "commit fetches":
            self.fetches.commit(thread)
        elif op.kind == "wait for fetches":
            return self.fetches.wait(thread, request[1])
        else:
            return self._wait(thread, request[1], read_only=op.kind == "wait read")
        thread.lag += self.issue
        return self.engine.go_on(thread)

    @staticmethod
    def _check_shared(block: Block, offset: int, nbytes: int) -> None:
        size = len(block.shared[1])
        if offset % ALIGNMENT or nbytes % ALIGNMENT:
            raise EmulationError(
                f"bulk copy of {nbytes} bytes at offset {offset} of shared memory: make both multiples of {ALIGNMENT}"
            )
        if offset + nbytes > size:
            raise EmulationError(f"bulk copy of {nbytes} bytes at offset {offset} of {size} bytes shared memory")

    def _global_part(self, address: int, nbytes: int) -> Place:
        segment, offset = self.memory.find(address, ALIGNMENT)
        if offset + nbytes > segment.nbytes:
            raise EmulationError(
                f"bulk copy of {nbytes} bytes at offset {offset} of '{segment.name}' ({segment.place()}), which is only"
                f" {segment.nbytes} bytes long"
            )
        return segment, offset

    def _store(self, thread: Thread, op: Op, to: int, source: int, nbytes: int) -> None:
        """Shared to global memory. The source is read when the copy starts: who changes it later has waited for the
        read, or has a race that no order would mend."""
        self._check_shared(thread.block, source, nbytes)
        segment, offset = self._global_part(to, nbytes)
        device = thread.block.device
        start = self.engine.now + thread.lag
        if segment.device == device.index:
            read = start + nbytes * self.ns_per_byte
            landed = done = read + self.engine.half_l2
        else:
            route = self.routes[device.index, segment.device]
            landed = route.write(start, nbytes, coalesced=True)
            read = max(start + nbytes * self.ns_per_byte, landed - route.latency)
            done = landed + route.acknowledge_extra
            device.written(route, landed)
        group = thread.groups[-1]
        group.read, group.done = max(group.read, read), max(group.done, done)
        group.copies.append(self.order.begin_copy(thread, op))
        data = self.order.read_shared(thread.block, source, nbytes, group.copies[-1])
        self.engine.at(landed, self.engine.land, (op, (segment, offset), data), group.copies[-1])

    def _wait(self, thread: Thread, allowed: int, *, read_only: bool) -> Any:
        """Until all but the `allowed` youngest committed groups have read, or are done."""
        committed = thread.groups[:-1]
        waited = committed[: len(committed) - allowed] if allowed else committed
        until = max((group.read if read_only else group.done for group in waited), default=0.0)
        if not read_only:
            thread.groups = thread.groups[len(waited) :]
        learn = self.order.copy_read if read_only else self.order.copy_done
        self.order.take(thread, [learn(copy) for group in waited for copy in group.copies])
        start = self.engine.now + thread.lag + self.issue
        thread.lag = 0.0
        self.engine.at(max(start, until), self.engine.resume, thread)
        return BLOCKED

    def _load(self, thread: Thread, op: Op, to: int, source: int, nbytes: int, barrier: int) -> None:
        """Global to shared memory; its bytes complete on the mbarrier."""
        block = thread.block
        self._check_shared(block, to, nbytes)
        segment, offset = self._global_part(source, nbytes)
        start = self.engine.now + thread.lag
        if segment.device == block.device.index:
            arrived = start + self.engine.half_l2 * 2 + nbytes * self.ns_per_byte
        else:
            served = self.routes[block.device.index, segment.device].request(start)
            arrived = self.routes[segment.device, block.device.index].reply(served, nbytes)
        copy = (block, to, (segment, offset), nbytes, self.order.begin_copy(thread, op, barrier))
        self.engine.at(arrived, self._arrived, copy, self._mbarrier(block, barrier))

    def _arrived(self, copy: tuple[Block, int, Place, int, Stamp], barrier: MBarrier) -> None:
        block, to, (segment, offset), nbytes, stamp = copy
        self.order.write_shared(block, to, self.order.read_bytes(segment, offset, nbytes, stamp), stamp)
        barrier.given.append(self.order.copy_done(stamp))
        barrier.transfer -= nbytes
        self._complete(barrier)

    # -- mbarriers --------------------------------------------------------------------------------------------------

    @staticmethod
    def _mbarrier(block: Block, address: int) -> MBarrier:
        where = mbarriers.check(address, len(block.shared[1]))
        barrier = block.mbarriers.get(address)
        if barrier is None:
            raise mbarriers.never_initialised(address)
        if barrier.memory != barrier.content:
            raise EmulationError(f"{where} was overwritten; give it 8 bytes of its own, or invalidate it before")
        return barrier

    def mbarrier(self, thread: Thread, request: tuple[Any, ...]) -> Any:
        op, address, operand, *count = request
        thread.poll_loop = None
        if op.kind == "init":
            self._init(thread.block, address, operand)
            return self.engine.go_on(thread)
        barrier = self._mbarrier(thread.block, address)
        if op.kind == "arrive when fetched":
            self.fetches.arrive(thread, barrier, self._complete, counted=bool(operand))
            return self.engine.go_on(thread)
        if op.kind == "inval":
            del thread.block.mbarriers[address]
            return self.engine.go_on(thread)
        if op.kind == "arrive":
            state = barrier.phase
            barrier.given.append(self.order.give(thread))
            barrier.transfer += operand
            for _ in range(count[0]):
                barrier.pending -= 1
                self._complete(barrier)
            return state
        is_over = barrier.phase != operand & 1
        if is_over:
            self.order.take(thread, [barrier.completed])
        if op.kind == "test_wait":
            self.engine.at(self.engine.now + thread.lag + self.issue, self.engine.resume, thread, is_over)
            thread.lag = 0.0
            return BLOCKED
        if is_over:
            return True
        barrier.waiting.append(thread)
        return BLOCKED

    @staticmethod
    def _init(block: Block, address: int, count: int) -> None:
        where = mbarriers.check(address, len(block.shared[1]), count)
        before = block.mbarriers.get(address)
        if before is not None and before.memory == before.content:
            raise EmulationError(f"{where} is initialised again; invalidate it first (mbarrier.inval)")
        memory = block.shared[1][address : address + mbarriers.BYTES]
        barrier = block.mbarriers[address] = MBarrier(memory, count, pending=count)
        barrier.keep()

    def _complete(self, barrier: MBarrier) -> None:
        """Ends the phase if nothing is missing, and lets its waiters go."""
        if barrier.pending or barrier.transfer:
            barrier.keep()
            return
        barrier.pending = barrier.count
        barrier.phase ^= 1
        barrier.keep()
        barrier.completed, barrier.given = join(barrier.given), []
        waiting, barrier.waiting = barrier.waiting, []
        for thread in waiting:
            self.order.take(thread, [barrier.completed])
            self.engine.at(self.engine.now + thread.lag + self.issue, self.engine.resume, thread, True)
            thread.lag = 0.0
