"""Memory order: what each access to global memory reads and leaves behind.

`TimingOrder` is memory as it is: a load sees the newest store, and nobody asks who has synchronised with whom. It also
says, by its methods, what the engine tells every memory order. Must not know what anything costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pcietool.contract.outcomes import UnorderedAccess
from pcietool.emulator.engine.threads import Block, Thread
from pcietool.emulator.memory import LANE_SHIFT, STREAM_SHIFT, Memory, Place, Segment, Writer
from pcietool.emulator.ops import Op, Stamp, Write
from pcietool.emulator.order.non_coherent import WrittenBytes
from pcietool.emulator.order.views import NOTHING, View

Handlers: TypeAlias = "tuple[Callable[[Thread, Any], Any], ...]"
"""What serves the requests of threads, by Code."""


class TimingOrder:
    """Performs every access at once and in place."""

    shared_lag_ns = 0.0
    """How far a thread that loads from shared memory may run ahead of the clock."""
    written: WrittenBytes | None = None
    """Kept only where a kernel loads through the non-coherent path."""

    # -- loads, stores and read-modify-writes -------------------------------------------------------------------------

    def peek(self, thread: Thread, op: Op, place: Place) -> Any:
        """What a load would return now: an integer, or a tuple of them."""
        segment, offset = place
        view, index = segment.views[op.size], offset // op.size
        return view[index] if op.count == 1 else tuple(view[index : index + op.count])

    load = peek
    """The load itself."""

    def stamp(self, thread: Thread, op: Op, place: Place) -> Stamp:
        """A store is issued. Goes with it, and to `write` when it lands."""
        return thread.writer

    def write(self, write: Write, stamp: Stamp) -> None:
        """A store lands."""
        op, (segment, offset), value = write
        view, index = segment.views[op.size], offset // op.size
        if op.count == 1:
            view[index] = value
        else:
            for n, element in enumerate(value):
                view[index + n] = element
        segment.writers[offset] = stamp
        if self.written is not None:
            self.written.note(stamp, op, segment.address + offset, op.bytes)

    def writer(self, stamp: Stamp) -> Writer:
        """Who made it."""
        writer: Writer = stamp
        return writer

    def begin_modify(self, thread: Thread, op: Op, place: Place, b: int) -> tuple[int, Stamp]:
        """The first half of a read-modify-write: what it reads, and the stamp that its write lands with."""
        return self.peek(thread, op, place), thread.writer

    # -- shared memory, where the engine is asked for it ---------------------------------------------------------------

    def load_shared(self, thread: Thread, op: Op, address: int) -> Any:
        return thread.block.load_shared(op, address)

    def store_shared(self, thread: Thread, op: Op, address: int, value: Any) -> None:
        thread.block.store_shared(op, address, value)

    def modify_shared(self, thread: Thread, op: Op, address: int, b: int, c: int) -> int:
        return thread.block.modify_shared(op, address, b, c)

    # -- copies, and agents that are no threads -----------------------------------------------------------------------

    def begin_copy(self, thread: Thread, op: Op, barrier: int | None = None) -> Stamp:
        """A bulk copy of this thread begins; `barrier`: the mbarrier that it completes on."""
        return thread.writer

    def copy_done(self, stamp: Stamp) -> View:
        """For those who wait for the copy."""
        return NOTHING

    def copy_read(self, stamp: Stamp) -> View:
        """For those who wait only until it has read its source, in shared memory."""
        return NOTHING

    def begin_fetch(self, thread: Thread, op: Op) -> Stamp:
        """A cp.async of this thread begins."""
        return thread.writer

    def fetch_done(self, stamp: Stamp) -> View:
        """For those who wait for it."""
        return NOTHING

    def read_shared(self, block: Block, offset: int, nbytes: int, stamp: Stamp) -> bytes:
        """A copy reads its source."""
        return bytes(block.shared[1][offset : offset + nbytes])

    def write_shared(self, block: Block, offset: int, data: bytes, stamp: Stamp) -> None:
        """A copy arrives."""
        block.shared[1][offset : offset + len(data)] = data

    def outside(self, name: str, device: int, *, strong: bool) -> Stamp:
        """A write that no thread makes: of the host, or of a copy engine. A strong one releases to the whole system."""
        return (device, -1, -1)

    def read_bytes(self, segment: Segment, offset: int, nbytes: int, stamp: Stamp) -> bytes:
        return bytes(segment.raw[offset : offset + nbytes])

    def write_bytes(self, segment: Segment, offset: int, data: bytes, stamp: Stamp) -> None:
        """The bytes of a copy land."""
        segment.raw[offset : offset + len(data)] = data
        segment.writers[offset] = stamp
        if self.written is not None:
            self.written.note(stamp, None, segment.address + offset, len(data))

    # -- the non-coherent path, told by the code of kernels that load through it ---------------------------------------

    def watch_non_coherent(self, memory: Memory) -> None:
        """A kernel of this round loads through it."""
        self.written = self.written or WrittenBytes(memory)

    def stored_in_place(self, thread: Thread, op: Op, address: int) -> None:
        if self.written is not None:
            self.written.note(thread.writer, op, address, op.bytes)

    def loads_non_coherent(self, thread: Thread, op: Op, address: int) -> None:
        if self.written is not None:
            self.written.check(thread.writer, op, address)

    # -- synchronisation ----------------------------------------------------------------------------------------------

    def fence(self, thread: Thread, op: Op) -> None:
        """A fence ends."""

    def give(self, thread: Thread) -> View:
        """What a thread hands on that arrives at a barrier without waiting."""
        return NOTHING

    def take(self, thread: Thread, given: Iterable[View]) -> None:
        """A thread learns what was given."""

    def meet(self, threads: Iterable[Thread], given: Iterable[View] = ()) -> None:
        """Threads are let go together: all learn what all know, and what was given."""

    # -- launches -----------------------------------------------------------------------------------------------------

    def scheduled(self, handlers: Handlers) -> Handlers:
        """What serves the requests of all threads, with whatever stops a thread before them."""
        return handlers

    def launch_delay_ns(self) -> float:
        """How late a GPU's first launch of a round starts."""
        return 0.0

    def starts(self, threads: list[Thread]) -> Iterable[tuple[float, list[Thread]]]:
        """The threads of a block in groups that start together, each with how late that is."""
        return ((0.0, threads),)

    def begin_round(self) -> None:
        """The host has seen all that was written, and whatever is launched now has seen what the host has."""
        self.written = None

    def begin_grid(self, device: int, stream: int, number: int, lane: int = 0) -> View:
        """A launch starts: what its threads know, which is all that those of this stream did that came before launch
        `number`. `lane` tells it apart from those that may still run."""
        if self.written is not None:
            self.written.begin_grid(device, stream + (lane << LANE_SHIFT - STREAM_SHIFT))
        return NOTHING

    def wait_for_launches(self, threads: Iterable[Thread]) -> None:
        """Threads of one launch have waited until all those before it had ended."""

    def begin(self, thread: Thread) -> None:
        """A thread of a running grid is made."""

    def end(self, thread: Thread) -> None:
        """A thread has ended."""

    def unordered(self) -> tuple[UnorderedAccess, ...]:
        """What was found in the round."""
        return tuple(self.written.found.values()) if self.written is not None else ()
