"""Proves a deadlock: nothing is on its way any more, so what each remaining thread waits for can never come.

Must only describe; ending the run is the machine's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from pcietool.emulator.engine import Engine
from pcietool.emulator.grids import Block, DeviceState
from pcietool.machines.base import BlockedThread


def proved(engine: Engine, devices: Iterable[DeviceState]) -> tuple[BlockedThread, ...]:
    """Every thread that waits: first at a word nobody will write, then at a barrier somebody will not reach."""
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
    gathering = [
        blocked
        for device in devices
        if device.grid
        for block in device.grid.running
        for blocked in (*_at_barriers(block), *_at_mbarriers(block))
    ]
    return tuple(
        w for group in (polling, gathering) for w in sorted(group, key=lambda w: (w.device, w.block, w.thread))
    )


def _last_writer(engine: Engine, address: int) -> str | None:
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
