"""Virtual time: what happens when, in buckets of equal time, in the order in which it was asked for.

Must know nothing of threads, memory or links.
"""

from __future__ import annotations

import gc
import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from pcietool.errors import EndlessError

Event = tuple[Callable[[Any, Any], None], Any, Any]
CHECKUP_EVENTS = 100_000
"""Until somebody first asks whether anything still changes."""


class EventQueue:
    """`now` is in ns since the machine was opened."""

    def __init__(self, max_events: int) -> None:
        self.now = 0.0
        self.events = 0
        self.never: list[Event] = []
        """What cannot happen any more; only a machine with a fault has any."""
        self.max_events = max_events
        self.checkup: Callable[[], int] = _no_checkup
        """Called now and then, between two events; returns how many events later again."""
        self._next_checkup = CHECKUP_EVENTS
        self._buckets: dict[float, list[Event]] = {}
        self._times: list[float] = []
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._alarm_order = itertools.count()

    def alarm(self, time: float, action: Callable[[], None]) -> None:
        """Calls action() when the clock passes `time`, but does not keep the queue alive for it: where nothing else
        happens any more, it is never called."""
        heapq.heappush(self._alarms, (time, next(self._alarm_order), action))

    def at(self, time: float, action: Callable[[Any, Any], None], a: Any = None, b: Any = None) -> None:
        """Calls action(a, b) at `time`, after what was scheduled for the same time before."""
        bucket = self._buckets.get(time)
        if bucket is None:
            self._buckets[time] = [(action, a, b)]
            heapq.heappush(self._times, time)
        else:
            bucket.append((action, a, b))

    def postpone(self, span: float) -> None:
        """Threads go on `span` later; the first of them not later than anything else happens. What is on its way, and
        alarms, come when they come."""
        pending = sorted(self._buckets.items())
        others = (time for time, bucket in pending if not all(map(self.is_next_step, bucket)))
        until = min(next(others, inf), self._alarms[0][0] if self._alarms else inf)
        if not pending or (span := min(span, until - pending[0][0])) <= 0:
            return
        self._buckets.clear()
        for time, bucket in pending:
            for action, a, b in bucket:
                later = time if time >= until else time + span
                self._buckets.setdefault(later, []).append((action, a, b))
        self._times[:] = sorted(self._buckets)

    def is_next_step(self, event: Event) -> bool:
        """Is it no more than a thread going on?"""
        return False

    def forget_all(self) -> None:
        """Nothing that was to happen does."""
        self._buckets.clear()
        self._times.clear()
        self._alarms.clear()
        self.never.clear()
        self.checkup = _no_checkup

    def drain(self) -> None:
        """Runs until no event is left: everything has ended, or whatever lives waits for something.

        Raises EmulationError after `max_events` of one machine.
        """
        with _no_garbage_collection():
            times, buckets, alarms, pop = self._times, self._buckets, self._alarms, heapq.heappop
            while times:
                if alarms and alarms[0][0] < times[0]:
                    self.now, _, ring = pop(alarms)
                    ring()
                    continue
                self.now = time = pop(times)
                bucket = buckets.pop(time)
                for action, a, b in bucket:
                    action(a, b)
                self.events += len(bucket)
                if self.events > self._next_checkup:
                    self._check()

    def _check(self) -> None:
        if self.events > self.max_events:
            raise EndlessError(
                f"endless program: {self.max_events} events without an end, {self.now / 1e6:.3f} ms of virtual"
                " time; a loop without a deadline, or more rounds than the emulator is made for (--iters)"
            )
        self._next_checkup = self.events + self.checkup()


def _no_checkup() -> int:
    return CHECKUP_EVENTS


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Events and threads form no cycles worth collecting while they run; looking for some costs a third of a run."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
