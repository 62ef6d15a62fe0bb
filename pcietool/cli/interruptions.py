"""SIGTERM and SIGHUP end a run as Ctrl-C does: CI jobs, `timeout` and closed terminals send them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """Such a signal came; its name is the message."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises Terminated inside when a signal comes. One that is ignored, as by nohup, stays ignored."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated(signal.Signals(number).name)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
