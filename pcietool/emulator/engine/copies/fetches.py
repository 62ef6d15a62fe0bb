"""cp.async in virtual time: a thread's copies of 4, 8 or 16 bytes from global to shared memory.

A copy belongs to its thread's current group, and is done once its bytes stand in shared memory. Nobody waits for it but
by cp.async.wait_group, wait_all, or an mbarrier. Must not know bulk copies: these have groups of their own.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.threads import BLOCKED, Block, Group, MBarrier, Thread
from pcietool.emulator.memory import Place
from pcietool.emulator.ops import Op, Stamp
from pcietool.errors import EmulationError


class Fetches:
    """Serves them; an mbarrier that an arrival is for is looked up by who serves mbarriers."""

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.order = engine.order
        self.routes = engine.fabric.routes
        self.issue = engine.gpu.issue_ns.value

    def begin(self, thread: Thread, op: Op, to: int, source: int, nbytes: int) -> None:
        """`nbytes` of `source`, and zeros up to the size of the operation."""
        block = thread.block
        if to % op.size or source % op.size or nbytes > op.size:
            raise EmulationError(
                f"cp.async of {nbytes} of {op.size} bytes to offset {to} of shared memory: make both addresses"
                f" multiples of {op.size}, and the source no longer"
            )
        if to + op.size > len(block.shared[1]):
            raise EmulationError(
                f"cp.async of {op.size} bytes at offset {to} of {len(block.shared[1])} bytes shared memory"
            )
        segment, offset = self.engine.memory.find(source, op.size)
        start = self.engine.now + thread.lag
        if segment.device == block.device.index:
            arrived = start + self.engine.half_l2 * 2
        else:
            served = self.routes[block.device.index, segment.device].request(start)
            arrived = self.routes[segment.device, block.device.index].reply(served, op.size)
        stamp = self.order.begin_fetch(thread, op)
        group = thread.fetches[-1]
        group.done = max(group.done, arrived)
        group.copies.append(stamp)
        self.engine.at(arrived, self._arrived, (block, to, (segment, offset), nbytes, op.size), stamp)

    def _arrived(self, copy: tuple[Block, int, Place, int, int], stamp: Stamp) -> None:
        block, to, (segment, offset), nbytes, size = copy
        data = self.order.read_bytes(segment, offset, nbytes, stamp) if nbytes else b""
        self.order.write_shared(block, to, data.ljust(size, b"\0"), stamp)

    def commit(self, thread: Thread) -> None:
        thread.fetches.append(Group())

    def wait(self, thread: Thread, allowed: int | None) -> Any:
        """Until all but the `allowed` youngest committed groups are done, or all copies there are."""
        if allowed is None:
            waited, thread.fetches = thread.fetches, [Group()]
        else:
            number = max(0, len(thread.fetches) - 1 - allowed)
            waited, thread.fetches = thread.fetches[:number], thread.fetches[number:]
        self.order.take(thread, map(self.order.fetch_done, chain.from_iterable(group.copies for group in waited)))
        until = max((group.done for group in waited), default=0.0)
        start = self.engine.now + thread.lag + self.issue
        thread.lag = 0.0
        self.engine.at(max(start, until), self.engine.resume, thread)
        return BLOCKED

    def arrive(self, thread: Thread, barrier: MBarrier, complete: Any, *, counted: bool) -> None:
        """The mbarrier is arrived at once all copies so far are done; `counted`: that is one of the arrivals it was
        made for, else one more is waited for."""
        if not counted:
            barrier.pending += 1
            barrier.keep()
        until = max(group.done for group in thread.fetches)
        stamps = [stamp for group in thread.fetches for stamp in group.copies]
        given = self.order.give(thread)

        def arrived(_: Any, __: Any) -> None:
            barrier.given += [given, *map(self.order.fetch_done, stamps)]
            barrier.pending -= 1
            complete(barrier)

        self.engine.at(max(self.engine.now + thread.lag, until), arrived)
