"""What verify's config means on one machine: sizes, iterations and the launches that they make.

Must not touch memory or launch anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcietool.errors import UsageError
from pcietool.machines.base import Machine
from pcietool.probes.common.effort import effort_for
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import SELF_RANKS
from pcietool.probes.verify.config import MOST_ITERATIONS, VerifyConfig
from pcietool.probes.verify.pushes import Size
from pcietool.protocol.chunks import ARTICLE_CHUNK
from pcietool.protocol.routing import EDGES, Workload
from pcietool.protocol.slots import SEQUENCES

WRAPS = (SEQUENCES // 2, SEQUENCES)
"""From here on sequence numbers are smaller than before: as signed numbers, and as unsigned ones."""
STARTS = (1, *(wrap - 4 for wrap in WRAPS))
"""First sequence numbers: from the beginning, and across both wraps."""
CHOICES = 2
PIECES = 4
"""Of a chunk, if it is long enough."""
MOST_PIECE_BYTES = 32 * 1024
"""A bulk store takes a piece from shared memory."""


@dataclass(frozen=True)
class Effort:
    """How much is sent how often."""

    ranks: int
    rows: int
    choices: int
    experts_a_rank: int
    row_bytes: int
    chunk_rows: int
    threads: int
    producers: int
    consumers: int
    gates: int
    iterations: int

    @classmethod
    def of(cls, machine: Machine, config: VerifyConfig, transport: Transport) -> Effort:
        """Raises UsageError for experts that do not fit the ranks, or rows that do not fit the experts."""
        ranks = SELF_RANKS if transport == "self" else len(machine.devices)
        experts = config.experts or 2 * ranks
        fixed = {"ranks": ranks, "choices": CHOICES, "experts_a_rank": experts // ranks, "chunk_rows": ARTICLE_CHUNK,
                 "iterations": config.chosen_iterations}  # fmt: skip
        effort = effort_for(
            machine,
            cuda=cls(rows=64, row_bytes=2048, threads=128, producers=8, consumers=4, gates=4, **fixed),
            emulated=cls(rows=2, row_bytes=256, threads=16, producers=2, consumers=1, gates=1, **fixed),
            rows=config.rows,
            row_bytes=config.row_bytes,
        )
        if experts > ranks * effort.rows:
            raise UsageError(f"--experts {experts}: {ranks} ranks with {effort.rows} rows each have only"
                             f" {ranks * effort.rows} rows; use fewer experts or more --rows")  # fmt: skip
        if experts % ranks:
            raise UsageError(f"--experts {experts}: must be a multiple of the {ranks} ranks, which share them evenly")
        return effort

    def workload(self, seed: int) -> Workload:
        return Workload(self.ranks, self.rows, self.choices, self.experts_a_rank, seed)

    def size_for(self, longest_stream: int) -> Size:
        """Pieces so small that several elect together, even in a short stream."""
        fitting = min(longest_stream, self.chunk_rows, MOST_PIECE_BYTES // self.row_bytes * PIECES)
        piece_rows = max(1, fitting // PIECES)
        return Size(
            self.row_bytes, self.chunk_rows, piece_rows, self.threads, self.producers, self.consumers, self.gates
        )

    @property
    def most_chunks(self) -> int:
        """Of a stream of any distribution."""
        longest = max(max(EDGES), self.rows * self.choices)
        return -(-longest // self.chunk_rows)

    def launches(self) -> list[tuple[int, int]]:
        """(first sequence number, iterations) of each launch: a third of the iterations from the beginning, one across
        each wrap."""
        thirds = [len(range(nth, self.iterations, len(STARTS))) for nth in range(len(STARTS))]
        closer = [wrap - third // 2 for wrap, third in zip(WRAPS, thirds[1:], strict=True)]  # few begin closer to it
        return [
            ((start + done) % SEQUENCES, min(MOST_ITERATIONS, third - done))
            for start, third in zip(map(max, STARTS, (STARTS[0], *closer)), thirds, strict=True)
            for done in range(0, third, MOST_ITERATIONS)
        ]
