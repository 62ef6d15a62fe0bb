"""Proves a deadlock: nothing is on its way any more, so what each remaining thread waits for can never come. Or says
where threads are that run on.

Must only describe; ending the run is the machine's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pcietool.contract.outcomes import BlockedThread
from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.grids import Grid, LaunchQueue
from pcietool.emulator.engine.threads import Block, Thread
from pcietool.emulator.memory import Place, Writer, shown
from pcietool.emulator.ops import Write, located


def proved(engine: Core, devices: Iterable[LaunchQueue]) -> tuple[BlockedThread, ...]:
    """Every thread that waits: first for a link on which nothing moves, then at a word nobody will write, then for
    another thread, or for a place on its GPU."""
    grids = [grid for device in devices for grid in device.grids]
    blocks = [block for grid in grids for block in grid.running]
    stuck = [*_unanswered(blocks, engine.stuck), *_undelivered(engine, engine.stuck)] if engine.stuck else []
    gathering = [blocked for block in blocks for blocked in _gathering(block)]
    return _sorted(stuck, _polling(engine), gathering, _waiting_for_launches(grids), _not_started(grids))


def running(engine: Core, devices: Iterable[LaunchQueue]) -> tuple[BlockedThread, ...]:
    """Who still runs, then who waits."""
    grids = [grid for device in devices for grid in device.grids]
    blocks = [block for grid in grids for block in grid.running]
    gathering = [blocked for block in blocks for blocked in _gathering(block)]
    late = {thread for grid in grids for thread in grid.waiting}
    free = (thread for thread in _free(blocks) if thread not in late)
    spinning = [_at(thread, "still runs when the host's deadline ends the round") for thread in free]
    return _sorted(spinning, _polling(engine), gathering, _waiting_for_launches(grids), _not_started(grids))


def _sorted(*groups: Iterable[BlockedThread]) -> tuple[BlockedThread, ...]:
    return tuple(w for group in groups for w in sorted(group, key=lambda w: (w.device, w.block, w.thread)))


def _polling(engine: Core) -> list[BlockedThread]:
    return [
        BlockedThread(
            *shown(parked.thread.writer),
            source=parked.op.where(),
            address=engine.memory.describe(parked.address),
            value=parked.value,
            last_writer=_last_writer(parked.place),
        )
        for watched in engine.watched.values()
        for parked in watched
    ]


def _free(blocks: Iterable[Block]) -> Iterator[Thread]:
    """Threads that have not ended and wait for no other thread."""
    for block in blocks:
        waiting = {thread for barrier in block.barriers.values() for thread in barrier.waiting}
        waiting |= {thread for barrier in block.mbarriers.values() for thread in barrier.waiting}
        waiting |= {thread for lanes in block.warps.values() for thread in lanes}
        for thread in block.threads:
            if thread.generator.gi_frame is not None and not thread.parked and thread not in waiting:
                yield thread


def _at(thread: Thread, what: str, value: int | None = 0) -> BlockedThread:
    instruction = thread.block.lowered.instruction_at(thread.generator)
    source = "its start" if instruction is None else located(instruction)
    said = f"kernel {thread.block.lowered.function.name} {what}"
    return BlockedThread(*shown(thread.writer), source, said, value, None)


def _unanswered(blocks: Iterable[Block], link: str) -> Iterator[BlockedThread]:
    """Threads that wait for no other thread: what remains is an answer over the link."""
    for thread in _free(blocks):
        yield replace(_at(thread, "", None), address=f"waits for an answer over {link}")


def _waiting_for_launches(grids: Iterable[Grid]) -> Iterator[BlockedThread]:
    """The first thread of each grid that waits for the launches before it."""
    for grid in grids:
        for thread in grid.waiting[:1]:
            yield _at(thread, "waits for the launches before it to end", len(grid.waiting))


def _not_started(grids: Iterable[Grid]) -> Iterator[BlockedThread]:
    """The first block of each grid that finds no place."""
    for grid in grids:
        if grid.next_block < grid.spec.blocks:
            what = (
                f"kernel {grid.spec.lowered.function.name}: {len(grid.running)} blocks hold all places that"
                f" {grid.spec.blocks - grid.next_block} others wait for"
            )
            yield BlockedThread(grid.device.index, grid.next_block, 0, "its start", what, len(grid.running), None)


def _undelivered(engine: Core, link: str) -> Iterator[BlockedThread]:
    """Who stored what never lands, once a thread: its kernel waits for that store at its end."""
    stores: dict[Writer, Write] = {}
    for action, what, stamp in engine.never:
        if action == engine.land:
            stores.setdefault(engine.order.writer(stamp), what)
    for writer, (op, (segment, offset), _) in stores.items():
        address = engine.memory.describe(segment.address + offset)
        yield BlockedThread(*shown(writer), op.where(), f"its store to {address} never lands over {link}", None, None)


def _last_writer(place: Place) -> str | None:
    segment, offset = place
    writer = segment.writers.get(offset)
    return None if writer is None else "GPU {} block {} thread {}".format(*shown(writer))


def _gathering(block: Block) -> Iterator[BlockedThread]:
    for number, barrier in block.barriers.items():
        expected = barrier.expected or block.alive
        what = f"barrier {number}: {barrier.arrived} of {expected} threads have arrived"
        for thread in barrier.waiting:
            yield BlockedThread(*shown(thread.writer), barrier.op.where(), what, barrier.arrived, None)
    cluster = block.cluster
    for thread in cluster.waiting:
        if thread.block is block:
            late = cluster.size - len(cluster.blocks)
            not_started = f", {late} of its blocks have not started" if late else ""
            what = f"barrier of the cluster: {cluster.missing} threads have not arrived{not_started}"
            yield replace(_at(thread, ""), address=what, value=cluster.missing)
    for offset, mbarrier in block.mbarriers.items():
        missing = f"{mbarrier.pending} arrivals and {mbarrier.transfer} bytes are missing"
        what = f"mbarrier at offset {offset} of shared memory: {missing}"
        for thread in mbarrier.waiting:
            yield replace(_at(thread, ""), address=what, value=mbarrier.phase)
    for (warp, mask, kind), lanes in block.warps.items():
        absent = mask & block.warp_alive[warp] & ~sum(1 << (thread.tid & 31) for thread in lanes)
        what = f"{kind} of lanes {mask:#010x} of warp {warp}: lanes {absent:#010x} have not arrived"
        first = min(lanes, key=lambda thread: thread.tid)  # for all that wait there
        yield replace(_at(first, ""), address=what, value=len(lanes))
