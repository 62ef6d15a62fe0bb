"""The core of an engine: threads in virtual time, the one door to memory, and polls that are parked until it changes.

A thread runs until it asks for something that takes time. What serves its requests (`loads`, `stores`, `atomics`,
`bulk`, `barriers`) is built upon this and told to it as `handlers`. What a load sees is up to the memory order. Must
not know launches (`grids`), nor where figures come from (`fabric`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, TypeAlias

from pcietool.contract.outcomes import Printed
from pcietool.emulator.engine.events import Event, EventQueue
from pcietool.emulator.engine.threads import BLOCKED, Parked, Thread
from pcietool.emulator.fabric.fabric import Fabric
from pcietool.emulator.memory import Memory
from pcietool.emulator.ops import Code, Stamp, Write
from pcietool.emulator.order.timing_order import TimingOrder
from pcietool.emulator.printing import MOST_LINES, printed
from pcietool.errors import EmulationError

GRANULE = 4
"""Parked polls are found by address >> GRANULE: 16 bytes, the widest single store."""
LAG_LIMIT_NS = 100.0
"""How far a thread may run ahead of the clock before it waits for the others."""

Handler: TypeAlias = Callable[[Thread, Any], Any]
"""Serves one request of a thread: its answer, or BLOCKED."""
OrderMaker: TypeAlias = "Callable[[Core], TimingOrder]"


class Core(EventQueue):
    """The clock, memory, and whoever runs and waits. `watched`: parked polls by granule."""

    handlers: tuple[Handler, ...]
    """By Code."""
    stuck: str | None = None
    """A link that nothing crosses any more, if there is one."""

    def __init__(
        self, memory: Memory, fabric: Fabric, max_events: int, order: OrderMaker = lambda core: TimingOrder()
    ) -> None:
        super().__init__(max_events)
        self.memory = memory
        self.fabric = fabric
        self.gpu = gpu = fabric.spec.gpu
        self.live = 0
        self.half_l2 = gpu.l2_round_trip_ns.value / 2
        self.timer_step = int(gpu.timer_step_ns.value) or 1
        self.watched: dict[int, list[Parked]] = {}
        self.order = order(self)
        self.prints: list[Printed] = []
        """What was printed in the round."""

    # -- what generated code reads ----------------------------------------------------------------------------------

    def globaltimer(self, thread: Thread) -> int:
        return int(self.now + thread.lag) // self.timer_step * self.timer_step

    def cycles(self, thread: Thread) -> int:
        return int((self.now + thread.lag) * self.gpu.clock_ghz.value)

    def sm_of(self, thread: Thread) -> int:
        return thread.block.sm

    def printed(self, thread: Thread, text: int, at: int, local: memoryview | bytes) -> None:
        """A thread calls printf, with arguments in its local memory."""
        if len(self.prints) < MOST_LINES:
            said = printed(self.memory.string(text), bytes(local[at:]), self.memory.string)
            self.prints.append(Printed(thread.block.device.index, thread.block.index, thread.tid, said))

    def taken_prints(self) -> tuple[Printed, ...]:
        prints, self.prints = self.prints, []
        return tuple(prints)

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
            self.ended(thread)
        except (EmulationError, IndexError) as error:
            raise thread.error(error) from None

    def serve(self, thread: Thread, request: tuple[Any, ...], handler: Handler | None = None) -> None:
        """Serves one request, by another than the usual handler if one is given, and lets the thread go on if it does
        not have to wait."""
        try:
            value = (handler or self.handlers[request[0].code])(thread, request)
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

    def ended(self, thread: Thread) -> None:
        self.live -= 1
        self.order.end(thread)

    def is_next_step(self, event: Event) -> bool:
        return _is_of_a_thread(event[1])

    def abandon(self) -> None:
        """Whoever still lives, and whatever is on its way, is no more."""
        self.forget_all()
        self.watched.clear()
        self.live = 0

    # -- memory -----------------------------------------------------------------------------------------------------

    def land(self, write: Write, stamp: Stamp) -> None:
        """The one door: all that is written to global memory, by whomever, is written here, and wakes whoever polls
        it. (All that the engine sees: weak stores of a GPU to its own memory that nobody polls are done in place.)"""
        _, (segment, offset), value = write
        address = segment.address + offset
        if value.__class__ is bytes:
            self.order.write_bytes(segment, offset, value, stamp)
            for granule in range(address >> GRANULE, (address + len(value) - 1 >> GRANULE) + 1):
                if granule in self.watched:
                    self.changed(granule)
        else:
            self.order.write(write, stamp)
            if address >> GRANULE in self.watched:
                self.changed(address >> GRANULE)

    def deliver(self, device: int, address: int, data: bytes, stamp: Stamp) -> None:
        """Bytes that the copy engine of `device`, or the host, has sent arrive."""
        self.land((None, self.memory.find(address, 1), data), stamp)

    # -- parked polls -----------------------------------------------------------------------------------------------

    def changed(self, granule: int) -> None:
        """Wakes the polls of a watched granule that would now see another value."""
        for parked in self.watched[granule].copy():
            thread = parked.thread
            if thread.parked and self.order.peek(thread, parked.op, parked.place) != parked.value:
                self.unpark(thread, parked, self.now)

    def park(self, thread: Thread, period: float) -> None:
        """All words that the thread's wait loop looks at are watched from now on; its next look is pending."""
        for (_, address), poll in thread.polls.items():
            parked = Parked(thread, address, poll, period)
            thread.parked.append(parked)
            self.watched.setdefault(address >> GRANULE, []).append(parked)
        thread.lag = 0.0

    def unpark(self, thread: Thread, parked: Parked, time: float) -> None:
        """Lets a thread look again, because the word of `parked` has changed or its deadline has passed.

        The thread goes on with the load it was parked at, in the turn of its loop in which it would see that word:
        the first in which the word's own load is served at `time` or later.
        """
        for each in thread.parked:
            granule = each.address >> GRANULE
            watching = self.watched[granule]
            watching.remove(each)
            if not watching:
                del self.watched[granule]
        thread.parked.clear()
        request, sample = thread.pending
        value, asked, op, place = thread.polls[request]
        device, home = thread.block.device.index, place[0].device
        way = self.half_l2 if home == device else self.fabric.routes[device, home].read_latency
        served = parked.at + way
        if served < time and parked.period > 0:
            turns = ceil((time - served) / parked.period)
            served += turns * parked.period
            if op.counts and time < thread.block.deadline_ns and not self._count(thread, turns):
                return
        served = max(time, served - (parked.at - asked))
        thread.polls[request] = (value, served - way, op, place)
        self.at(served, sample, (thread, request), place)

    def _count(self, thread: Thread, turns: int) -> bool:
        """Has the thread take the turns of its wait loop that were left out, with what it saw all the while, since it
        counts them. False if it asks for something else on the way, and goes on from there."""
        first = request = thread.pending[0]
        while turns:
            if request in thread.polls:
                answer = thread.polls[request][0]
            elif request[0].code in (Code.SLEEP, Code.WORK):
                answer = None
            else:
                self.serve(thread, request)
                return False
            request = thread.send(answer)
            turns -= request == first
        return True

    def parked_threads(self) -> dict[Thread, Parked]:
        """One parked poll of each thread that has any."""
        return {parked.thread: parked for watched in self.watched.values() for parked in watched}


def _is_of_a_thread(what: Any) -> bool:
    """Is it a thread, or does it begin with one?"""
    if isinstance(what, tuple | dict):
        return bool(what) and _is_of_a_thread(next(iter(what)))
    return isinstance(what, Thread)
