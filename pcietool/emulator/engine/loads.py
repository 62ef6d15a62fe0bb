"""Loads in virtual time, and which of them are parked because they would see nothing new.

Must not write memory.
"""

from __future__ import annotations

from typing import Any

from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.threads import BLOCKED, Thread
from pcietool.emulator.memory import Place
from pcietool.emulator.ops import Op
from pcietool.emulator.translate.lower import SHARED_WINDOW


class Loads:
    """Serves every load the engine sees."""

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.memory = engine.memory
        self.routes = engine.fabric.routes
        self.order = engine.order
        self.half_l2 = engine.half_l2
        self.issue = engine.gpu.issue_ns.value

    def serve(self, thread: Thread, request: tuple[Op, int]) -> Any:
        op, address = request
        if address & SHARED_WINDOW:
            value = self.order.load_shared(thread, op, address)
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
                sample = self._sample_local if home == device else self._sample_remote
                thread.pending = (op, address, sample)
                self.engine.park(thread, start - thread.polls[address][1])
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

    def _unchanged(self, thread: Thread) -> bool:
        for value, _, op, place in thread.polls.values():  # noqa: SIM110 - a generator costs more than its one turn
            if self.order.peek(thread, op, place) != value:
                return False
        return True
