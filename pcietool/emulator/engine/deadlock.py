"""Proves a deadlock: nothing is on its way any more, so what each remaining thread waits for can never come.

Must only describe; ending the run is the machine's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pcietool.contract.outcomes import BlockedThread
from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.grids import LaunchQueue
from pcietool.emulator.engine.threads import Block
from pcietool.emulator.memory import Writer
from pcietool.emulator.ops import Write, located


def proved(engine: Core, devices: Iterable[LaunchQueue]) -> tuple[BlockedThread, ...]:
    """Every thread that waits: first for a link on which nothing moves, then at a word nobody will write, then at a
    barrier somebody will not reach."""
    polling = [
        BlockedThread(
            device=parked.thread.block.device.index,
            block=parked.thread.block.index,
            thread=parked.thread.tid,
            source=parked.op.where(),
            address=engine.memory.describe(parked.address),
            value=parked.value,
            last_writer=_last_writer(engine, parked.address),
        )
        for watched in engine.watched.values()
        for parked in watched
    ]
    blocks = [block for device in devices if device.grid for block in device.grid.running]
    gathering = [blocked for block in blocks for blocked in (*_at_barriers(block), *_at_mbarriers(block))]
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
            yield _at_link(thread.writer, source, f"waits for an answer over {link}")


def _undelivered(engine: Core, link: str) -> Iterator[BlockedThread]:
    """Who stored what never lands, once a thread: its kernel waits for that store at its end."""
    stores: dict[Writer, Write] = {}
    for action, what, stamp in engine.never:
        if action == engine.land:
            stores.setdefault(engine.order.writer(stamp), what)
    for writer, (op, (segment, offset), _) in stores.items():
        address = engine.memory.describe(segment.address + offset)
        yield _at_link(writer, op.where(), f"its store to {address} never lands over {link}")


def _at_link(writer: Writer, source: str, what: str) -> BlockedThread:
    return BlockedThread(*writer, source=source, address=what, value=None, last_writer=None)


def _last_writer(engine: Core, address: int) -> str | None:
    segment, offset = engine.memory.find(address, 1)
    writer = segment.writers.get(offset)
    return None if writer is None else "GPU {} block {} thread {}".format(*writer)


def _at_mbarriers(block: Block) -> list[BlockedThread]:
    return [
        BlockedThread(
            device=block.device.index,
            block=block.index,
            thread=thread.tid,
            source="mbarrier.try_wait",
            address=f"mbarrier at offset {offset} of shared memory: {barrier.pending} arrivals and {barrier.transfer}"
            " bytes are missing",
            value=barrier.phase,
            last_writer=None,
        )
        for offset, barrier in block.mbarriers.items()
        for thread in barrier.waiting
    ]


def _at_barriers(block: Block) -> list[BlockedThread]:
    return [
        BlockedThread(
            device=block.device.index,
            block=block.index,
            thread=thread.tid,
            source=barrier.op.where(),
            address=f"barrier {number}: {barrier.arrived} of {barrier.expected or block.alive} threads have arrived",
            value=barrier.arrived,
            last_writer=None,
        )
        for number, barrier in block.barriers.items()
        for thread in barrier.waiting
    ]
