"""The history of memory in random order: each store is a message, which others come to see at times of their own.

A location is 8 aligned bytes; a message carries what all of them hold from then on, and the piece of them that was
written. The messages of a location stand in the order in which the engine performed the stores. Must not know the
engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pcietool.emulator.order.views import Agent, Observer, Sources

if TYPE_CHECKING:
    from pcietool.emulator.ops import Op

LOCATION_BYTES = 8


def piece_of(address: int, nbytes: int) -> int:
    """Some bytes of one location, as one number."""
    return address << 4 | nbytes


def address_of(piece: int) -> int:
    return piece >> 4


def overlap(a: int, b: int) -> bool:
    """Do two pieces share bytes?"""
    return a >> 4 < (b >> 4) + (b & 15) and b >> 4 < (a >> 4) + (a & 15)


def pieces(offset: int, nbytes: int) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of the part of each location that these bytes cover."""
    at, end = offset, offset + nbytes
    while at < end:
        size = min(end, (at // LOCATION_BYTES + 1) * LOCATION_BYTES) - at
        yield at, size
        at += size


class Access(NamedTuple):
    """One read or write: by whom, in which epoch, how, and by which instruction (or, of the host, by what)."""

    agent: Agent
    epoch: int
    strong: bool
    scope: int
    source: Op | str

    def morally_strong(self, piece: int, other: Access, others_piece: int) -> bool:
        """Do the two synchronise with each other?"""
        if self.agent is other.agent:
            return True
        return (
            self.strong
            and other.strong
            and piece == others_piece
            and self.agent.contains(other.agent, min(self.scope, other.scope))
        )


class Message:
    """One store. `visible_ns`: from when on each GPU sees it, or nothing if all do at once; `settled_ns`: from when on
    all do. `value`: of the whole location, and `changed` the bits that differ from before. `access` is None for what
    was there before the launch. `together`: all messages of a vector that is seen as a whole."""

    __slots__ = ("access", "changed", "piece", "rank", "settled_ns", "sources", "together", "value", "visible_ns")

    def __init__(
        self, rank: int, value: int, piece: int, access: Access | None, visible_ns: Sequence[float], sources: Sources
    ) -> None:
        self.rank = rank
        self.value = value
        self.piece = piece
        self.access = access
        self.visible_ns = visible_ns
        self.settled_ns = max(visible_ns, default=0.0)
        self.sources = sources
        self.changed = 0
        self.together: Sequence[Message] = ()

    def is_visible(self, device: int, now: float) -> bool:
        return self.settled_ns <= now or self.visible_ns[device] <= now

    def part(self, piece: int) -> int:
        """The value of one piece of the location."""
        return _part(self.value, piece)

    def changes(self, piece: int) -> bool:
        """Did the store change what is in this piece?"""
        return _part(self.changed, piece) != 0


def _part(value: int, piece: int) -> int:
    shift = (piece >> 4) % LOCATION_BYTES * 8
    return value >> shift & (1 << (piece & 15) * 8) - 1


class Location:
    """`messages`: those that somebody may still read, the newest last; `initial`: the first of all. `newest`: the
    newest of each piece. `reads`: the latest read since the last write, by agent number, instruction and piece."""

    __slots__ = ("initial", "messages", "newest", "reads")

    def __init__(self, whole: int, value: int) -> None:
        self.initial = Message(0, value, whole, None, (), {})
        self.messages = [self.initial]
        self.newest: dict[int, Message] = {}
        self.reads: dict[tuple[int, Op | str, int], Access] = {}

    def readable(self, observer: Observer, piece: int, now: float) -> Message:
        """The newest message that this agent must see, or that its device has come to see."""
        newest, device = self.messages[-1], observer.agent.writer[0]
        if overlap(piece, newest.piece) and newest.is_visible(device, now):
            return newest
        seen = observer.rank_seen(piece)
        return next(
            message
            for message in self._from_newest(piece)
            if (access := message.access) is None
            or message.rank <= seen
            or message.is_visible(device, now)
            or observer.knows(access.agent, access.epoch)
        )

    def choices(self, observer: Observer, piece: int) -> list[Message]:
        """The newest message, and all older ones that are remembered, down to what this agent must see."""
        found = []
        for message in self._from_newest(piece):
            found.append(message)
            if message.access is None or observer.knows(message.access.agent, message.access.epoch):
                break
        return found

    def oldest(self, observer: Observer, piece: int) -> Message:
        """What this agent must see, or has always been there."""
        last = self.choices(observer, piece)[-1]
        known = last.access is None or observer.knows(last.access.agent, last.access.epoch)
        return last if known else self.initial

    def latest(self, piece: int) -> Message:
        return next(self._from_newest(piece))

    def _from_newest(self, piece: int) -> Iterator[Message]:
        return (message for message in reversed(self.messages) if overlap(piece, message.piece))

    def append(self, message: Message, now: float) -> None:
        """Forgets what nobody can read any more: what is older than a message that all see, of the same piece."""
        self.newest[message.piece] = message
        kept: list[Message] = []
        replaced: set[int] = set()
        for each in (message, *reversed(self.messages)):
            if each.piece not in replaced:
                kept.append(each)
                if each.settled_ns <= now:
                    replaced.add(each.piece)
        self.messages = kept[::-1]

    def writes_to(self, piece: int) -> Iterator[Message]:
        """The newest message of each piece that shares bytes with this one."""
        return (message for other, message in self.newest.items() if overlap(piece, other))

    def take_reads_of(self, piece: int) -> Iterator[tuple[int, Access]]:
        """Reads, with their pieces, that a write to this piece ends."""
        for key in [key for key in self.reads if overlap(piece, key[2])]:
            yield key[2], self.reads.pop(key)
