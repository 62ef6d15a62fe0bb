"""Who expects what from whom: the tables that `verify`'s kernels are given, computed in closed form.

numpy only. `recount` computes the same tables by naive loops; the two must not share code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcietool.protocol.routing import NOWHERE, Routing

ROUTE = np.dtype([("consumer", "<u4"), ("row", "<u4"), ("position", "<u4")])
"""Route of verify_push.cuh: one row that a rank sends, the name of its payload, its place in its stream."""
PIECE = np.dtype([(name, "<u4") for name in ("consumer", "chunk", "first", "rows", "expected")])
"""Piece of verify_push.cuh."""
ORIGIN_SHIFT = 16
"""A returned row is named by (rank << 16 | position) of the stream it came by."""


@dataclass(frozen=True)
class Streams:
    """All streams between `world` ranks; `routes[rank]` has dtype ROUTE, sorted by consumer and position."""

    routes: tuple[np.ndarray, ...]
    chunk_rows: int
    piece_rows: int

    @property
    def world(self) -> int:
        return len(self.routes)

    @property
    def counts(self) -> np.ndarray:
        """[producer, consumer] rows."""
        return np.array([np.bincount(routes["consumer"], minlength=self.world) for routes in self.routes])

    @property
    def capacity(self) -> int:
        """Rows of the longest stream, at least 1."""
        return max(1, int(self.counts.max()))

    @property
    def chunks(self) -> np.ndarray:
        """[producer, consumer]: a stream without rows has one chunk without rows."""
        chunks: np.ndarray = np.maximum(1, -(-self.counts // self.chunk_rows))
        return chunks

    @property
    def most_chunks(self) -> int:
        return int(self.chunks.max())

    def chunk_counts(self, producer: int) -> np.ndarray:
        """[consumer, chunk] rows."""
        first = np.arange(self.most_chunks) * self.chunk_rows
        rows: np.ndarray = np.clip(self.counts[producer][:, None] - first, 0, self.chunk_rows)
        return rows

    def pieces(self, producer: int) -> np.ndarray:
        """[pieces] of dtype PIECE, in the order of the routes."""
        chunk_rows = self.chunk_counts(producer)
        in_chunk = -(-chunk_rows // self.piece_rows)
        consumer, chunk = np.nonzero(in_chunk)
        each = in_chunk[consumer, chunk]
        number = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        consumer, chunk = np.repeat(consumer, each), np.repeat(chunk, each)
        ends = np.cumsum(self.counts[producer])
        pieces = np.zeros(len(number), PIECE)
        pieces["consumer"], pieces["chunk"], pieces["expected"] = consumer, chunk, np.repeat(each, each)
        before = ends[consumer] - self.counts[producer][consumer]
        pieces["first"] = before + chunk * self.chunk_rows + number * self.piece_rows
        pieces["rows"] = np.minimum(self.piece_rows, chunk_rows[consumer, chunk] - number * self.piece_rows)
        return pieces


def dispatched(routing: Routing, chunk_rows: int, piece_rows: int) -> Streams:
    """Every row to the ranks of its experts, in the order of rows and choices."""
    ranks = routing.ranks
    routes = []
    for rank in range(routing.world):
        row, _ = np.nonzero(ranks[rank] != NOWHERE)
        consumer = ranks[rank][ranks[rank] != NOWHERE]
        order = np.argsort(consumer, kind="stable")
        routes.append(_routes(consumer[order], row[order], routing.world))
    return Streams(tuple(routes), chunk_rows, piece_rows)


def returned(forth: Streams) -> Streams:
    """Every row of `forth` back to where it came from, in one chunk a stream, each row counted by itself."""
    routes = []
    for rank in range(forth.world):
        came = forth.counts[:, rank]
        consumer = np.repeat(np.arange(forth.world), came)
        position = np.arange(came.sum()) - np.repeat(np.cumsum(came) - came, came)
        routes.append(_routes(consumer, consumer << ORIGIN_SHIFT | position, forth.world))
    return Streams(tuple(routes), chunk_rows=forth.capacity, piece_rows=1)


def _routes(consumer: np.ndarray, row: np.ndarray, world: int) -> np.ndarray:
    """Of one rank, from what is sorted by consumer."""
    counts = np.bincount(consumer, minlength=world)
    routes = np.zeros(len(consumer), ROUTE)
    routes["consumer"], routes["row"] = consumer, row
    routes["position"] = np.arange(len(consumer)) - (np.cumsum(counts) - counts)[consumer]
    return routes
