"""Read-modify-writes in virtual time: at their home where the link is native, else at the requester.

A home without native atomics is read, modified at the requester and written back, one at a time per device and word.
One requester loses nothing that way; N steady ones overwrite each other and lose 1 - 1/N. Stores of its own device
are not undone: one that lands between the two halves comes behind both.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.stores import Stores
from pcietool.emulator.engine.threads import BLOCKED, Thread
from pcietool.emulator.fabric.fabric import Route
from pcietool.emulator.memory import Place
from pcietool.emulator.ops import Op, Stamp
from pcietool.emulator.translate.lower import SHARED_WINDOW

Rmw = tuple[Thread, Op, int, int]
"""(thread, op, b, c)"""


class WordQueue:
    """What one device still has to do on one word of a home without native atomics."""

    __slots__ = ("busy", "waiting")

    def __init__(self) -> None:
        self.busy = False
        self.waiting: deque[Rmw] = deque()


class Atomics:
    """Serves every read-modify-write of global memory."""

    def __init__(self, engine: Core, stores: Stores) -> None:
        self.engine = engine
        self.fence_end = stores.fence_end
        self.overtaking = stores.overtaking
        self.fabric = engine.fabric
        self.order = engine.order
        self.half_l2 = engine.half_l2
        self.issue = engine.gpu.issue_ns.value
        self.per_word = engine.gpu.l2_atomic_ns.value
        self.word_free: dict[int, float] = {}
        self.queues: dict[tuple[int, int], WordQueue] = {}

    def serve(self, thread: Thread, request: tuple[Op, int, int, int]) -> Any:
        op, address, b, c = request
        thread.poll_loop = None
        if address & SHARED_WINDOW:
            thread.block.check_shared(op, address)
            return self.order.modify_shared(thread, op, address, b, c)
        where = self.engine.memory.find(address, op.size)
        device = thread.block.device
        start = self.engine.now + thread.lag
        thread.lag = 0.0
        if op.release:
            start = self.fence_end(device, start, op.scope)
        home = where[0].device
        if not self.fabric.is_native(device.index, home):
            self.engine.at(start, self._enqueue, (thread, op, b, c), where)
            return BLOCKED
        if home == device.index:
            if not op.returns and start == self.engine.now:
                # in place, so that a weak load of the same thread, which the engine does not see, finds its effect
                self._modify((thread, op, b, c), where)
                thread.lag += self.issue
                return self.engine.go_on(thread)
            arrives, back = start + self.half_l2, None
        else:
            route = self.fabric.routes[device.index, home]
            arrives, back = route.request(start), self.fabric.routes[home, device.index]
            device.written(route, arrives)
        arrives = max(arrives, self.word_free.get(address, 0.0))
        self.word_free[address] = arrives + self.per_word
        self.engine.at(arrives, self._perform, ((thread, op, b, c), where), back)
        return BLOCKED

    def _perform(self, at: tuple[Rmw, Place], back: Route | None) -> None:
        """At the home, in one step."""
        rmw, where = at
        thread, op = rmw[:2]
        old = self._modify(rmw, where)
        now = self.engine.now
        done = now + self.half_l2 if back is None else back.reply(now, op.size) if op.returns else now
        self.engine.at(done, self.engine.resume, thread, old)

    def _modify(self, rmw: Rmw, where: Place) -> int:
        thread, op, b, c = rmw
        old, stamp = self.order.begin_modify(thread, op, where, b)
        assert op.modify is not None
        self.engine.land((op, where, op.modify(old, b, c)), stamp)
        return old

    # -- homes without native atomics -----------------------------------------------------------------------------

    def _enqueue(self, rmw: Rmw, where: Place) -> None:
        segment, offset = where
        queue = self.queues.setdefault((rmw[0].block.device.index, segment.address + offset), WordQueue())
        queue.waiting.append(rmw)
        if not queue.busy:
            self._next(queue, where)

    def _next(self, queue: WordQueue, where: Place) -> None:
        queue.busy = bool(queue.waiting)
        if queue.busy:
            thread, op, _, _ = queue.waiting[0]
            device = thread.block.device.index
            self.overtaking[device, where[0].address + where[1], op.size] = []
            served = self.fabric.routes[device, where[0].device].request(self.engine.now)
            self.engine.at(served, self._read, queue, where)

    def _read(self, queue: WordQueue, where: Place) -> None:
        rmw = queue.waiting.popleft()
        thread, op, b, _ = rmw
        read = self.order.begin_modify(thread, op, where, b)
        back = self.fabric.routes[where[0].device, thread.block.device.index].reply(self.engine.now, op.size)
        self.engine.at(back, self._write_back, (queue, where, self.engine.now), (rmw, read))

    def _write_back(self, at: tuple[WordQueue, Place, float], modify: tuple[Rmw, tuple[int, Stamp]]) -> None:
        """The next read of this device is served behind the write, since reads push writes."""
        queue, where, read = at
        (thread, op, b, c), (old, stamp) = modify
        device = thread.block.device
        assert op.modify is not None
        route = self.fabric.routes[device.index, where[0].device]
        landed = route.write(self.engine.now, op.size, coalesced=False)
        device.written(route, landed)
        stores = self.overtaking.pop((device.index, where[0].address + where[1], op.size))
        if not any(read <= store <= landed for store in stores):
            self.engine.at(landed, self.engine.land, (op, where, op.modify(old, b, c)), stamp)
        self._next(queue, where)
        self.engine.resume(thread, old)
