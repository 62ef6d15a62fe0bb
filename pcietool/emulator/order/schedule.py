"""Who is late, slow or stopped: by the seed, and within what hardware may do.

GPUs, blocks and warps start late; a thread stops between two requests, now and then for longer than a round takes, and
is slow for a while behind that. Some rounds have none of it, so that races in which all are on time are seen too. Must
not know memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pcietool.emulator.engine.threads import BLOCKED, Thread

if TYPE_CHECKING:
    from pcietool.emulator.engine.core import Core, Handler

LATE_START = 0.4
"""Share of rounds in which something starts late."""
STOPS = 0.75
"""Share of rounds in which threads stop."""
LATE_NS = 20_000.0
LATE_WARP_NS = 5_000.0
"""How long a start or a stop takes at most, but for one in twenty, which takes up to ten times that."""
STOPPED_THREADS = 4
"""How many threads of a block may stop, beside its first one."""
SLOW_STEPS = 12
SLOW_NS = 500.0
"""For how many requests at most a thread is slow, and how much later each of them comes."""


class Schedule:
    """The delays of one machine."""

    def __init__(self, engine: Core, seed: int) -> None:
        self.engine = engine
        self.rng = random.Random(f"schedule {seed}")
        self.late = self.stops = False
        self.steps: dict[Thread, int] = {}
        """Of each thread that may stop, how many requests it has made by its next stop."""
        self.slow: dict[Thread, int] = {}
        """For how many more requests a thread is slow."""

    def begin_round(self) -> None:
        self.late, self.stops = self.rng.random() < LATE_START, self.rng.random() < STOPS
        self.steps.clear()
        self.slow.clear()

    def launch_delay_ns(self) -> float:
        """Of a GPU's first launch."""
        return self._delay(LATE_NS) if self.late and self.rng.random() < 0.5 else 0.0

    def starts(self, threads: list[Thread]) -> Iterator[tuple[float, list[Thread]]]:
        """The threads of a block in groups, each with its delay."""
        block = self._delay(LATE_NS) if self.late and self.rng.random() < 0.25 else 0.0
        if not self.late or len(threads) <= 32:
            yield block, threads
            return
        on_time = []
        for first in range(0, len(threads), 32):
            if self.rng.random() < 0.25:
                yield block + self._delay(LATE_WARP_NS), threads[first : first + 32]
            else:
                on_time += threads[first : first + 32]
        yield block, on_time

    def begin(self, thread: Thread) -> None:
        if self.stops and (thread.tid == 0 or self.rng.random() * len(thread.block.threads) < STOPPED_THREADS):
            self._plan(thread, 0)

    def stopping(self, serve: Handler) -> Handler:
        """The handler of a kind of request, before which threads may stop; not before polls: who waits is late by
        itself."""

        def serve_or_stop(thread: Thread, request: Any) -> Any:
            if request[0].poll is None:
                thread.steps_left -= 1
                if not thread.steps_left:
                    return self._stop(thread, request, serve)
            return serve(thread, request)

        return serve_or_stop

    def _stop(self, thread: Thread, request: tuple[Any, ...], serve: Handler) -> Any:
        slow = self.slow.pop(thread, 0)
        if slow:
            delay = self.rng.random() * SLOW_NS
        else:
            delay = self._delay(LATE_NS)
            slow = self.rng.randrange(-3 * SLOW_STEPS, SLOW_STEPS)
        if slow > 1:
            self.slow[thread] = slow - 1
            thread.steps_left = 1
        else:
            self._plan(thread, self.steps[thread])
        thread.poll_loop = None
        self.engine.at(self.engine.now + thread.lag + delay, self._go_on, (thread, request), serve)
        thread.lag = 0.0
        return BLOCKED

    def _go_on(self, who: tuple[Thread, tuple[Any, ...]], serve: Callable[[Thread, Any], Any]) -> None:
        thread, request = who
        self.engine.serve(thread, request, serve)

    def _plan(self, thread: Thread, steps: int) -> None:
        """The next stop behind `steps` requests: each of them is the last before it as likely as all that follow
        together, so a short program is stopped often, and a long one not all the time."""
        self.steps[thread] = following = int((steps + 1) / (1 - self.rng.random()))
        thread.steps_left = following - steps

    def _delay(self, most: float) -> float:
        return self.rng.random() * (most if self.rng.random() < 0.95 else 10 * most)
