"""Records the memory events of a run: an engine that notes each request of a thread, and when it was answered.

Only an engine that is asked to trace is one of these, so that all others pay nothing. Must not change what happens or
when, nor know how a record is written down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf
from typing import Any, NamedTuple

from pcietool.emulator.engine.core import Handler, OrderMaker
from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.engine.faults import FaultyEngine
from pcietool.emulator.engine.threads import BLOCKED, Thread
from pcietool.emulator.fabric.fabric import Fabric
from pcietool.emulator.memory import Memory, Writer
from pcietool.emulator.ops import Code, Op, Write, located
from pcietool.emulator.translate import isa
from pcietool.emulator.translate.lower import SHARED_WINDOW
from pcietool.ptx.model import Instruction

MAX_TRACE_EVENTS = 1_000_000
NAMES = {
    Code.LOAD: "load",
    Code.STORE: "store issued",
    Code.RMW: "atomic",
    Code.FENCE: "fence",
    Code.BULK: "bulk copy",
}
PARKED, WOKEN, LANDED, BARRIER = "poll parked", "poll woken", "store landed", "barrier passed"
COPIES = ("load", "store", "fetch")


class TraceEvent(NamedTuple):
    """Something that `thread`, (GPU, block, thread), did, from `time_ns` for `duration_ns`: 0 at a point in time, None
    if it never ended. `place`: the GPU where a store landed, or HOST; None for what happens at the thread."""

    time_ns: float
    duration_ns: float | None
    what: str
    thread: Writer
    place: int | None
    address: str | None
    """Allocation, offset, and where it lies."""
    value: Any
    """Read or written: an integer, or several of a vector; None where there is none, or it is not known."""
    source: str
    kernel: str | None


class EventTrace:
    """The first events of a run, `limit` of them; `left_out` counts the others."""

    def __init__(self, limit: int = MAX_TRACE_EVENTS) -> None:
        self.limit = limit
        self.events: list[TraceEvent] = []
        self.left_out = 0

    def add(self, event: TraceEvent) -> None:
        if len(self.events) < self.limit:
            self.events.append(event)
        else:
            self.left_out += 1


class _Pending(NamedTuple):
    """A request that is not answered yet."""

    time_ns: float
    what: str
    request: tuple[Any, ...]


class TracedEngine(Engine):
    """The engine, with every memory event noted in `trace`."""

    def __init__(self, memory: Memory, fabric: Fabric, max_events: int, order: OrderMaker, trace: EventTrace) -> None:
        super().__init__(memory, fabric, max_events, order)
        self.trace = trace
        self._pending: dict[Thread, _Pending] = {}
        self._sources: dict[int, tuple[Instruction, str]] = {}
        """By id() of the instruction, which is kept so that no other one gets that id."""
        self._address = cache(memory.describe)
        self.handlers = tuple(
            self._noting(NAMES[code], handler) if code in NAMES else handler
            for code, handler in enumerate(self.handlers)
        )

    def _noting(self, what: str, serve: Handler) -> Handler:
        def noted(thread: Thread, request: tuple[Any, ...]) -> Any:
            began = self.now + thread.lag
            answer = serve(thread, request)
            if _is_noted(request):
                pending = _Pending(began, PARKED if thread.parked else what, request)
                if answer is BLOCKED:
                    self._pending[thread] = pending
                else:
                    self._note(thread, pending, self.now + thread.lag, answer)
            return answer

        return noted

    def resume(self, thread: Thread, value: Any) -> None:
        pending = self._pending.pop(thread, None)
        if pending is not None:
            ended = self.now + thread.lag
            self._note(thread, pending, ended, value)
            if pending.what == PARKED:
                self._note(thread, pending._replace(time_ns=ended, what=WOKEN), ended, value)
        super().resume(thread, value)

    def resume_all(self, results: dict[Thread, Any], _: Any = None) -> None:
        for thread in results:
            instruction = thread.block.lowered.instruction_at(thread.generator)
            if instruction is not None and isa.row(instruction).asks == Code.BARRIER:
                self._add(thread, self.now + thread.lag, 0.0, BARRIER, instruction)
        super().resume_all(results)

    def at(self, time: float, action: Callable[[Any, Any], None], a: Any = None, b: Any = None) -> None:
        if time < inf and action == self.land:
            self._landed(time, a, self.order.writer(b))
        super().at(time, action, a, b)

    def note_unanswered(self) -> None:
        """Requests that are still open get into the record without an end."""
        for thread, pending in self._pending.items():
            self._note(thread, pending, None, None)
        self._pending.clear()

    # -- building events --------------------------------------------------------------------------------------------

    def _note(self, thread: Thread, pending: _Pending, ended: float | None, answer: Any) -> None:
        began, what, request = pending
        op: Op = request[0]
        address = None if op.code == Code.FENCE else request[1]
        stored = op.code == Code.STORE
        value = request[2] if stored else answer if op.code in (Code.LOAD, Code.RMW) and op.returns else None
        self._add(thread, began, None if ended is None else ended - began, what, op.instruction, address, value)

    def _add(
        self,
        thread: Thread,
        time: float,
        duration: float | None,
        what: str,
        instruction: Instruction,
        address: int | None = None,
        value: Any = None,
    ) -> None:
        where = None if address is None else self._address(address)
        kernel = thread.block.lowered.function.name
        source = self._source(instruction)
        self.trace.add(TraceEvent(time, duration, what, thread.writer, None, where, value, source, kernel))

    def _landed(self, time: float, write: Write, writer: Writer) -> None:
        op, (segment, offset), value = write
        where, source = self._address(segment.address + offset), self._source(op.instruction)
        known = None if op.code == Code.BULK else value
        self.trace.add(TraceEvent(time, 0.0, LANDED, writer, segment.device, where, known, source, None))

    def _source(self, instruction: Instruction) -> str:
        if id(instruction) not in self._sources:
            self._sources[id(instruction)] = instruction, located(instruction)
        return self._sources[id(instruction)][1]


class TracedFaultyEngine(TracedEngine, FaultyEngine):
    """Both: what a thread asked for is noted as it asked, and what lands where the fault has it land."""


def _is_noted(request: tuple[Any, ...]) -> bool:
    """Not shared memory, and of bulk copies their start."""
    op: Op = request[0]
    if op.code == Code.BULK:
        return op.kind in COPIES
    return op.code == Code.FENCE or not request[1] & SHARED_WINDOW
