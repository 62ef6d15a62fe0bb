"""Random memory order: weak outcomes by seed, and a report of every access that nothing orders.

What synchronises threads, copies and launches, by the rules of docs/memory-model.md; what they read and write is
`weak_memory`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pcietool.contract.outcomes import UnorderedAccess
from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.threads import Block, Thread
from pcietool.emulator.memory import Segment, Writer
from pcietool.emulator.ops import Op
from pcietool.emulator.order.history import Access, pieces
from pcietool.emulator.order.schedule import Schedule
from pcietool.emulator.order.shared_memory import is_shared
from pcietool.emulator.order.timing_order import Handlers
from pcietool.emulator.order.views import NOTHING, Agent, Observer, View, join, keep_latest, meet
from pcietool.emulator.order.weak_memory import SYS, IssuedWrite, WeakMemory


class RandomOrder(WeakMemory):
    """One execution a seed."""

    def __init__(self, engine: Core, seed: int, *, tear: bool = False) -> None:
        """`tear`: the elements of a vector may always be seen one by one, which is all that PTX promises."""
        super().__init__(engine, seed, tear=tear)
        self.schedule = Schedule(engine, seed)
        self.agents: dict[tuple[Writer, object], Agent] = {}
        self.fences: dict[tuple[int, Agent], View] = {}
        """Of every fence.sc so far."""
        self.launched: dict[tuple[int, int], View] = {}
        self.ended: dict[tuple[int, int], list[tuple[int, Observer]]] = {}
        """By device and stream, each with the number of its launch, until a later one knows of it."""

    # -- copies, and agents that are no threads -----------------------------------------------------------------------

    def begin_copy(self, thread: Thread, op: Op, barrier: int | None = None) -> IssuedWrite:
        """Rule 13. The copies of a thread that complete in their order are one agent; their ends in shared memory
        another, which may be done earlier."""
        view = thread.observer.view
        shared = self._copy(thread, op, ("shared", barrier), view.shared_proxied or NOTHING)
        return self._copy(thread, op, ("copies", barrier), view.proxied or NOTHING)._replace(shared=shared)

    def _copy(self, thread: Thread, op: Op, kind: object, view: View) -> IssuedWrite:
        agent = self._agent(thread.writer, f"bulk copy of {thread}", kind)
        agent.copies = True
        agent.epoch += 1
        access = Access(agent, agent.epoch, False, SYS, op)
        issuer = Observer(thread.observer.agent, thread.observer.view)
        return IssuedWrite(access, Observer(agent, view), view, (), issuer)

    def begin_fetch(self, thread: Thread, op: Op) -> IssuedWrite:
        """It knows what its thread does, as it needs no proxy; nothing orders it with what the thread does next."""
        agent = self._agent(thread.writer, f"cp.async of {thread}", "fetches")
        agent.fetches = True
        agent.epoch += 1
        access = Access(agent, agent.epoch, False, SYS, op)
        observer = Observer(agent, meet([thread.observer]))
        stamp = IssuedWrite(access, observer, observer.view, ())
        return stamp._replace(shared=stamp)

    def fetch_done(self, stamp: IssuedWrite) -> View:
        return View({stamp.access.agent.number: stamp.access.epoch}, {})

    def copy_done(self, stamp: IssuedWrite) -> View:
        return join([_of_copy(stamp), self.copy_read(stamp)])

    def copy_read(self, stamp: IssuedWrite) -> View:
        assert stamp.shared is not None
        return _of_copy(stamp.shared)

    def outside(self, name: str, device: int, *, strong: bool) -> IssuedWrite:
        agent = self._agent((device, -1, -1), name, name)
        observer = Observer(agent, NOTHING)
        sources = {(SYS, agent): observer.share()} if strong else {}
        return IssuedWrite(Access(agent, agent.epoch, strong, SYS, name), observer, observer.view, (sources,))

    def read_bytes(self, segment: Segment, offset: int, nbytes: int, stamp: IssuedWrite) -> bytes:
        data = bytearray()
        for at, size in pieces(offset, nbytes):
            piece, message = self._newest(stamp.observer, segment, at, size)
            location = self._location(segment, at)
            if is_shared(segment):
                message = self.rng.choice(location.choices(stamp.observer, piece))
            self._check_read(stamp.observer, stamp.access, location, piece, message, stamp.issuer)
            data += message.part(piece).to_bytes(size, "little")
        return bytes(data)

    def read_shared(self, block: Block, offset: int, nbytes: int, stamp: IssuedWrite) -> bytes:
        assert stamp.shared is not None
        return self.read_bytes(self.shared.segment(block), offset, nbytes, stamp.shared)

    def write_shared(self, block: Block, offset: int, data: bytes, stamp: IssuedWrite) -> None:
        assert stamp.shared is not None
        self.write_bytes(self.shared.segment(block), offset, data, stamp.shared)

    def write_bytes(self, segment: Segment, offset: int, data: bytes, stamp: IssuedWrite) -> None:
        for at, size in pieces(offset, len(data)):
            location = self._location(segment, at)
            segment.raw[at : at + size] = data[at - offset : at - offset + size]
            sources = stamp.sources[0] if stamp.sources else {}
            self._append(location, segment, at, size, stamp, sources, self._visibility(segment, stamp))
        segment.writers[offset] = stamp.access.agent.writer

    # -- synchronisation ----------------------------------------------------------------------------------------------

    def fence(self, thread: Thread, op: Op) -> None:
        """Rules 9, 10 and 13."""
        observer = thread.observer
        if op.kind == "proxy":
            observer.view = observer.share().fenced(op.instruction)
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
        self.shared.clear()
        self.schedule.begin_round()

    def scheduled(self, handlers: Handlers) -> Handlers:
        return tuple(self.schedule.stopping(handler) for handler in handlers)

    def launch_delay_ns(self) -> float:
        return self.schedule.launch_delay_ns()

    def starts(self, threads: list[Thread]) -> Iterable[tuple[float, list[Thread]]]:
        return self.schedule.starts(threads)

    def begin_grid(self, device: int, stream: int, number: int, lane: int = 0) -> View:
        where = device, stream
        ended = self.ended.pop(where, [])
        self.ended[where] = [one for one in ended if one[0] >= number]
        before = self.launched.get(where, NOTHING)
        known = [observer for of, observer in ended if of < number]
        self.launched[where] = view = meet(known, (before,)).fenced()
        return view

    def wait_for_launches(self, threads: Iterable[Thread]) -> None:
        views: dict[tuple[int, int, int], View] = {}
        for thread in threads:
            block = thread.block
            where = block.device.index, block.stream, block.number
            if where not in views:
                views[where] = self.begin_grid(*where)
            thread.observer.take(views[where])

    def begin(self, thread: Thread) -> None:
        thread.observer = Observer(self._agent(thread.writer, str(thread), "thread"), thread.block.view)
        self.schedule.begin(thread)

    def end(self, thread: Thread) -> None:
        block = thread.block
        self.ended.setdefault((block.device.index, block.stream), []).append((block.number, thread.observer))

    def unordered(self) -> tuple[UnorderedAccess, ...]:
        return self.report.take()

    def _agent(self, writer: Writer, name: str, kind: object) -> Agent:
        key = (writer, kind)
        if key not in self.agents:
            self.agents[key] = Agent(len(self.agents), name, writer)
        return self.agents[key]


def _of_copy(stamp: IssuedWrite) -> View:
    """What those know who have waited for it, also the async proxy: a copy ends behind a proxy fence."""
    return View({stamp.access.agent.number: stamp.access.epoch}, {}).fenced()
