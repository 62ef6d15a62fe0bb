"""One emulated thread, and its poll when it is parked. Data only; the engine runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcietool.emulator.memory import Place, Writer
from pcietool.emulator.ops import Op
from pcietool.emulator.order.timing import Stamp
from pcietool.emulator.order.views import Observer
from pcietool.emulator.translate.lower import ThreadGenerator
from pcietool.errors import EmulationError

if TYPE_CHECKING:
    from pcietool.emulator.engine.grids import Block

BLOCKED: Final = object()
"""A handler's answer when the thread goes on later."""
Poll = tuple[Any, float, Op, Place]
"""What a poll saw last: (value, when it was asked, by which load, where)."""


class Group:
    """Bulk copies committed together: when all have read their source, and when all are done."""

    __slots__ = ("copies", "done", "read")

    def __init__(self) -> None:
        self.read = 0.0
        self.done = 0.0
        self.copies: list[Stamp] = []


class Thread:
    """`lag`: ns it has run ahead of the clock. `polls`: what the wait loop `poll_loop` saw last, by address."""

    __slots__ = (
        "block",
        "generator",
        "groups",
        "lag",
        "observer",
        "parked",
        "pending",
        "poll_loop",
        "polls",
        "send",
        "tid",
        "writer",
    )

    def __init__(self, block: Block, tid: int) -> None:
        self.block = block
        self.tid = tid
        self.writer: Writer = (block.device.index, block.index, tid)
        """What a word remembers of who stored it."""
        self.lag = 0.0
        self.poll_loop: int | None = None
        self.polls: dict[int, Poll] = {}
        self.parked: list[Parked] = []
        self.pending: tuple[Op, int]
        """The load, and its address, that a parked thread goes on with."""
        self.observer: Observer
        """What it has seen; only in random memory order."""
        self.groups: list[Group] = [Group()]
        """Bulk copies not known to be done; the last group is not committed yet."""

    def start(self, generator: ThreadGenerator) -> None:
        self.generator = generator
        self.send = generator.send

    def error(self, error: Exception) -> EmulationError:
        """The same error with the thread, and the instruction at which it is."""
        return self.block.grid.lowered.error_at(self, self.generator, error)

    def __str__(self) -> str:
        return f"GPU {self.block.device.index} block {self.block.index} thread {self.tid}"


class Parked:
    """A poll that is not emulated until its word changes: asked first at `at`, again every `period` ns."""

    __slots__ = ("address", "at", "op", "period", "place", "thread", "value")

    def __init__(self, thread: Thread, address: int, poll: Poll, period: float) -> None:
        self.thread = thread
        self.address = address
        self.value, self.at, self.op, self.place = poll
        self.period = period
