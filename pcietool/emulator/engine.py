"""Runs emulated threads in virtual time: one legal execution, with the fabric's expected latencies.

Events wait in buckets by time. A thread runs until it asks for something that takes time; requests are served by one
handler each. Time is in ns since the machine was opened. Must not know launches, grids or streams (`grids`), nor
where figures come from (`fabric`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from pcietool.emulator.fabric import Fabric, Route
from pcietool.emulator.lower import SHARED_WINDOW, Lowered, ThreadGenerator
from pcietool.emulator.memory import OFFSET_MASK, Memory, Segment
from pcietool.emulator.ops import Code, Op
from pcietool.errors import EmulationError

if TYPE_CHECKING:
    from pcietool.emulator.grids import Block, DeviceState

BLOCKED: Final = object()
"""A handler's answer when the thread goes on later."""
LAG_LIMIT_NS = 100.0
"""How far a thread may run ahead of the clock before it waits for the others."""
GRANULE = 4
"""Parked polls are found by address >> GRANULE: 16 bytes, the widest single store."""


Poll = tuple[int, float, Op]
"""What a poll saw last: (value, when it was asked, by which load)."""


class Thread:
    """One emulated thread. `lag`: ns it has run ahead of the clock."""

    __slots__ = ("block", "generator", "lag", "parked", "poll_loop", "polls", "send", "tid")

    def __init__(self, block: Block, tid: int) -> None:
        self.block = block
        self.tid = tid
        self.lag = 0.0
        self.poll_loop: int | None = None
        self.polls: dict[int, Poll] = {}
        self.parked: list[Parked] = []

    def start(self, generator: ThreadGenerator) -> None:
        self.generator = generator
        self.send = generator.send

    def __str__(self) -> str:
        return f"GPU {self.block.device.index} block {self.block.index} thread {self.tid}"


class Parked:
    """A poll that is not emulated until its word changes: asked first at `at`, again every `period` ns."""

    __slots__ = ("address", "at", "op", "period", "thread", "value")

    def __init__(self, thread: Thread, op: Op, address: int, value: int, at: float, period: float) -> None:
        self.thread = thread
        self.op = op
        self.address = address
        self.value = value
        self.at = at
        self.period = period


class WordQueue:
    """Read-modify-writes of one device on one word whose home is not native: one at a time at the requester."""

    __slots__ = ("busy", "waiting")

    def __init__(self) -> None:
        self.busy = False
        self.waiting: list[tuple[Thread, Op, int, int]] = []


Event = tuple[Callable[[Any, Any], None], Any, Any]


class Engine:
    """Event queue, request handlers and parked polls of one machine."""

    def __init__(self, memory: Memory, fabric: Fabric, max_events: int) -> None:
        self.memory = memory
        self.fabric = fabric
        self.gpu = fabric.spec.gpu
        self.now = 0.0
        self.buckets: dict[float, list[Event]] = {}
        self.times: list[float] = []
        self.max_events = max_events
        self.events = 0
        self.instructions_hint = 0
        self.watched: dict[int, list[Parked]] = {}
        self.queues: dict[tuple[int, int], WordQueue] = {}
        self.word_free: dict[int, float] = {}
        self.live = 0
        self.on_exit: Callable[[Thread], None] = lambda thread: None
        gpu = self.gpu
        self.half_l2 = gpu.l2_round_trip_ns.value / 2
        self.issue = gpu.issue_ns.value
        self.fence_base = (gpu.fence_cta_ns.value, gpu.fence_gpu_ns.value, gpu.fence_sys_ns.value)
        self.handlers: tuple[Callable[[Thread, Any], Any], ...] = (
            self._load,
            self._store,
            self._rmw,
            self._fence,
            self._barrier,
            self._warp,
            self._sleep,
            self._work,
        )

    # -- clock ----------------------------------------------------------------------------------------------------

    def at(self, time: float, action: Callable[[Any, Any], None], a: Any = None, b: Any = None) -> None:
        """Calls action(a, b) at `time`, after what was scheduled for the same time before."""
        bucket = self.buckets.get(time)
        if bucket is None:
            self.buckets[time] = [(action, a, b)]
            heapq.heappush(self.times, time)
        else:
            bucket.append((action, a, b))

    def drain(self) -> None:
        """Runs until no event is left: everything has ended, or whatever lives waits for something."""
        times, buckets, pop = self.times, self.buckets, heapq.heappop
        while times:
            self.now = pop(times)
            bucket = buckets.pop(self.now)
            for action, a, b in bucket:
                action(a, b)
            self.events += len(bucket)
            if self.events > self.max_events:
                raise EmulationError(
                    f"endless program: {self.max_events} events without an end, {self.now / 1e6:.3f} ms of virtual time;"
                    " a loop without a deadline, or more rounds than the emulator is made for (--iters)"
                )

    def globaltimer(self, thread: Thread) -> int:
        step = int(self.gpu.timer_step_ns.value) or 1
        return int(self.now + thread.lag) // step * step

    def cycles(self, thread: Thread) -> int:
        return int((self.now + thread.lag) * self.gpu.clock_ghz.value)

    # -- threads --------------------------------------------------------------------------------------------------

    def resume(self, thread: Thread, value: Any) -> None:
        """Runs a thread until it waits for something or ends."""
        send, handlers = thread.send, self.handlers
        try:
            while True:
                request = send(value)
                value = handlers[request[0].code](thread, request)
                if value is BLOCKED:
                    return
        except StopIteration:
            self._ended(thread)
        except (EmulationError, IndexError) as error:
            raise self._located(thread, error) from None

    def resume_all(self, threads: list[Thread], _: Any) -> None:
        """Resumes threads of one block that were let go together. Most of them run straight to the same barrier,
        where they then arrive together."""
        arriving: list[Thread] = []
        barrier: tuple[Any, ...] | None = None
        for thread in threads:
            try:
                request = thread.send(None)
            except StopIteration:
                self._ended(thread)
                continue
            except (EmulationError, IndexError) as error:
                raise self._located(thread, error) from None
            if request[0].code == Code.BARRIER and barrier in (None, request):
                barrier = request
                arriving.append(thread)
            else:
                self._serve(thread, request)
        if barrier is not None:
            op, number, count = barrier
            arriving[0].block.arrive(number, count, arriving, op)
            if op.kind != "sync":
                for thread in arriving:
                    self.resume(thread, None)

    def _serve(self, thread: Thread, request: tuple[Any, ...]) -> None:
        """Serves one request and lets the thread go on if it does not have to wait."""
        try:
            value = self.handlers[request[0].code](thread, request)
        except EmulationError as error:
            raise self._located(thread, error) from None
        if value is not BLOCKED:
            self.resume(thread, value)

    def _ended(self, thread: Thread) -> None:
        self.live -= 1
        self.on_exit(thread)

    def _continue(self, thread: Thread) -> Any:
        """Lets a thread go on at once unless it is too far ahead of the clock."""
        if thread.lag < LAG_LIMIT_NS:
            return None
        self.at(self.now + thread.lag, self.resume, thread)
        thread.lag = 0.0
        return BLOCKED

    def _take_lag(self, thread: Thread) -> float:
        start = self.now + thread.lag
        thread.lag = 0.0
        return start

    def _located(self, thread: Thread, error: Exception) -> EmulationError:
        """The same error with the thread and the instruction that made it."""
        lowered: Lowered = thread.block.grid.lowered
        frame = thread.generator.gi_frame
        line = frame.f_lineno if frame is not None else 0
        traceback = error.__traceback__
        while traceback is not None:  # where the generator itself raised, its frame is already gone
            if traceback.tb_frame.f_code is thread.generator.gi_code:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        what = str(error) if isinstance(error, EmulationError) else "access beyond the end of an allocation"
        instruction = lowered.instructions.get(line)
        where = ""
        if instruction is not None:
            source = f"{instruction.source}, " if instruction.source else ""
            where = f" at {source}PTX line {instruction.line}: {instruction.text}"
        return EmulationError(f"{thread}, kernel {lowered.function.name}: {what}{where}")

    def misaligned(self, thread: Thread, address: int, nbytes: int) -> None:
        raise EmulationError(f"misaligned {nbytes} byte access to shared memory at offset {address}")

    def sm_of(self, thread: Thread) -> int:
        return thread.block.sm

    def active_lanes(self, thread: Thread) -> int:
        return thread.block.lanes_alive(thread.tid >> 5)

    # -- loads and polls ------------------------------------------------------------------------------------------

    def _load(self, thread: Thread, request: tuple[Op, int]) -> Any:
        op, address = request
        if address & SHARED_WINDOW:
            return thread.block.load_shared(op, address)
        segment, offset = self.memory.find(address, op.size * op.count)
        start = self._take_lag(thread)
        if op.poll is not None:
            if thread.poll_loop != op.poll:
                thread.poll_loop = op.poll
                thread.polls = {}
            seen = thread.polls.get(address)
            if seen is not None and start < thread.block.deadline_ns and self._unchanged(thread.polls):
                self._park(thread, start, start - seen[1])
                return BLOCKED
            thread.polls[address] = (self._value(op, segment, offset), start, op)
        device = thread.block.device.index
        if segment.device == device:
            self.at(start + self.half_l2, self._sample_local, (thread, op, address), (segment, offset))
        else:
            served = self.fabric.routes[device, segment.device].request(start)
            self.at(served, self._sample_remote, (thread, op, address), (segment, offset))
        return BLOCKED

    def _value(self, op: Op, segment: Segment, offset: int) -> Any:
        view, index = segment.views[op.size], offset // op.size
        return view[index] if op.count == 1 else tuple(view[index : index + op.count])

    def _sample_local(self, who: tuple[Thread, Op, int], where: tuple[Segment, int]) -> None:
        thread = who[0]
        thread.lag += self.half_l2  # the way back is short enough to run ahead of the clock
        self.resume(thread, self._sampled(who, where))

    def _sample_remote(self, who: tuple[Thread, Op, int], where: tuple[Segment, int]) -> None:
        device, home = who[0].block.device.index, where[0].device
        reply = self.fabric.routes[home, device].reply(self.now, who[1].size * who[1].count)
        self.at(reply, self.resume, who[0], self._sampled(who, where))

    def _sampled(self, who: tuple[Thread, Op, int], where: tuple[Segment, int]) -> Any:
        thread, op, address = who
        value = self._value(op, *where)
        if op.poll is not None and address in thread.polls:
            thread.polls[address] = (value, thread.polls[address][1], op)
        return value

    def _unchanged(self, polls: dict[int, Poll]) -> bool:
        for address, (value, _, op) in polls.items():
            if self._value(op, self.memory.segments[address >> 32], address & OFFSET_MASK) != value:
                return False
        return True

    def _park(self, thread: Thread, start: float, period: float) -> None:
        """Stops emulating the polls of a thread until one of its words changes."""
        for address, (value, _, op) in thread.polls.items():
            parked = Parked(thread, op, address, value, start, period)
            thread.parked.append(parked)
            self.watched.setdefault(address >> GRANULE, []).append(parked)

    def unpark(self, thread: Thread, parked: Parked, time: float) -> None:
        """Lets a thread see its word again: the poll that would be served next after `time`."""
        for each in thread.parked:
            granule = each.address >> GRANULE
            others = [p for p in self.watched.pop(granule, ()) if p.thread is not thread]
            if others:
                self.watched[granule] = others
        thread.parked = []
        segment, offset = self.memory.find(parked.address, parked.op.size)
        device = thread.block.device.index
        local = segment.device == device
        way = self.half_l2 if local else self.fabric.routes[device, segment.device].read_latency
        missed = max(0, ceil((time - parked.at - way) / parked.period)) if parked.period > 0 else 0
        served = max(time, parked.at + missed * parked.period + way)
        thread.polls[parked.address] = (parked.value, served - way, parked.op)
        sample = self._sample_local if local else self._sample_remote
        self.at(served, sample, (thread, parked.op, parked.address), (segment, offset))

    def changed(self, address: int, nbytes: int) -> None:
        """Memory was written: wakes the polls that would now see another value."""
        for granule in range(address >> GRANULE, (address + nbytes - 1 >> GRANULE) + 1):
            for parked in list(self.watched.get(granule, ())):
                segment = self.memory.segments[parked.address >> 32]
                seen = self._value(parked.op, segment, parked.address & OFFSET_MASK)
                if seen != parked.value and parked.thread.parked:
                    self.unpark(parked.thread, parked, self.now)

    # -- stores and fences ------------------------------------------------------------------------------------------

    def _store(self, thread: Thread, request: tuple[Op, int, Any]) -> Any:
        op, address, value = request
        if address & SHARED_WINDOW:
            return thread.block.store_shared(op, address, value)
        thread.poll_loop = None
        where = self.memory.find(address, op.size * op.count)
        if op.release:
            start = self._take_lag(thread)
            done = self.fence_end(thread.block.device, start, op.scope)
            self.at(done, self._store_and_resume, thread, (op, where, value))
            return BLOCKED
        return self._issue_store(thread, op, where, value)

    def _store_and_resume(self, thread: Thread, store: tuple[Op, tuple[Segment, int], Any]) -> None:
        if self._issue_store(thread, *store) is not BLOCKED:
            self.resume(thread, None)

    def _issue_store(self, thread: Thread, op: Op, where: tuple[Segment, int], value: Any) -> Any:
        segment = where[0]
        device = thread.block.device
        start = self.now + thread.lag
        thread.lag += self.issue
        writer = (device.index, thread.block.index, thread.tid)
        if segment.device == device.index:
            self._land((op, where, value), writer)
            return self._continue(thread)
        route = self.fabric.routes[device.index, segment.device]
        landed = route.write(start, op.bytes, coalesced=not op.strong)
        device.written(route, landed)
        self.at(landed, self._land, (op, where, value), writer)
        thread.lag += route.stall(start)
        return self._continue(thread)

    def _land(self, store: tuple[Op, tuple[Segment, int], Any], writer: tuple[int, int, int]) -> None:
        op, (segment, offset), value = store
        view, index = segment.views[op.size], offset // op.size
        if op.count == 1:
            view[index] = value
        else:
            for n, element in enumerate(value):
                view[index + n] = element
        segment.writers[offset] = writer
        address = segment.address + offset
        if address >> GRANULE in self.watched:
            self.changed(address, op.size * op.count)

    def fence_end(self, device: DeviceState, start: float, scope: int) -> float:
        """When a fence that starts at `start` lets its thread go on. A system fence waits until everything the
        device has stored is acknowledged (a flush read: it returns even if a write was lost on the way)."""
        base = start + self.fence_base[scope]
        return max(base, device.flushed(start)) if scope == 2 else base

    def _fence(self, thread: Thread, request: tuple[Op]) -> Any:
        start = self._take_lag(thread)
        self.at(self.fence_end(thread.block.device, start, request[0].scope), self.resume, thread)
        return BLOCKED

    # -- read-modify-writes -----------------------------------------------------------------------------------------

    def _rmw(self, thread: Thread, request: tuple[Op, int, int, int]) -> Any:
        op, address, b, c = request
        thread.poll_loop = None
        where = self.memory.find(address, op.size)
        device = thread.block.device
        start = self._take_lag(thread)
        if op.release:
            start = self.fence_end(device, start, op.scope)
        home = where[0].device
        if not self.fabric.is_native(device.index, home):
            self.at(start, self._enqueue_rmw, thread, (op, where, b, c))
            return BLOCKED
        if home == device.index:
            arrives, back = start + self.half_l2, None
        else:
            route = self.fabric.routes[device.index, home]
            arrives, back = route.request(start), self.fabric.routes[home, device.index]
            device.written(route, arrives)
        arrives = max(arrives, self.word_free.get(address, 0.0))
        self.word_free[address] = arrives + self.gpu.l2_atomic_ns.value
        self.at(arrives, self._perform_rmw, (thread, op, where, b, c), back)
        if op.returns:
            return BLOCKED
        thread.lag += start - self.now + self.issue
        return self._continue(thread)

    def _perform_rmw(self, rmw: tuple[Thread, Op, tuple[Segment, int], int, int], back: Route | None) -> None:
        thread, op, where, b, c = rmw
        old = self._modify(thread, op, where, b, c)
        if op.returns:
            done = self.now + self.half_l2 if back is None else back.reply(self.now, op.size)
            self.at(done, self.resume, thread, old)

    def _modify(self, thread: Thread, op: Op, where: tuple[Segment, int], b: int, c: int) -> int:
        segment, offset = where
        old = segment.views[op.size][offset // op.size]
        assert op.modify is not None
        self._land((op, where, op.modify(old, b, c)), (thread.block.device.index, thread.block.index, thread.tid))
        return old

    def _enqueue_rmw(self, thread: Thread, rmw: tuple[Op, tuple[Segment, int], int, int]) -> None:
        """A home without native atomics: the requester reads, modifies and writes back, one at a time a word."""
        op, (segment, offset), b, c = rmw
        queue = self.queues.setdefault((thread.block.device.index, segment.address + offset), WordQueue())
        queue.waiting.append((thread, op, b, c))
        if not queue.busy:
            self._next_rmw(queue, (segment, offset))

    def _next_rmw(self, queue: WordQueue, where: tuple[Segment, int]) -> None:
        queue.busy = bool(queue.waiting)
        if queue.busy:
            thread, op, _, _ = queue.waiting[0]
            served = self.fabric.routes[thread.block.device.index, where[0].device].request(self.now)
            self.at(served, self._read_for_rmw, queue, where)
            if not op.returns:  # a red's thread goes on once its request is on the way
                self.at(self.now + self.issue, self.resume, thread)

    def _read_for_rmw(self, queue: WordQueue, where: tuple[Segment, int]) -> None:
        thread, op, b, c = queue.waiting.pop(0)
        segment, offset = where
        old = segment.views[op.size][offset // op.size]
        back = self.fabric.routes[segment.device, thread.block.device.index].reply(self.now, op.size)
        self.at(back, self._write_back, (queue, where), (thread, op, old, b, c))

    def _write_back(self, at: tuple[WordQueue, tuple[Segment, int]], rmw: tuple[Thread, Op, int, int, int]) -> None:
        queue, where = at
        thread, op, old, b, c = rmw
        device = thread.block.device
        assert op.modify is not None
        route = self.fabric.routes[device.index, where[0].device]
        landed = route.write(self.now, op.size, coalesced=False)
        device.written(route, landed)
        writer = (device.index, thread.block.index, thread.tid)
        self.at(landed, self._land, (op, where, op.modify(old, b, c)), writer)
        self._next_rmw(queue, where)
        if op.returns:
            self.resume(thread, old)

    # -- synchronisation --------------------------------------------------------------------------------------------

    def _barrier(self, thread: Thread, request: tuple[Op, int, int]) -> Any:
        op, number, count = request
        thread.block.arrive(number, count, [thread], op)
        return BLOCKED if op.kind == "sync" else self._continue(thread)

    def _warp(self, thread: Thread, request: tuple[Op, int, Any]) -> Any:
        op, mask, value = request
        thread.poll_loop = None
        thread.block.arrive_warp(mask, thread, op, value)
        return BLOCKED

    def _sleep(self, thread: Thread, request: tuple[Op, int]) -> Any:
        duration = min(request[1], 1_000_000) * self.gpu.nanosleep_factor.value
        self.at(self._take_lag(thread) + duration + self.issue, self.resume, thread)
        return BLOCKED

    def _work(self, thread: Thread, request: tuple[Op, int]) -> Any:
        self.instructions_hint += request[1]
        thread.lag += request[1] * self.gpu.instruction_ns.value
        return self._continue(thread)
