"""Loads in virtual time, and polls that are parked until their word changes.

Must not write memory.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from pcietool.emulator.engine.threads import BLOCKED, Parked, Thread
from pcietool.emulator.memory import Place
from pcietool.emulator.ops import Op
from pcietool.emulator.translate.lower import SHARED_WINDOW

if TYPE_CHECKING:
    from pcietool.emulator.engine.engine import Engine

GRANULE = 4
"""Parked polls are found by address >> GRANULE: 16 bytes, the widest single store."""


class Loads:
    """Serves every load the engine sees. `watched`: parked polls by granule."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.memory = engine.memory
        self.routes = engine.fabric.routes
        self.order = engine.order
        self.half_l2 = engine.half_l2
        self.issue = engine.gpu.issue_ns.value
        self.watched: dict[int, list[Parked]] = {}

    def serve(self, thread: Thread, request: tuple[Op, int]) -> Any:
        op, address = request
        if address & SHARED_WINDOW:
            value = thread.block.load_shared(op, address)
            thread.lag += self.issue
            self.engine.at(self.engine.now + thread.lag, self.engine.resume, thread, value)
            thread.lag = 0.0
            return BLOCKED
        place = self.memory.find(address, op.bytes)
        if not op.returns:  # an acquire for its order only: nobody waits for the value
            self.order.load(thread, op, place)
            thread.lag += self.issue
            return self.engine.go_on(thread)
        start = self.engine.now + thread.lag
        home = place[0].device
        device = thread.block.device.index
        if op.poll is not None and start < thread.block.deadline_ns:
            if thread.poll_loop != op.poll:
                thread.poll_loop = op.poll
                thread.polls = {}
            elif address in thread.polls and self._unchanged(thread):
                self._park(thread, request, start)
                return BLOCKED
            look = self.order.load if home == device else self.order.peek
            value = look(thread, op, place)
            thread.polls[address] = (value, start, op, place)
            if home == device:
                # Look at once: if the loop looks again, it is parked as from this first look, so that a change
                # before the look would have been served is not missed; if not, the way was short.
                thread.lag += 2 * self.half_l2
                return value
        thread.lag = 0.0
        if home == device:
            self.engine.at(start + self.half_l2, self._sample_local, (thread, op, address), place)
        else:
            served = self.routes[device, home].request(start)
            self.engine.at(served, self._sample_remote, (thread, op, address), place)
        return BLOCKED

    def _sample_local(self, who: tuple[Thread, Op, int], place: Place) -> None:
        thread = who[0]
        thread.lag += self.half_l2  # the way back is short enough to run ahead of the clock
        self.engine.resume(thread, self._sampled(who, place))

    def _sample_remote(self, who: tuple[Thread, Op, int], place: Place) -> None:
        device, home = who[0].block.device.index, place[0].device
        back = self.routes[home, device].reply(self.engine.now, who[1].bytes)
        self.engine.at(back, self.engine.resume, who[0], self._sampled(who, place))

    def _sampled(self, who: tuple[Thread, Op, int], place: Place) -> Any:
        thread, op, address = who
        value = self.order.load(thread, op, place)
        if op.poll is not None and (seen := thread.polls.get(address)):
            thread.polls[address] = (value, seen[1], op, place)
        return value

    # -- polls ----------------------------------------------------------------------------------------------------

    def _park(self, thread: Thread, pending: tuple[Op, int], start: float) -> None:
        """A whole turn of a wait loop saw nothing new; `pending`, its next look, waits until one of its words
        changes."""
        period = start - thread.polls[pending[1]][1]
        for polled, poll in thread.polls.items():
            parked = Parked(thread, polled, poll, period)
            thread.parked.append(parked)
            self.watched.setdefault(polled >> GRANULE, []).append(parked)
        thread.pending = pending
        thread.lag = 0.0

    def _unchanged(self, thread: Thread) -> bool:
        for value, _, op, place in thread.polls.values():  # noqa: SIM110 - a generator costs more than its one turn
            if self.order.peek(thread, op, place) != value:
                return False
        return True

    def changed(self, address: int, nbytes: int) -> None:
        """Memory was written: wakes the polls that would now see another value."""
        for granule in range(address >> GRANULE, (address + nbytes - 1 >> GRANULE) + 1):
            if granule in self.watched:
                self.granule_changed(granule)

    def granule_changed(self, granule: int) -> None:
        """The same for one granule that somebody watches."""
        for parked in self.watched[granule].copy():
            thread = parked.thread
            if thread.parked and self.order.peek(thread, parked.op, parked.place) != parked.value:
                self.unpark(thread, parked, self.engine.now)

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
        op, address = thread.pending
        value, asked, _, place = thread.polls[address]
        device, home = thread.block.device.index, place[0].device
        way = self.half_l2 if home == device else self.routes[device, home].read_latency
        served = parked.at + way
        if served < time and parked.period > 0:
            served += ceil((time - served) / parked.period) * parked.period
        served = max(time, served - (parked.at - asked))
        thread.polls[address] = (value, served - way, op, place)
        sample = self._sample_local if home == device else self._sample_remote
        self.engine.at(served, sample, (thread, op, address), place)

    def parked_threads(self) -> dict[Thread, Parked]:
        """One parked poll of each thread that has any."""
        return {parked.thread: parked for watched in self.watched.values() for parked in watched}
