"""Who pushes to whom, and how much: the streams of a push, and the blocks that carry them.

Must not touch memory or launch anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcietool.errors import UsageError
from pcietool.probes.watermark.config import Pattern
from pcietool.protocol.chunks import LARGEST_COUNT, ChunkPlan, best_piece

VECTOR_BYTES = 16
"""What one thread moves at a time."""


@dataclass(frozen=True)
class RankRole:
    """What a rank does: its streams go to, or come from, `peers` ranks from `first_peer` on, counted round the
    world."""

    rank: int
    produces: bool
    first_peer: int
    peers: int

    def peers_in(self, world: int) -> list[int]:
        return [(self.first_peer + number) % world for number in range(self.peers)]


def rank_roles(pattern: Pattern, world: int) -> tuple[RankRole, ...]:
    """Consumers first."""
    if pattern == "one-to-one":
        return RankRole(1, False, 0, 1), RankRole(0, True, 1, 1)
    if pattern == "many-to-one":
        return RankRole(0, False, 1, world - 1), *(RankRole(rank, True, 0, 1) for rank in range(1, world))
    return tuple(
        RankRole(rank, produces, (rank + 1) % world, world - 1) for produces in (False, True) for rank in range(world)
    )


@dataclass(frozen=True)
class Shape:
    """Of every stream, and of every block."""

    rows: int
    row_bytes: int
    threads: int
    groups: int
    consumer_blocks: int
    """Of a rank."""

    def __post_init__(self) -> None:
        if self.row_bytes % VECTOR_BYTES or not self.row_bytes:
            raise UsageError(f"rows of {self.row_bytes} bytes: a row must be a multiple of {VECTOR_BYTES} bytes")
        if self.rows * self.row_bytes // VECTOR_BYTES > LARGEST_COUNT:
            raise UsageError(
                f"{self.rows} rows of {self.row_bytes} bytes are more than 2^31 - 1 vectors of {VECTOR_BYTES} bytes;"
                " use fewer --rows"
            )
        if self.threads % (32 * self.groups):
            raise UsageError(
                f"{self.threads} threads do not make {self.groups} groups of whole warps; use other --threads"
            )

    @property
    def nbytes(self) -> int:
        return self.rows * self.row_bytes

    def plan(self, chunk_rows: int, groups: int, piece_rows: int | None = None) -> ChunkPlan:
        """For `groups` that push one stream together."""
        piece = piece_rows or best_piece(self.rows, chunk_rows, self.row_bytes, groups)
        return ChunkPlan(self.rows, chunk_rows, min(piece, chunk_rows))
