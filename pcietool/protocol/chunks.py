"""The chunk plan of a stream: rows in chunks, chunks in pieces, and how many signals that makes, in closed form.

The host's mirror of `Plan` in kernels/watermark.cu. Standard library only; must not allocate or launch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pcietool.errors import UsageError

ARTICLE_CHUNK = 64
"""Rows. What the protocol's source chose."""
ALL = "all"
Count = int | Literal["all"]
FENCE_BYTES = 16 * 1024
"""What a group could have copied while it waits for the fence behind a piece, roughly: see `best_piece`."""
LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True)
class ChunkPlan:
    """`rows` in chunks of `chunk_rows`, each in pieces of `piece_rows`; the last of either may be shorter."""

    rows: int
    chunk_rows: int
    piece_rows: int

    @property
    def chunks(self) -> int:
        """A stream without rows has one chunk without rows: its consumer must learn that nothing comes."""
        return max(1, -(-self.rows // self.chunk_rows))

    @property
    def pieces(self) -> int:
        """Of the whole stream."""
        full, rest = divmod(self.rows, self.chunk_rows)
        return full * -(-self.chunk_rows // self.piece_rows) + -(-rest // self.piece_rows)

    def rows_of(self, chunk: int) -> range:
        first = chunk * self.chunk_rows
        return range(first, min(first + self.chunk_rows, self.rows))

    def chunk_of(self, row: int) -> int:
        return row // self.chunk_rows

    def signals(self, streams: int) -> int:
        """One a chunk and stream, whatever the pieces."""
        return streams * self.chunks


def best_piece(rows: int, chunk_rows: int, row_bytes: int, groups: int) -> int:
    """Rows of a piece, so that the group with the most to do is done soonest; `groups` share the stream's pieces.

    Each piece costs as much as FENCE_BYTES more. Large pieces save fences, small ones spread evenly and leave no
    group behind.
    """

    def cost(piece: int) -> int:
        rounds = -(-ChunkPlan(rows, chunk_rows, piece).pieces // groups)
        return rounds * (piece * row_bytes + FENCE_BYTES)

    candidates = {chunk_rows, *(1 << n for n in range(chunk_rows.bit_length()))}
    return min(sorted(candidates, reverse=True), key=cost)


def parse_counts(option: str, text: str) -> tuple[Count, ...]:
    """Of "1,8,all": each once, in the order given. Raises UsageError, naming the option."""
    counts: list[Count] = []
    for part in (part.strip() for part in text.split(",")):
        if part == ALL:
            counts.append("all")
        elif re.fullmatch("0*[1-9][0-9]{0,9}", part) and int(part) <= LARGEST_COUNT:
            counts.append(int(part))
        else:
            raise UsageError(f"{option} {text}: {part!r} is neither a number from 1 to {LARGEST_COUNT} nor 'all'")
    return tuple(dict.fromkeys(counts))
