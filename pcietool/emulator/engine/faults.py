"""An engine whose machine has a defect: accesses that cross a link reach another place than they name, or never end.

A defect is made of addresses. What a GPU accesses across a faulty link is redirected to an alias of the allocation: one
that swallows what is written, a private copy, or one that reads as all ones. Times stay those of the healthy link.
Must not model timing (`faulty_routes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from pcietool.emulator.engine.engine import Engine, MemoryOrder
from pcietool.emulator.engine.threads import Thread
from pcietool.emulator.fabric.fabric import Fabric
from pcietool.emulator.fabric.fault_spec import (
    AllOnesReads,
    CorruptBeyond,
    DeadDirection,
    DroppedWrites,
    Fault,
    PrivateMirror,
)
from pcietool.emulator.memory import HOST, OFFSET_MASK, Memory, Segment
from pcietool.emulator.ops import Code, Op

Access = Literal["load", "store", "modify"]
Handler = Callable[[Thread, Any], Any]


class Unwritable:
    """Memory, or a view of it, on which nothing that is written has an effect."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def __getitem__(self, index: Any) -> Any:
        return self.content[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        pass


class Aliases:
    """Other faces of allocations, each made when it is first needed."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._made: dict[tuple[int, str], Segment] = {}

    def _alias(self, segment: Segment, name: str, content: bytearray, *, writable: bool = False) -> Segment:
        key = (segment.number, name)
        if key not in self._made:
            alias = self._memory.add_alias(segment, f"{segment.name} ({name})", content)
            if not writable:
                views: Any = {size: Unwritable(view) for size, view in alias.views.items()}
                raw: Any = Unwritable(alias.raw)
                alias.views, alias.raw = views, raw
            self._made[key] = alias
        return self._made[key]

    def swallowing(self, segment: Segment) -> Segment:
        """Reads as the allocation itself; what is written is lost."""
        return self._alias(segment, "lost on the way", segment.raw)

    def mirror(self, segment: Segment, device: int) -> Segment:
        """A copy that only `device` reads and writes."""
        name = f"private mirror of GPU {device}"
        made = self._made.get((segment.number, name))
        return made or self._alias(segment, name, bytearray(segment.raw), writable=True)

    def all_ones(self, segment: Segment) -> Segment:
        made = self._made.get((segment.number, "all ones"))
        return made or self._alias(segment, "all ones", bytearray(b"\xff" * segment.nbytes))


@dataclass
class Burst:
    """Bytes that one GPU has sent to another without a pause, and when it last sent any."""

    nbytes: int = 0
    last_ns: float = -inf


class FaultyEngine(Engine):
    """The engine of a fabric with a [fault]."""

    fault: Fault

    def __init__(self, memory: Memory, fabric: Fabric, max_events: int, order: MemoryOrder) -> None:
        super().__init__(memory, fabric, max_events, order)
        assert fabric.spec.fault is not None
        self.fault = fabric.spec.fault
        self._aliases = Aliases(memory)
        self._bursts: dict[tuple[int, int], Burst] = {}
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

    def crossing(self, device: int, address: int, data: bytes) -> tuple[int, bytes]:
        if self._damages(device, address, len(data), self.now):
            data = bytes([data[0] ^ 1]) + data[1:]
        return self._redirect(device, address, "store"), data

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
            if op.kind == "load":
                operands[1] = self._redirect(device, operands[1], "load")
            if op.kind != "store":
                return serve(thread, (op, *operands))
            to, nbytes = operands[0], operands[2]
            damaged = self._damages(device, to, nbytes, self.now + thread.lag)
            operands[0] = self._redirect(device, to, "store")
            answer = serve(thread, (op, *operands))
            if damaged:  # nothing on this route lands later than the copy that has just left
                segment, offset = self.memory.find(to, 1)
                self.at(self.fabric.routes[device, segment.device].last_arrival, _flip, segment, offset)
            return answer

        return redirected

    # -- what the defect does ---------------------------------------------------------------------------------------

    def _redirect(self, device: int, address: int, access: Access) -> int:
        """The address that an access by `device` to `address` really has."""
        segment = self.memory.segments.get(address >> 32)
        if segment is None or segment.device == device:
            return address
        return self._target(device, segment, access).address | address & OFFSET_MASK

    def _target(self, device: int, segment: Segment, access: Access) -> Segment:
        fault, home = self.fault, segment.device
        if isinstance(fault, AllOnesReads):
            sees_ones = access != "store" and fault.gpu in (device, home)
            return self._aliases.all_ones(segment) if sees_ones else segment
        if HOST in (device, home):
            return segment
        if isinstance(fault, PrivateMirror):
            return self._aliases.mirror(segment, device)
        loses = (isinstance(fault, DeadDirection) and (device, home) == (fault.writer, fault.owner)) or (
            isinstance(fault, DroppedWrites) and access != "load" and self.fabric.rng.random() < fault.share
        )
        return self._aliases.swallowing(segment) if loses and access != "load" else segment

    def _damages(self, device: int, address: int, nbytes: int, time: float) -> bool:
        """Is a store that leaves now too much for the link? Counts it."""
        if not isinstance(self.fault, CorruptBeyond):
            return False
        segment = self.memory.segments.get(address >> 32)
        if segment is None or segment.device == device or HOST in (device, segment.device):
            return False
        burst = self._bursts.setdefault((device, segment.device), Burst())
        if time - burst.last_ns > self.fault.pause_ns:
            burst.nbytes = 0
        burst.nbytes += nbytes
        burst.last_ns = time
        return burst.nbytes > self.fault.bytes


def _damaged(op: Op, value: Any) -> Any:
    """The value of a store with its lowest bit flipped."""
    return value ^ 1 if op.count == 1 else (value[0] ^ 1, *value[1:])


def _flip(segment: Segment, offset: int) -> None:
    segment.raw[offset] ^= 1
