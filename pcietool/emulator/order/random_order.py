"""Random memory order: weak outcomes by seed, and a report of every access that nothing orders.

A load returns the newest store that its thread must see, or that its GPU has come to see; when that is, the seed
decides. The rules, by their numbers in docs/memory-model.md, say what a thread must see. Time is the engine's: stores
join the history of their location when they land there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pcietool.contract.outcomes import UnorderedAccess
from pcietool.emulator.engine.core import GRANULE, Core
from pcietool.emulator.engine.threads import Thread
from pcietool.emulator.memory import HOST, Place, Segment, Writer
from pcietool.emulator.ops import Op, Write
from pcietool.emulator.order.history import LOCATION_BYTES, Access, Location, Message, address_of, overlap, piece_of
from pcietool.emulator.order.schedule import Schedule
from pcietool.emulator.order.timing_order import Handlers, TimingOrder
from pcietool.emulator.order.unordered import Report
from pcietool.emulator.order.views import NOTHING, Agent, Observer, Sources, View, join, keep_latest, meet

SYS = 2
LATE = 0.5
"""Share of stores that some GPUs come to see late, and by how much at most, from when the store has landed."""
LATE_NS = 4000.0
LATE_AT_HOME_NS = 1000.0
"""The same for the GPU that stores."""


class IssuedWrite(NamedTuple):
    """A store on its way: who makes it, what it knows, and what it hands on, by element."""

    access: Access
    observer: Observer
    view: View
    sources: tuple[Sources, ...]


class RandomOrder(TimingOrder):
    """One execution a seed."""

    def __init__(self, engine: Core, seed: int, *, tear: bool = False) -> None:
        """`tear`: the elements of a vector may always be seen one by one, which is all that PTX promises."""
        self.engine = engine
        spec = engine.fabric.spec
        self.whole = {home: 0 if tear else spec.vector_bytes_whole(home) for home in (HOST, *range(spec.gpu.count))}
        """Up to how many bytes a vector in that memory is seen as a whole."""
        self.rng = random.Random(f"memory order {seed}")
        self.schedule = Schedule(engine, seed)
        self.devices = engine.gpu.count
        self.report = Report(engine.memory)
        self.locations: dict[int, Location] = {}
        self.agents: dict[tuple[Writer, object], Agent] = {}
        self.fences: dict[tuple[int, Agent], View] = {}
        """Of every fence.sc so far."""
        self.launched: dict[int, View] = {}
        self.ended: dict[int, list[Observer]] = {}
        """By device, since its last launch began."""

    # -- loads --------------------------------------------------------------------------------------------------------

    def peek(self, thread: Thread, op: Op, place: Place) -> Any:
        return _values(op, self._readable(thread.observer, op, place))

    def load(self, thread: Thread, op: Op, place: Place) -> Any:
        observer, segment = thread.observer, place[0]
        access = _access(observer, op)
        taken = self._readable(observer, op, place)
        for piece, message in taken:
            self._check_read(observer, access, self._location(segment, address_of(piece) - segment.address), piece)
            self._observe(observer, access, piece, message)
            if op.acquire:
                observer.acquire(observer.pending.get(piece, {}), op.scope)
        return _values(op, taken)

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

    def _check_read(self, observer: Observer, access: Access, location: Location, piece: int) -> None:
        for message in location.writes_to(piece):
            written = message.access
            assert written is not None
            if (
                not access.morally_strong(piece, written, message.piece)
                and not observer.knows(written.agent, written.epoch)
                and message.rank > observer.rank_seen(message.piece)
            ):
                self.report.add("read", access, piece, written)
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
                self._append(location, segment, at, op.size, stamp, stamp.sources[n], self._visibility(stamp))
        segment.writers[offset] = stamp.access.agent.writer

    def _write_whole(
        self, elements: list[tuple[int, int]], op: Op, segment: Segment, offset: int, stamp: IssuedWrite
    ) -> None:
        """All elements of a vector, for all to see at the same time."""
        locations = [self._location(segment, offset + n * op.size) for n, _ in elements]
        for n, element in elements:
            segment.views[op.size][offset // op.size + n] = element
        visible_ns = self._visibility(stamp)
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
        self._check_write(location, piece, stamp)
        rank = location.messages[-1].rank + 1
        message = Message(rank, _value(segment, offset), piece, access, visible_ns, sources)
        location.append(message, now)
        for time in visible_ns:
            if time > now:
                self.engine.at(time, self._came_to_be_seen, address_of(piece) >> GRANULE)
        return message

    def _visibility(self, stamp: IssuedWrite) -> Sequence[float]:
        """Of a new message, by device; half of them see it at once. Nothing if all do."""
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

    def _check_write(self, location: Location, piece: int, stamp: IssuedWrite) -> None:
        access, observer, view = stamp.access, stamp.observer, stamp.view
        for message in location.writes_to(piece):
            written = message.access
            assert written is not None
            if (
                not access.morally_strong(piece, written, message.piece)
                and view.clock.get(written.agent.number, 0) < written.epoch
                and message.rank > observer.rank_seen(message.piece)
            ):
                self.report.add("overwrite", access, piece, written)
        for others_piece, read in location.take_reads_of(piece):
            if (
                not access.morally_strong(piece, read, others_piece)
                and view.clock.get(read.agent.number, 0) < read.epoch
            ):
                self.report.add("overwrite", access, piece, read)

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
            self._check_read(observer, access, location, piece)
            if self.engine.fabric.is_native(observer.agent.writer[0], segment.device):
                return old, None
            # Written back all the same (rule 14), but PTX knows of no write: it hands on what it read, nothing else.
            return old, IssuedWrite(access, observer, observer.view, (message.sources,))
        return old, self._issue(observer, op, place, message.sources if is_synchronised else {})

    # -- copies, and agents that are no threads -----------------------------------------------------------------------

    def begin_copy(self, thread: Thread, op: Op, barrier: int | None = None) -> IssuedWrite:
        """Rule 13. The copies of a thread that complete in their order are one agent."""
        agent = self._agent(thread.writer, f"bulk copy of {thread}", ("copies", barrier))
        observer = Observer(agent, thread.observer.view.proxied or NOTHING)
        agent.epoch += 1
        return IssuedWrite(Access(agent, agent.epoch, False, SYS, op), observer, observer.view, ())

    def copy_done(self, stamp: IssuedWrite) -> View:
        return View({stamp.access.agent.number: stamp.access.epoch}, {}, None).fenced()

    def outside(self, name: str, device: int, *, strong: bool) -> IssuedWrite:
        agent = self._agent((device, -1, -1), name, name)
        observer = Observer(agent, NOTHING)
        sources = {(SYS, agent): observer.share()} if strong else {}
        return IssuedWrite(Access(agent, agent.epoch, strong, SYS, name), observer, observer.view, (sources,))

    def read_bytes(self, segment: Segment, offset: int, nbytes: int, stamp: IssuedWrite) -> bytes:
        data = bytearray()
        for at, size in _pieces(offset, nbytes):
            piece, message = self._newest(stamp.observer, segment, at, size)
            self._check_read(stamp.observer, stamp.access, self._location(segment, at), piece)
            data += message.part(piece).to_bytes(size, "little")
        return bytes(data)

    def write_bytes(self, segment: Segment, offset: int, data: bytes, stamp: IssuedWrite) -> None:
        for at, size in _pieces(offset, len(data)):
            location = self._location(segment, at)
            segment.raw[at : at + size] = data[at - offset : at - offset + size]
            sources = stamp.sources[0] if stamp.sources else {}
            self._append(location, segment, at, size, stamp, sources, self._visibility(stamp))
        segment.writers[offset] = stamp.access.agent.writer

    # -- synchronisation ----------------------------------------------------------------------------------------------

    def fence(self, thread: Thread, op: Op) -> None:
        """Rules 9, 10 and 13."""
        observer = thread.observer
        if op.kind == "proxy":
            if not op.instruction.has("shared::cta"):
                observer.view = observer.share().fenced()
            return
        if op.kind != "release":
            observer.acquire_pending(op.scope)
        if op.kind == "acquire":
            return
        if op.kind == "sc":
            observer.acquire(self.fences, op.scope)
        view = observer.fenced[op.scope] = observer.share()
        if op.kind == "sc":
            keep_latest(self.fences, (op.scope, observer.agent), view)

    def give(self, thread: Thread) -> View:
        return thread.observer.share()

    def take(self, thread: Thread, given: Iterable[View]) -> None:
        thread.observer.take(join(given))

    def meet(self, threads: Iterable[Thread], given: Iterable[View] = ()) -> None:
        """Rule 11."""
        meet([thread.observer for thread in threads], given)

    # -- launches -----------------------------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Rule 12: the past needs no history any more."""
        self.locations.clear()
        self.fences.clear()
        self.launched.clear()
        self.ended.clear()
        self.report.take()
        self.schedule.begin_round()

    def scheduled(self, handlers: Handlers) -> Handlers:
        return tuple(self.schedule.stopping(handler) for handler in handlers)

    def launch_delay_ns(self) -> float:
        return self.schedule.launch_delay_ns()

    def starts(self, threads: list[Thread]) -> Iterable[tuple[float, list[Thread]]]:
        return self.schedule.starts(threads)

    def begin_grid(self, device: int) -> View:
        before = self.launched.get(device, NOTHING)
        self.launched[device] = view = meet(self.ended.pop(device, []), (before,)).fenced()
        return view

    def begin(self, thread: Thread) -> None:
        thread.observer = Observer(self._agent(thread.writer, str(thread), "thread"), thread.block.view)
        self.schedule.begin(thread)

    def end(self, thread: Thread) -> None:
        self.ended.setdefault(thread.block.device.index, []).append(thread.observer)

    def unordered(self) -> tuple[UnorderedAccess, ...]:
        return self.report.take()

    def _agent(self, writer: Writer, name: str, kind: object) -> Agent:
        key = (writer, kind)
        if key not in self.agents:
            self.agents[key] = Agent(len(self.agents), name, writer)
        return self.agents[key]


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


def _pieces(offset: int, nbytes: int) -> Iterable[tuple[int, int]]:
    """(offset, bytes) of the part of each location that these bytes cover."""
    at, end = offset, offset + nbytes
    while at < end:
        size = min(end, (at // LOCATION_BYTES + 1) * LOCATION_BYTES) - at
        yield at, size
        at += size
