"""Runs a round to its end in virtual time: all have ended, or nothing can happen any more, or the host gives up.

A hang has a proof only if it is one: before it is shown, each parked thread looks for a while as hardware would. Must
not know launches' arguments nor records.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from pcietool.contract.outcomes import BlockedThread
from pcietool.emulator.engine.deadlock import proved, running
from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.engine.events import CHECKUP_EVENTS
from pcietool.emulator.engine.grids import LaunchQueue
from pcietool.emulator.engine.threads import Thread

LOOKS_FOR_PROOF = 64
"""More than any wait of ours takes until it has looked at all that it looks at."""
TRIES = 8
DULL_CHECKUPS = 3
"""So many in a row at which nothing has changed, until time is stretched."""


@dataclass(frozen=True)
class Ending:
    """`stuck`: threads or stores are left over; `proof` of a deadlock; `running`: who was stopped as it ran on."""

    stuck: bool
    proof: tuple[BlockedThread, ...] = ()
    running: tuple[BlockedThread, ...] = ()


class _OutOfTime(Exception):
    """The host waits no longer."""


def run_to_the_end(engine: Engine, devices: Sequence[LaunchQueue], join_ns: float) -> Ending:
    """Runs all events. When only parked threads remain nothing can wake them: that proves the deadlock, time jumps to
    the deadline, and the kernels give up by themselves. At `join_ns` the host ends what still runs. Nothing is left
    over in the engine afterwards."""
    proof: tuple[BlockedThread, ...] = ()
    engine.alarm(join_ns, _give_up)
    engine.checkup = _Checkup(engine)
    try:
        engine.drain()
        while engine.live:
            if not proof:
                _look_again(engine)
                if not engine.live:
                    break
                proof = proved(engine, devices)
            parked = engine.parked_threads()
            deadline = min((thread.block.deadline_ns for thread in parked), default=inf)
            if deadline == inf:
                break  # nobody has a deadline: on hardware only the host's join timeout ends this
            engine.now = max(engine.now, deadline + 1)
            for thread, poll in parked.items():
                if thread.block.deadline_ns <= engine.now:
                    engine.unpark(thread, poll, engine.now)
            engine.drain()
        if engine.never:  # threads may have ended whose stores are still on their way
            proof = proof or proved(engine, devices)
        return Ending(bool(engine.live or engine.never), proof)
    except _OutOfTime:
        return Ending(True, proof, running(engine, devices))
    finally:
        engine.abandon()
        for device in devices:
            device.abandon()


def _give_up() -> None:
    raise _OutOfTime


def _look_again(engine: Engine) -> None:
    """Lets every parked thread whose loop looks at more than one word look for a while, until all are parked again at
    what they were parked at."""
    for _ in range(TRIES):
        before = _seen(engine)
        for thread, poll in engine.parked_threads().items():
            if not all(each.op.alone for each in thread.parked):
                thread.unabridged = LOOKS_FOR_PROOF
                engine.unpark(thread, poll, engine.now)
        engine.drain()
        if _seen(engine) == before:
            return


def _seen(engine: Engine) -> dict[Thread, dict[int, object]]:
    return {thread: {each.address: each.value for each in thread.parked} for thread in engine.parked_threads()}


class _Checkup:
    """Stretches time where threads only spin: as if all of them stood still for as long as nothing has changed so far.
    Those that look at a timer see their deadline soon, and the host's comes for the others. Whatever else is on its way
    comes when it would have come."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.last: tuple[int, int] | None = None
        self.since = 0.0
        self.dull = 0

    def __call__(self) -> int:
        checksum = 0
        for segment in self.engine.memory.segments.values():
            checksum = zlib.crc32(segment.raw[:], checksum)  # a broken one has no buffer of its own
        now = self.engine.live, checksum
        self.dull = self.dull + 1 if now == self.last else 0
        if not self.dull:
            self.last, self.since = now, self.engine.now
        elif self.dull >= DULL_CHECKUPS:
            self.engine.postpone(self.engine.now - self.since)
            return CHECKUP_EVENTS // 10
        return CHECKUP_EVENTS
