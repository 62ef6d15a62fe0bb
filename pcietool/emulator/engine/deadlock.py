"""Proves a deadlock: nothing is on its way any more, so what each remaining thread waits for can never come.

Must only describe; ending the run is the machine's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pcietool.contract.outcomes import BlockedThread
from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.grids import LaunchQueue
from pcietool.emulator.engine.threads import Block
from pcietool.emulator.memory import Place, Writer
from pcietool.emulator.ops import Write, located


def proved(engine: Core, devices: Iterable[LaunchQueue]) -> tuple[BlockedThread, ...]:
    """Every thread that waits: first for a link on which nothing moves, then at a word nobody will write, then at a
    barrier somebody will not reach."""
    polling = [
        BlockedThread(
            *parked.thread.writer,
            source=parked.op.where(),
            address=engine.memory.describe(parked.address),
            value=parked.value,
            last_writer=_last_writer(parked.place),
        )
        for watched in engine.watched.values()
        for parked in watched
    ]
    blocks = [block for device in devices if device.grid for block in device.grid.running]
    gathering = [blocked for block in blocks for blocked in _gathering(block)]
    stuck = [*_unanswered(blocks, engine.stuck), *_undelivered(engine, engine.stuck)] if engine.stuck else []
    return tuple(
        w for group in (stuck, polling, gathering) for w in sorted(group, key=lambda w: (w.device, w.block, w.thread))
    )


def _unanswered(blocks: Iterable[Block], link: str) -> Iterator[BlockedThread]:
    """Threads that wait for no other thread: what remains is an answer over the link."""
    for block in blocks:
        waiting = {thread for barrier in block.barriers.values() for thread in barrier.waiting}
        waiting |= {thread for barrier in block.mbarriers.values() for thread in barrier.waiting}
        waiting |= {thread for lanes in block.warps.values() for thread in lanes}
        for thread in block.threads:
            if thread.generator.gi_frame is None or thread.parked or thread in waiting:
                continue
            instruction = block.lowered.instruction_at(thread.generator)
            source = "its start" if instruction is None else located(instruction)
            yield BlockedThread(*thread.writer, source, f"waits for an answer over {link}", None, None)


def _undelivered(engine: Core, link: str) -> Iterator[BlockedThread]:
    """Who stored what never lands, once a thread: its kernel waits for that store at its end."""
    stores: dict[Writer, Write] = {}
    for action, what, stamp in engine.never:
        if action == engine.land:
            stores.setdefault(engine.order.writer(stamp), what)
    for writer, (op, (segment, offset), _) in stores.items():
        address = engine.memory.describe(segment.address + offset)
        yield BlockedThread(*writer, op.where(), f"its store to {address} never lands over {link}", None, None)


def _last_writer(place: Place) -> str | None:
    segment, offset = place
    writer = segment.writers.get(offset)
    return None if writer is None else "GPU {} block {} thread {}".format(*writer)


def _gathering(block: Block) -> Iterator[BlockedThread]:
    for number, barrier in block.barriers.items():
        expected = barrier.expected or block.alive
        what = f"barrier {number}: {barrier.arrived} of {expected} threads have arrived"
        for thread in barrier.waiting:
            yield BlockedThread(*thread.writer, barrier.op.where(), what, barrier.arrived, None)
    for offset, mbarrier in block.mbarriers.items():
        missing = f"{mbarrier.pending} arrivals and {mbarrier.transfer} bytes are missing"
        what = f"mbarrier at offset {offset} of shared memory: {missing}"
        for thread in mbarrier.waiting:
            yield BlockedThread(*thread.writer, "mbarrier.try_wait", what, mbarrier.phase, None)
