"""The stream of a push as a copy stream: each chunk one copy by the copy engine and, behind it, its signal.

Copies what kernels/watermark.cu copies, from and to the same places. Must not launch anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pcietool.machines.base import Buffer, CopyStream, Part, StreamCopy, StreamWrite
from pcietool.probes.common.world import World
from pcietool.protocol.chunks import ChunkPlan

Injection = Literal["none", "swap", "early", "drop"]
"""What goes wrong on purpose, as in kernels/watermark.cu."""

FIRST_ROW = 1
"""Of the slots, as in kernels/watermark.cu: chunk n has row FIRST_ROW + n, a producer its column."""
SHIFTS_A_CONSUMER = 2
"""Two launches in a row push other rows: see source_of in kernels/watermark.cu."""
EARLY_BY_COPIES = 50
"""Each takes a microsecond or more: by then the consumer, launched before, reads what it was told to read."""


def source_shift(consumer: int, sequence: int) -> int:
    """The row of a producer's source with which the stream to `consumer` begins: source_of of the kernel."""
    return SHIFTS_A_CONSUMER * consumer + sequence % SHIFTS_A_CONSUMER


@dataclass(frozen=True)
class EngineCopies:
    """One stream of rows, and the memory it uses. One only: the host submits copies one after the other, so several
    streams would not run at the same time."""

    world: World
    producer: int
    consumer: int
    row_bytes: int
    source: Buffer
    """Of the producer."""
    data: Buffer
    """At the consumer."""

    def of(self, plan: ChunkPlan, sequence: int, injection: Injection = "none", injected: int = 0) -> CopyStream:
        """Chunk by chunk. `injection`: "early" makes all signals, then copies rows of the launch before for a while,
        then the right ones; "drop" neither copies nor signals chunk `injected`; "swap" is for kernels alone."""
        chunks = [chunk for chunk in range(plan.chunks) if not (injection == "drop" and chunk == injected)]
        # A stream without rows has a signal and nothing to copy.
        copies = [self._copy(plan, chunk, sequence) for chunk in chunks if plan.rows]
        signals = [self._signal(chunk, sequence) for chunk in chunks]
        device = self.world.device_of[self.producer]
        if injection == "early" or not copies:
            stale = [self._copy(plan, 0, sequence - 1)] * EARLY_BY_COPIES if copies else []
            return CopyStream(device, (*signals, *stale, *copies))
        pairs = zip(copies, signals, strict=True)
        return CopyStream(device, tuple(step for pair in pairs for step in pair))

    def _copy(self, plan: ChunkPlan, chunk: int, sequence: int) -> StreamCopy:
        rows = plan.rows_of(chunk)
        nbytes = len(rows) * self.row_bytes
        start = (self.producer * plan.rows + rows.start) * self.row_bytes
        source_start = (source_shift(self.consumer, sequence) + rows.start) * self.row_bytes
        return StreamCopy(Part(self.data, start, nbytes), Part(self.source, source_start, nbytes), nbytes)

    def _signal(self, chunk: int, sequence: int) -> StreamWrite:
        return StreamWrite(self.world.slot(self.consumer, FIRST_ROW + chunk, self.producer), sequence)
