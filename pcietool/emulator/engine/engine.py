"""The engine of one machine: the core, and what serves each request of its threads.

Must not know launches and streams (`grids`).
"""

from __future__ import annotations

from typing import Any

from pcietool.emulator.engine.atomics import Atomics
from pcietool.emulator.engine.barriers import BarrierCore
from pcietool.emulator.engine.copies.bulk import Bulk
from pcietool.emulator.engine.core import OrderMaker
from pcietool.emulator.engine.loads import Loads
from pcietool.emulator.engine.stores import Stores
from pcietool.emulator.engine.threads import BLOCKED, Thread
from pcietool.emulator.fabric.fabric import Fabric
from pcietool.emulator.memory import Memory
from pcietool.emulator.ops import Op

MAX_SLEEP_NS = 1_000_000
"""PTX: nanosleep ends after a millisecond at most."""


class Engine(BarrierCore):
    """The clock, and everything that happens on one machine."""

    def __init__(self, memory: Memory, fabric: Fabric, max_events: int, order: OrderMaker) -> None:
        super().__init__(memory, fabric, max_events, order)
        stores, bulk = Stores(self), Bulk(self)
        self.handlers = (
            Loads(self).serve,
            stores.serve,
            Atomics(self, stores).serve,
            stores.fence,
            self.barrier,
            self.warp,
            self._sleep,
            self._work,
            bulk.serve,
            bulk.mbarrier,
            self._grid,
        )

    def _sleep(self, thread: Thread, request: tuple[Op, int]) -> Any:
        duration = min(request[1], MAX_SLEEP_NS) * self.gpu.nanosleep_factor.value
        self.at(self.now + thread.lag + duration + self.gpu.issue_ns.value, self.resume, thread)
        thread.lag = 0.0
        return BLOCKED

    def _grid(self, thread: Thread, request: tuple[Op]) -> Any:
        if request[0].kind == "wait":
            return thread.block.on_wait(thread)
        thread.block.on_trigger()
        return None

    def _work(self, thread: Thread, request: tuple[Op, int]) -> Any:
        thread.lag += request[1] * self.gpu.instruction_ns.value
        return self.go_on(thread)
