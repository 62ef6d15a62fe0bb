"""Loads in virtual time, and which of them are parked because they would see nothing new.

Must not write memory.
"""

from __future__ import annotations

from typing import Any

from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.threads import BLOCKED, Look, Poll, Thread
from pcietool.emulator.memory import Place
from pcietool.emulator.ops import Op
from pcietool.emulator.translate.lower import SHARED_WINDOW

Waiting = tuple[Thread, Look]


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
            thread.block.check_shared(op, address)
            value = self.order.load_shared(thread, op, address)
            thread.lag += self.issue
            if thread.lag < self.order.shared_lag_ns:
                return value
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
            elif request in thread.polls and self._turns_in_vain(thread, request):
                sample = self._sample_local if home == device else self._sample_remote
                thread.pending = (request, sample)
                self.engine.park(thread, start - thread.polls[request][1])
                return BLOCKED
            if op.carried:
                thread.states[request] = thread.state(op)
            look = self.order.load if home == device else self.order.peek
            value = look(thread, op, place)
            self._saw(thread, request, (value, start, op, place))
            if home == device:
                # Look at once: if the loop looks again, it is parked as from this first look, so that a change
                # before the look would have been served is not missed; if not, the way was short.
                thread.lag += 2 * self.half_l2
                return value
        thread.lag = 0.0
        if home == device:
            self.engine.at(start + self.half_l2, self._sample_local, (thread, request), place)
        else:
            served = self.routes[device, home].request(start)
            self.engine.at(served, self._sample_remote, (thread, request), place)
        return BLOCKED

    def _sample_local(self, who: Waiting, place: Place) -> None:
        thread = who[0]
        thread.lag += self.half_l2  # the way back is short enough to run ahead of the clock
        self.engine.resume(thread, self._sampled(who, place))

    def _sample_remote(self, who: Waiting, place: Place) -> None:
        device, home = who[0].block.device.index, place[0].device
        back = self.routes[home, device].reply(self.engine.now, who[1][0].bytes)
        self.engine.at(back, self.engine.resume, who[0], self._sampled(who, place))

    def _sampled(self, who: Waiting, place: Place) -> Any:
        thread, request = who
        op = request[0]
        value = self.order.load(thread, op, place)
        if op.poll is not None and (seen := thread.polls.get(request)):
            self._saw(thread, request, (value, seen[1], op, place))
        return value

    @staticmethod
    def _saw(thread: Thread, request: Look, poll: Poll) -> None:
        """Only looks since the last that saw something new count: what they saw is what any turn from now on sees."""
        before = thread.polls.get(request)
        if before is not None and before[0] != poll[0]:
            thread.polls = {}
        thread.polls[request] = poll

    def _turns_in_vain(self, thread: Thread, request: Look) -> bool:
        """Would the thread, at a look that it has made before, go the way it has gone since, again and again? It would
        if nothing has changed, neither what it saw nor what it carries."""
        if thread.unabridged:
            thread.unabridged -= 1
            return False
        if request[0].carried and thread.states.get(request) != thread.state(request[0]):
            return False
        for value, _, op, place in thread.polls.values():
            if self.order.peek(thread, op, place) != value:
                thread.polls = {}
                return False
        return True
