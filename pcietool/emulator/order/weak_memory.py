"""Memory in random order: loads, stores and read-modify-writes, and the check whether anything orders them.

A load returns the newest store that its thread must see, or that its GPU has come to see; when that is, the seed
decides. The rules, by their numbers in docs/memory-model.md, say what a thread must see. Time is the engine's: stores
join the history of their location when they land there. Shared memory is watched too, but each access is in place. Must
not know what synchronises (`random_order`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from pcietool.contract.outcomes import Effect
from pcietool.emulator.engine.core import GRANULE, Core
from pcietool.emulator.engine.threads import Thread
from pcietool.emulator.memory import HOST, Memory, Place, Segment, Writer
from pcietool.emulator.ops import Op, Write
from pcietool.emulator.order.history import LOCATION_BYTES, Access, Location, Message, address_of, overlap, piece_of
from pcietool.emulator.order.non_coherent import NON_COHERENT
from pcietool.emulator.order.shared_memory import SharedMemory, is_shared
from pcietool.emulator.order.timing_order import TimingOrder
from pcietool.emulator.order.unordered import Report
from pcietool.emulator.order.views import Agent, Observer, Sources, View

SYS = 2
LATE = 0.5
"""Share of stores that some GPUs come to see late, and by how much at most, from when the store has landed."""
LATE_NS = 4000.0
LATE_AT_HOME_NS = 1000.0
"""The same for the GPU that stores."""
LATE_IN_PROXY_NS = 2000.0
"""How long bulk copies may not see a store to shared memory that no proxy fence has shown them."""


NOBODY = Agent(-1, "nobody", (-1, -1, -1))


class IssuedWrite(NamedTuple):
    """A store on its way: who makes it, what it knows, and what it hands on, by element. Of a bulk copy: the thread
    that issued it, and the copy's other end, which is in shared memory."""

    access: Access
    observer: Observer
    view: View
    sources: tuple[Sources, ...]
    issuer: Observer | None = None
    shared: IssuedWrite | None = None


class WeakMemory(TimingOrder):
    """What everybody has read and written in one round."""

    shared_lag_ns = 50.0

    def __init__(self, engine: Core, seed: int, *, tear: bool = False) -> None:
        """`tear`: the elements of a vector may always be seen one by one, which is all that PTX promises."""
        self.engine = engine
        spec = engine.fabric.spec
        self.whole = {home: 0 if tear else spec.vector_bytes_whole(home) for home in (HOST, *range(spec.gpu.count))}
        """Up to how many bytes a vector in that memory is seen as a whole."""
        self.rng = random.Random(f"memory order {seed}")
        self.devices = engine.gpu.count
        self.locations: dict[int, Location] = {}
        self.shared = SharedMemory()
        self.report = Report(lambda address: self.shared.describe(address) or engine.memory.describe(address))
        self.at_once = (0.0,) * self.devices

    # -- loads --------------------------------------------------------------------------------------------------------

    def peek(self, thread: Thread, op: Op, place: Place) -> Any:
        return _values(op, self._readable(thread.observer, op, place))

    def load(self, thread: Thread, op: Op, place: Place) -> Any:
        observer, segment = thread.observer, place[0]
        access = _access(observer, op)
        if op.count == 1 and op.coherent:  # most of them
            piece = piece_of(segment.address + place[1], op.size)
            location = self._location(*place)
            message = location.readable(observer, piece, self.engine.now)
            self._check_read(observer, access, location, piece, message)
            self._observe(observer, access, piece, message)
            if op.acquire:
                observer.acquire(observer.pending.get(piece, {}), op.scope)
            return message.part(piece)
        taken = self._readable(observer, op, place)
        if not op.coherent:
            return _values(op, [self._load_non_coherent(thread, access, piece, newest) for piece, newest in taken])
        for piece, message in taken:
            location = self._location(segment, address_of(piece) - segment.address)
            self._check_read(observer, access, location, piece, message)
            self._observe(observer, access, piece, message)
            if op.acquire:
                observer.acquire(observer.pending.get(piece, {}), op.scope)
        return _values(op, taken)

    def watch_non_coherent(self, memory: Memory) -> None:
        """All is watched."""

    def _load_non_coherent(self, thread: Thread, access: Access, piece: int, newest: Message) -> tuple[int, Message]:
        """Of what was written since its launch began, or has nothing to do with that launch, it may see anything."""
        location = self.locations[piece >> 4 >> 3]
        at_start = Observer(NOBODY, thread.block.view)
        taken = self.rng.choice((newest, location.oldest(at_start, piece)))
        for message in location.writes_to(piece):
            written = message.access
            assert written is not None
            if not at_start.knows(written.agent, written.epoch):
                missed = message.rank > taken.rank and message.part(piece) != taken.part(piece)
                effect: Effect = "old value" if missed else "either value"
                self.report.add("read", access, piece, written, message.piece, effect, NON_COHERENT)
        return piece, taken

    def _readable(self, observer: Observer, op: Op, place: Place) -> list[tuple[int, Message]]:
        """The pieces of a load, and the message that it takes of each."""
        segment, offset = place
        taken = [self._newest(observer, segment, offset + n * op.size, op.size) for n in range(op.count)]
        while op.count > 1 and _completed(taken):
            pass
        return taken

    def _newest(self, observer: Observer, segment: Segment, offset: int, nbytes: int) -> tuple[int, Message]:
        piece = piece_of(segment.address + offset, nbytes)
        return piece, self._location(segment, offset).readable(observer, piece, self.engine.now)

    def _observe(self, observer: Observer, access: Access, piece: int, message: Message) -> bool:
        """Rule 4, once a message was chosen. Is it morally strong with the access?"""
        written = message.access
        if written is None or not access.morally_strong(piece, written, message.piece):
            return False
        if access.strong and message.sources:  # even of what it has seen: others may have told it, who acquired nothing
            observer.expect(piece, message.sources)
        if written.agent is not observer.agent and message.rank > observer.rank_seen(piece):
            observer.newly_seen[piece] = message.rank
        return True

    def _check_read(
        self,
        observer: Observer,
        access: Access,
        location: Location,
        piece: int,
        taken: Message,
        issuer: Observer | None = None,
    ) -> None:
        """`issuer`: of a copy, as what it knows itself is what the proxy does."""
        for message in location.writes_to(piece):
            written = message.access
            assert written is not None
            if (
                not observer.knows(written.agent, written.epoch)
                and not access.morally_strong(piece, written, message.piece)
                and message.rank > observer.rank_seen(message.piece)
            ):
                missed = message.rank > taken.rank and message.part(piece) != taken.part(piece)
                effect: Effect = "old value" if missed else "either value" if message.changes(piece) else "none"
                self.report.add("read", access, piece, written, message.piece, effect, _only_proxy(issuer, written))
        location.reads[access.agent.number, access.source, piece] = access

    def _location(self, segment: Segment, offset: int) -> Location:
        number = segment.address + offset >> 3
        location = self.locations.get(number)
        if location is None:
            location = self.locations[number] = Location(piece_of(number << 3, LOCATION_BYTES), _value(segment, offset))
        return location

    # -- stores -------------------------------------------------------------------------------------------------------

    def stamp(self, thread: Thread, op: Op, place: Place) -> IssuedWrite:
        return self._issue(thread.observer, op, place, {})

    def _issue(self, observer: Observer, op: Op, place: Place, inherited: Sources) -> IssuedWrite:
        """Rule 7."""
        sources: tuple[Sources, ...] = ({},) * op.count
        if op.strong:
            segment, offset = place
            released = op.scope if op.release else None
            pieces = (piece_of(segment.address + offset + n * op.size, op.size) for n in range(op.count))
            sources = tuple(observer.sources_of(piece, released, inherited) for piece in pieces)
        return IssuedWrite(_access(observer, op), observer, observer.view, sources)

    def write(self, write: Write, stamp: IssuedWrite | None) -> None:
        """`stamp` is None for a compare-and-swap that was refused where atomics are native: it writes nothing."""
        if stamp is None:
            return
        op, (segment, offset), value = write
        elements = list(enumerate((value,) if op.count == 1 else value))
        if op.count > 1 and op.bytes <= self.whole[segment.device]:
            self._write_whole(elements, op, segment, offset, stamp)
        else:
            self.rng.shuffle(elements)  # a vector that is not whole is its scalars, in any order
            for n, element in elements:
                at = offset + n * op.size
                location = self._location(segment, at)
                segment.views[op.size][at // op.size] = element
                self._append(location, segment, at, op.size, stamp, stamp.sources[n], self._visibility(segment, stamp))
        segment.writers[offset] = stamp.access.agent.writer

    def _write_whole(
        self, elements: list[tuple[int, int]], op: Op, segment: Segment, offset: int, stamp: IssuedWrite
    ) -> None:
        """All elements of a vector, for all to see at the same time."""
        locations = [self._location(segment, offset + n * op.size) for n, _ in elements]
        for n, element in elements:
            segment.views[op.size][offset // op.size + n] = element
        visible_ns = self._visibility(segment, stamp)
        messages = [
            self._append(locations[n], segment, offset + n * op.size, op.size, stamp, stamp.sources[n], visible_ns)
            for n, _ in elements
        ]
        for message in messages:
            message.together = messages

    def writer(self, stamp: IssuedWrite) -> Writer:
        return stamp.access.agent.writer

    def _append(
        self,
        location: Location,
        segment: Segment,
        offset: int,
        nbytes: int,
        stamp: IssuedWrite,
        sources: Sources,
        visible_ns: Sequence[float],
    ) -> Message:
        """Memory holds the new value already."""
        access, now = stamp.access, self.engine.now
        piece = piece_of(segment.address + offset, nbytes)
        before = location.messages[-1]
        message = Message(before.rank + 1, _value(segment, offset), piece, access, visible_ns, sources)
        message.changed = message.value ^ before.value
        if (overwritten := location.newest.get(piece)) is not None:
            message.together = overwritten.together  # who sees this element is behind that whole vector
        if is_shared(segment):
            message.settled_ns = now + LATE_IN_PROXY_NS
        self._check_write(location, piece, stamp, message)
        location.append(message, now)
        for time in visible_ns:
            if time > now:
                self.engine.at(time, self._came_to_be_seen, address_of(piece) >> GRANULE)
        return message

    def _visibility(self, segment: Segment, stamp: IssuedWrite) -> Sequence[float]:
        """Of a new message, by device; half of them see it at once. Nothing if all do."""
        if is_shared(segment):
            return self.at_once
        if self.rng.random() >= LATE:
            return ()
        writer = stamp.access.agent.writer[0]
        late = (max(0.0, 2 * self.rng.random() - 1) for _ in range(self.devices))
        return [
            self.engine.now + share * (LATE_AT_HOME_NS if device == writer else LATE_NS)
            for device, share in enumerate(late)
        ]

    def _came_to_be_seen(self, granule: int, _: None) -> None:
        if granule in self.engine.watched:
            self.engine.changed(granule)

    def _check_write(self, location: Location, piece: int, stamp: IssuedWrite, new: Message) -> None:
        access, observer, view, issuer = stamp.access, stamp.observer, stamp.view, stamp.issuer
        for message in location.writes_to(piece):
            written = message.access
            assert written is not None
            if (
                not access.morally_strong(piece, written, message.piece)
                and view.clock.get(written.agent.number, 0) < written.epoch
                and message.rank > observer.rank_seen(message.piece)
            ):
                effect: Effect = "either value" if new.changes(message.piece) else "none"
                self.report.add(
                    "overwrite", access, piece, written, message.piece, effect, _only_proxy(issuer, written)
                )
        for others_piece, read in location.take_reads_of(piece):
            if (
                not access.morally_strong(piece, read, others_piece)
                and view.clock.get(read.agent.number, 0) < read.epoch
            ):
                self.report.add("overwrite", access, piece, read, others_piece, "none", _only_proxy(issuer, read))

    def begin_modify(self, thread: Thread, op: Op, place: Place, b: int) -> tuple[int, IssuedWrite | None]:
        """Rule 8: reads the newest message."""
        observer, (segment, offset) = thread.observer, place
        piece = piece_of(segment.address + offset, op.size)
        location = self._location(segment, offset)
        message, access = location.latest(piece), _access(observer, op)
        old = message.part(piece)
        is_synchronised = self._observe(observer, access, piece, message)
        if op.acquire:
            observer.acquire(observer.pending.get(piece, {}), op.scope)
        if op.kind == "cas" and old != b:
            self._check_read(observer, access, location, piece, message)
            if self.engine.fabric.is_native(observer.agent.writer[0], segment.device):
                return old, None
            # Written back all the same (rule 14), but PTX knows of no write: it hands on what it read, nothing else.
            return old, IssuedWrite(access, observer, observer.view, (message.sources,))
        return old, self._issue(observer, op, place, message.sources if is_synchronised else {})

    # -- shared memory ------------------------------------------------------------------------------------------------

    def load_shared(self, thread: Thread, op: Op, address: int) -> Any:
        return self.load(thread, op, self.shared.find(thread.block, op, address))

    def store_shared(self, thread: Thread, op: Op, address: int, value: Any) -> None:
        place = self.shared.find(thread.block, op, address)
        self.write((op, place, value), self.stamp(thread, op, place))

    def modify_shared(self, thread: Thread, op: Op, address: int, b: int, c: int) -> int:
        place = self.shared.find(thread.block, op, address)
        old, stamp = self.begin_modify(thread, op, place, b)
        assert op.modify is not None
        self.write((op, place, op.modify(old, b, c)), stamp)
        return old


def _only_proxy(issuer: Observer | None, access: Access) -> str:
    """What to do if the access was ordered before the instruction that began a copy."""
    known = issuer is not None and (issuer.agent is access.agent or issuer.knows(access.agent, access.epoch))
    return "fence.proxy.async between the two" if known else ""


def _access(observer: Observer, op: Op) -> Access:
    return Access(observer.agent, observer.agent.epoch, op.strong, op.scope, op)


def _values(op: Op, taken: list[tuple[int, Message]]) -> int | tuple[int, ...]:
    values = tuple(message.part(piece) for piece, message in taken)
    return values[0] if op.count == 1 else values


def _completed(taken: list[tuple[int, Message]]) -> bool:
    """Was an element older than a store of several elements of which another one was taken? Takes it from that, too."""
    for _, message in taken:
        for other in message.together:
            for n, (piece, older) in enumerate(taken):
                if overlap(piece, other.piece) and older.rank < other.rank:
                    taken[n] = piece, other
                    return True
    return False


def _value(segment: Segment, offset: int) -> int:
    """Of all bytes of the location that holds `offset`."""
    start = offset // LOCATION_BYTES * LOCATION_BYTES
    return int.from_bytes(segment.raw[start : start + LOCATION_BYTES], "little")
