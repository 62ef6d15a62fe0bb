"""Runs emulated threads in virtual time, with the fabric's expected latencies.

A thread runs until it asks for something that takes time; `loads`, `stores` and `atomics` serve memory, barriers and
warp operations belong to the thread's block. What a load sees is up to the memory order. Must not know launches and
streams (`grids`), nor where figures come from (`fabric`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pcietool.emulator.engine.atomics import Atomics
from pcietool.emulator.engine.bulk import Bulk
from pcietool.emulator.engine.events import EventQueue
from pcietool.emulator.engine.loads import Loads
from pcietool.emulator.engine.stores import Stores
from pcietool.emulator.engine.threads import BLOCKED, Thread
from pcietool.emulator.fabric.fabric import Fabric
from pcietool.emulator.memory import Memory
from pcietool.emulator.ops import Code, Op
from pcietool.emulator.order.timing import TimingOrder
from pcietool.errors import EmulationError

LAG_LIMIT_NS = 100.0
"""How far a thread may run ahead of the clock before it waits for the others."""
MAX_SLEEP_NS = 1_000_000
"""PTX: nanosleep ends after a millisecond at most."""


MemoryOrder: TypeAlias = "Callable[[Engine], TimingOrder]"
"""Makes the order of an engine's memory."""


class Engine(EventQueue):
    """The clock, and everything that happens on one machine."""

    def __init__(
        self,
        memory: Memory,
        fabric: Fabric,
        max_events: int,
        order: MemoryOrder = lambda engine: TimingOrder(),
    ) -> None:
        super().__init__(max_events)
        self.memory = memory
        self.fabric = fabric
        self.gpu = gpu = fabric.spec.gpu
        self.live = 0
        self.on_exit: Callable[[Thread], None] = lambda thread: None
        self.half_l2 = gpu.l2_round_trip_ns.value / 2
        self.timer_step = int(gpu.timer_step_ns.value) or 1
        self.order = order(self)
        self.loads = Loads(self)
        self.stores = Stores(self)
        self.atomics = Atomics(self)
        self.bulk = Bulk(self)
        self.watched = self.loads.watched
        self.handlers: tuple[Callable[[Thread, Any], Any], ...] = (
            self.loads.serve,
            self.stores.serve,
            self.atomics.serve,
            self.stores.fence,
            self._barrier,
            self._warp,
            self._sleep,
            self._work,
            self.bulk.serve,
            self.bulk.mbarrier,
        )
        """By Code."""

    # -- what generated code reads ----------------------------------------------------------------------------------

    def globaltimer(self, thread: Thread) -> int:
        return int(self.now + thread.lag) // self.timer_step * self.timer_step

    def cycles(self, thread: Thread) -> int:
        return int((self.now + thread.lag) * self.gpu.clock_ghz.value)

    def sm_of(self, thread: Thread) -> int:
        return thread.block.sm

    def crossing(self, device: int, address: int, data: bytes) -> tuple[int, bytes]:
        """(where, what): a copy by `device` to `address` as it arrives. Only a fault changes either."""
        return address, data

    # -- running threads --------------------------------------------------------------------------------------------

    def resume(self, thread: Thread, value: Any) -> None:
        """Runs a thread until it waits for something or ends."""
        send, handlers = thread.send, self.handlers
        try:
            while True:
                request = send(value)
                value = handlers[request[0].code](thread, request)
                if value is BLOCKED:
                    return
        except StopIteration:
            self._ended(thread)
        except (EmulationError, IndexError) as error:
            raise thread.error(error) from None

    def resume_all(self, results: dict[Thread, Any], _: Any = None) -> None:
        """Resumes threads of one block that were let go together, each with its result. Most of them run straight to
        the same barrier or warp operation, where they then arrive together."""
        barrier: tuple[Op, int, int] | None = None
        arriving: list[Thread] = []
        warp_op: Op | None = None
        mask = 0
        given: dict[Thread, Any] = {}
        for thread, result in results.items():
            try:
                request = thread.send(result)
            except StopIteration:
                self._ended(thread)
                continue
            except (EmulationError, IndexError) as error:
                raise thread.error(error) from None
            if request is barrier:
                arriving.append(thread)
                continue
            op = request[0]
            if op is warp_op and request[1] == mask:
                given[thread] = request[2]
            elif warp_op is None and op.code == Code.WARP:
                warp_op, mask, given[thread] = request
            elif barrier is None and op.code == Code.BARRIER and op.kind == "sync":
                barrier = request
                arriving.append(thread)
            else:
                self._serve(thread, request)
        if warp_op is not None:
            next(iter(given)).block.arrive_warp(mask, given, warp_op)
        if barrier is not None:
            op, number, count = barrier
            try:
                arriving[0].block.arrive(number, count, arriving, op)
            except EmulationError as error:
                raise arriving[0].error(error) from None

    def _serve(self, thread: Thread, request: tuple[Any, ...]) -> None:
        """Serves one request and lets the thread go on if it does not have to wait."""
        try:
            value = self.handlers[request[0].code](thread, request)
        except EmulationError as error:
            raise thread.error(error) from None
        if value is not BLOCKED:
            self.resume(thread, value)

    def go_on(self, thread: Thread) -> Any:
        """A handler's answer that lets the thread go on at once, unless it is too far ahead of the clock."""
        if thread.lag < LAG_LIMIT_NS:
            return None
        self.at(self.now + thread.lag, self.resume, thread)
        thread.lag = 0.0
        return BLOCKED

    def _ended(self, thread: Thread) -> None:
        self.live -= 1
        self.on_exit(thread)

    # -- synchronisation --------------------------------------------------------------------------------------------

    def _barrier(self, thread: Thread, request: tuple[Any, ...]) -> Any:
        op, number, count, *votes = request
        thread.block.arrive(number, count, [thread], op, *votes)
        return self.go_on(thread) if op.kind == "arrive" else BLOCKED

    def _warp(self, thread: Thread, request: tuple[Op, int, Any]) -> Any:
        op, mask, value = request
        thread.block.arrive_warp(mask, {thread: value}, op)
        return BLOCKED

    def _sleep(self, thread: Thread, request: tuple[Op, int]) -> Any:
        duration = min(request[1], MAX_SLEEP_NS) * self.gpu.nanosleep_factor.value
        self.at(self.now + thread.lag + duration + self.gpu.issue_ns.value, self.resume, thread)
        thread.lag = 0.0
        return BLOCKED

    def _work(self, thread: Thread, request: tuple[Op, int]) -> Any:
        thread.lag += request[1] * self.gpu.instruction_ns.value
        return self.go_on(thread)
