"""Stores and fences in virtual time: when a store is issued, when it lands, when a fence has seen it acknowledged.

Must not write memory: that is `Core.land`.
"""

from __future__ import annotations

from typing import Any

from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.threads import BLOCKED, GpuState, Thread
from pcietool.emulator.ops import Op, Write
from pcietool.emulator.translate.lower import SHARED_WINDOW


class Stores:
    """Serves every store and fence the engine sees."""

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.memory = engine.memory
        self.routes = engine.fabric.routes
        self.order = engine.order
        self.land = engine.land
        self.issue = engine.gpu.issue_ns.value
        gpu = engine.gpu
        self.overtaking: dict[tuple[int, int, int], list[float]] = {}
        """By (device, address, size) of a word at a home without native atomics to which a read-modify-write of that
        device is on its way: when stores of the device land there meanwhile."""
        self.fence_base = (gpu.fence_cta_ns.value, gpu.fence_gpu_ns.value, gpu.fence_sys_ns.value)

    def serve(self, thread: Thread, request: tuple[Op, int, Any]) -> Any:
        op, address, value = request
        if address & SHARED_WINDOW:
            thread.block.check_shared(op, address)
            return self.order.store_shared(thread, op, address, value)
        thread.poll_loop = None
        place = self.memory.find(address, op.bytes)
        if op.release:
            done = self.fence_end(thread.block.device, self.engine.now + thread.lag, op.scope)
            thread.lag = 0.0
            self.engine.at(done, self._issue_and_resume, thread, (op, place, value))
            return BLOCKED
        self._issue(thread, (op, place, value))
        return self.engine.go_on(thread)

    def _issue_and_resume(self, thread: Thread, store: Write) -> None:
        self._issue(thread, store)
        if self.engine.go_on(thread) is not BLOCKED:
            self.engine.resume(thread, None)

    def _issue(self, thread: Thread, store: Write) -> None:
        op, place, _ = store
        stamp = self.order.stamp(thread, op, place)
        home = place[0].device
        device = thread.block.device
        start = self.engine.now + thread.lag
        thread.lag += self.issue
        if home == device.index:
            self.land(store, stamp)
            return
        route = self.routes[device.index, home]
        landed = route.write(start, op.bytes, coalesced=not op.strong)
        device.written(route, landed)
        if self.overtaking:
            address = place[0].address + place[1]
            for word in range(address, address + op.bytes, op.size):
                self.overtaking.get((device.index, word, op.size), []).append(landed)
        self.engine.at(landed, self.land, store, stamp)
        thread.lag += route.stall(start)

    def fence_end(self, device: GpuState, start: float, scope: int) -> float:
        """When a fence that starts at `start` lets its thread go on. A system fence waits until everything the
        device has stored is acknowledged (a flush read: it returns even if a write was lost on the way)."""
        end = start + self.fence_base[scope]
        if scope == 2 and (flushed := device.flushed(start)) > end:
            return flushed
        return end

    def fence(self, thread: Thread, request: tuple[Op]) -> Any:
        end = self.fence_end(thread.block.device, self.engine.now + thread.lag, request[0].scope)
        thread.lag = 0.0
        self.engine.at(end, self._fenced, thread, request[0])
        return BLOCKED

    def _fenced(self, thread: Thread, op: Op) -> None:
        self.order.fence(thread, op)
        self.engine.resume(thread, None)
