"""An engine whose machine has a defect: accesses that cross a link reach another place than they name, or never end.

What a GPU accesses is redirected when it is asked for; times stay those of the link. Must not know kinds of defects
(`fabric.defects`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from pcietool.emulator.engine.core import Handler, OrderMaker
from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.engine.threads import Thread
from pcietool.emulator.fabric.defects import Access, FaultyFabric
from pcietool.emulator.fabric.fabric import Fabric
from pcietool.emulator.memory import OFFSET_MASK, Memory
from pcietool.emulator.ops import Code, Op, Stamp


class FaultyEngine(Engine):
    """The engine of a fabric with a [fault]."""

    def __init__(self, memory: Memory, fabric: Fabric, max_events: int, order: OrderMaker) -> None:
        super().__init__(memory, fabric, max_events, order)
        assert isinstance(fabric, FaultyFabric)
        self.defect = fabric.defect
        self.stuck = self.defect.stuck
        handlers = list(self.handlers)
        handlers[Code.LOAD] = self._redirecting(handlers[Code.LOAD], "load")
        handlers[Code.STORE] = self._redirecting(handlers[Code.STORE], "store")
        handlers[Code.RMW] = self._redirecting(handlers[Code.RMW], "modify")
        handlers[Code.BULK] = self._redirecting_bulk(handlers[Code.BULK])
        self.handlers = tuple(handlers)

    def at(self, time: float, action: Callable[[Any, Any], None], a: Any = None, b: Any = None) -> None:
        """What would happen at the end of time is kept, and does not happen."""
        if time == inf:
            self.never.append((action, a, b))
        else:
            super().at(time, action, a, b)

    def deliver(self, device: int, address: int, data: bytes, stamp: Stamp) -> None:
        if self._damages(device, address, len(data), self.now):
            data = bytes([data[0] ^ 1]) + data[1:]
        super().deliver(device, self._redirect(device, address, "store"), data, stamp)

    # -- requests of threads ----------------------------------------------------------------------------------------

    def _redirecting(self, serve: Handler, access: Access) -> Handler:
        def redirected(thread: Thread, request: tuple[Any, ...]) -> Any:
            op, address, *operands = request
            device = thread.block.device.index
            if access == "store" and self._damages(device, address, op.bytes, self.now + thread.lag):
                operands[0] = _damaged(op, operands[0])
            return serve(thread, (op, self._redirect(device, address, access), *operands))

        return redirected

    def _redirecting_bulk(self, serve: Handler) -> Handler:
        def redirected(thread: Thread, request: tuple[Any, ...]) -> Any:
            op, *operands = request
            device = thread.block.device.index
            if op.kind in ("load", "fetch"):
                operands[1] = self._redirect(device, operands[1], "load")
            if op.kind != "store":
                return serve(thread, (op, *operands))
            to, source, nbytes, _ = operands
            damaged = self._damages(device, to, nbytes, self.now + thread.lag)
            operands[0] = self._redirect(device, to, "store")
            shared = thread.block.shared[1]
            if damaged:  # the source is read at once
                shared[source] ^= 1
            answer = serve(thread, (op, *operands))
            if damaged:
                shared[source] ^= 1
            return answer

        return redirected

    # -- what crosses a link ----------------------------------------------------------------------------------------

    def _redirect(self, device: int, address: int, access: Access) -> int:
        """The address that an access by `device` to `address` really has."""
        segment = self.memory.segments.get(address >> 32)
        if segment is None or segment.device == device:
            return address
        return self.defect.target(device, segment, access).address | address & OFFSET_MASK

    def _damages(self, device: int, address: int, nbytes: int, time: float) -> bool:
        segment = self.memory.segments.get(address >> 32)
        if segment is None or segment.device == device:
            return False
        return self.defect.damages(device, segment.device, nbytes, time)


def _damaged(op: Op, value: Any) -> Any:
    """The value of a store with its lowest bit flipped."""
    return value ^ 1 if op.count == 1 else (value[0] ^ 1, *value[1:])
