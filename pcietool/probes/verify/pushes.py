"""The entries dispatch and combine: rows pushed by a table of routes, with an election for each chunk or destination.

Mirrors verify_push.cuh, verify_dispatch.cu and verify_combine.cu of kernels/verify/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pcietool.machines.base import Argument, Launch
from pcietool.probes.verify.config import VECTOR_BYTES
from pcietool.probes.verify.entry import (
    ACK_ROW,
    FIRST_ROW,
    RETURN_ACK_ROW,
    RETURN_ROW,
    Entry,
    EntryMemory,
    SlotUse,
    compare_counts,
    compare_fields,
    compare_rows,
    compare_table,
    increment,
    off_by_one,
    poison,
    row_of_rank,
    words,
)
from pcietool.probes.verify.trial import Finding, Report, Trial
from pcietool.protocol import recount
from pcietool.protocol.routing import Routing
from pcietool.protocol.rows import payload, row_keys
from pcietool.protocol.streams import PIECE, ROUTE, Streams, dispatched, returned

JOB = np.dtype(
    [
        (name, "<u8")
        for name in (
            "routes", "pieces", "sent", "received", "elections", "pushed", "counted", "output", "routes_count",
            "pieces_count",
        )
    ]
)  # fmt: skip
"""Job of verify_push.cuh."""


@dataclass(frozen=True)
class Size:
    """Of rows, pieces and chunks, and how many blocks of how many threads carry them on each rank."""

    row_bytes: int
    chunk_rows: int
    piece_rows: int
    threads: int
    producers: int
    consumers: int
    gates: int = 1

    @property
    def row_vectors(self) -> int:
        return self.row_bytes // VECTOR_BYTES

    @property
    def row_words(self) -> int:
        return self.row_bytes // 4


class Tables:
    """What the producers and consumers of each rank are given, and where they leave what they counted."""

    def __init__(self, memory: EntryMemory, streams: Streams, iterations: int, row_bytes: int) -> None:
        self.streams = streams
        world, chunks = streams.world, streams.most_chunks
        self._count_shape = (iterations, world, chunks)
        ranks = range(world)
        counts = streams.counts.astype(np.uint32)
        self.pieces = [streams.pieces(rank) for rank in ranks]
        self._routes = [memory.table(rank, streams.routes[rank], "routes") for rank in ranks]
        self._pieces = [memory.table(rank, self.pieces[rank], "pieces") for rank in ranks]
        self._sent = [memory.table(rank, counts[rank], "rows sent") for rank in ranks]
        self._received = [memory.table(rank, np.ascontiguousarray(counts[:, rank]), "rows received") for rank in ranks]
        self._elections = [memory.local(rank, 4 * world * chunks, "elections") for rank in ranks]
        count_bytes = 4 * prod(self._count_shape)
        self._pushed = [memory.local(rank, count_bytes, "rows pushed") for rank in ranks]
        self.counted = [memory.local(rank, count_bytes, "rows counted") for rank in ranks]
        self.row_shape = (iterations, world, streams.capacity, row_bytes // 4)
        self.outputs = [memory.local(rank, 4 * prod(self.row_shape), "output") for rank in ranks]
        self.jobs = memory.structs(
            JOB,
            "jobs",
            routes=self._routes,
            pieces=self._pieces,
            sent=self._sent,
            received=self._received,
            elections=self._elections,
            pushed=self._pushed,
            counted=self.counted,
            output=self.outputs,
            routes_count=[len(routes) for routes in streams.routes],
            pieces_count=[len(pieces) for pieces in self.pieces],
        )

    def prepare(self, trial: Trial) -> None:
        """Zeroes counts, poisons output, and writes the tables anew, with the trial's corruption in them."""
        for buffer in (*self._elections, *self._pushed, *self.counted):
            buffer.fill(0)
        for output in self.outputs:
            poison(output)
        for rank, (routes, pieces) in enumerate(zip(self.streams.routes, self.pieces, strict=True)):
            if len(routes):
                kind = trial.corruption_of(rank)
                self._routes[rank].write(off_by_one(routes, "row") if kind == "route" else routes)
                self._pieces[rank].write(off_by_one(pieces, "expected") if kind == "count" else pieces)

    def wrong(self, routes: Sequence[list[recount.Row]], what: str) -> Iterator[Finding]:
        """Against `routes`, which naive loops made, and what naive loops make of them."""
        counts = recount.counts(list(routes))
        for rank, mine in enumerate(routes):
            given = self._routes[rank].read(ROUTE, len(self.streams.routes[rank]))
            yield from compare_fields(f"{what} of rank {rank}", given, mine, "route")
            pieces = recount.pieces(mine, self.streams.chunk_rows, self.streams.piece_rows)
            given = self._pieces[rank].read(PIECE, len(self.pieces[rank]))
            yield from compare_fields(f"{what} of rank {rank}", given, pieces, "piece")
            for name, buffer, counted in (
                ("sent", self._sent[rank], counts[rank]),
                ("received", self._received[rank], [row[rank] for row in counts]),
            ):
                given = buffer.read(np.uint32, len(routes))
                yield from compare_table(f"{what} rows {name} by rank {rank}", given, counted, ("peer",))

    def wrong_counts(self, routes: Sequence[list[recount.Row]]) -> Iterator[Finding]:
        """What the kernel counted while it ran, against naive loops."""
        world, chunks = self.streams.world, self.streams.most_chunks
        expected = np.array(
            [recount.chunk_counts(mine, world, self.streams.chunk_rows, chunks) for mine in routes], np.int64
        )
        for rank in range(world):
            pushed, counted = (words(of[rank], self._count_shape) for of in (self._pushed, self.counted))
            yield from compare_counts(f"pushed by rank {rank}", pushed, expected[rank], ("consumer", "chunk"))
            yield from compare_counts(f"found by rank {rank}", counted, expected[:, rank], ("producer", "chunk"))


class Dispatch(Entry):
    """Rows to the ranks of their experts, chunk by chunk."""

    name = "dispatch"
    source = "verify_dispatch.cu"

    def __init__(self, memory: EntryMemory, iterations: int, size: Size, routing: Routing) -> None:
        super().__init__(memory, iterations)
        self.size = size
        self.streams, self.counted_routes = self._streams(routing)
        self.tables = Tables(memory, self.streams, iterations, size.row_bytes)
        nbytes = self.world.size * self.streams.capacity * size.row_bytes
        self.landing = [memory.shared(rank, nbytes, "rows") for rank in range(self.world.size)]
        self._endpoints = memory.endpoints(self.landing, self.landing)

    def _streams(self, routing: Routing) -> tuple[Streams, list[list[recount.Row]]]:
        """The streams, and their routes by naive loops."""
        streams = dispatched(routing, self.size.chunk_rows, self.size.piece_rows)
        return streams, recount.dispatch_routes(routing)

    def prepare(self, trial: Trial) -> None:
        self.tables.prepare(trial)

    def wrong_tables(self) -> Iterator[Finding]:
        yield from self.tables.wrong(self.counted_routes, self.name)

    def arguments(self, device: int) -> tuple[Argument, ...]:
        """All but the trial's."""
        size, streams = self.size, self.streams
        shape = (size.row_vectors, streams.capacity, streams.chunk_rows, streams.most_chunks)
        return self._endpoints[device], self.tables.jobs[device], *shape, size.producers, size.consumers

    def launches(self, trial: Trial) -> list[Launch]:
        size = self.size
        shared = size.piece_rows * size.row_bytes if trial.defines.get("BULK") else 0
        return self.grids(trial, size.producers + size.consumers, size.threads, self.arguments, shared)

    def corrupt_row(self, trial: Trial) -> int:
        return row_of_rank(trial, [len(routes) for routes in self.streams.routes], "sends")

    def wrong_data(self, trial: Trial, report: Report) -> Iterator[Finding]:
        outputs = [words(output, self.tables.row_shape) for output in self.tables.outputs]
        for producer, mine in enumerate(self.counted_routes):
            for consumer in range(self.world.size):
                names = np.array([row for to, row, _ in mine if to == consumer], np.uint32)
                sent = payload(row_keys(self.iterations, producer, names), self.size.row_words)
                seen = np.ascontiguousarray(outputs[consumer][:, producer, : len(names)])
                where = f"row {{row}} (chunk {{chunk}}) from rank {producer} at rank {consumer}"
                yield from compare_rows(report, sent, seen, where, self.streams.chunk_rows)
        yield from self.tables.wrong_counts(self.counted_routes)

    def miscount(self, rank: int) -> None:
        increment(self.tables.counted[rank])

    def slot_uses(self) -> list[SlotUse]:
        return recount.written_slots(self.counted_routes, self.streams.chunk_rows, FIRST_ROW, ACK_ROW)

    def slot_total(self) -> int:
        """A signal for each chunk, and an acknowledgement for each stream."""
        return int(self.streams.chunks.sum()) + self.world.size**2


class Combine(Dispatch):
    """Rows back to where they came from, one signal for each destination."""

    name = "combine"
    source = "verify_combine.cu"

    def _streams(self, routing: Routing) -> tuple[Streams, list[list[recount.Row]]]:
        forth = dispatched(routing, self.size.chunk_rows, self.size.piece_rows)
        return returned(forth), recount.return_routes(recount.dispatch_routes(routing))

    def slot_uses(self) -> list[SlotUse]:
        return recount.written_slots(self.counted_routes, self.streams.chunk_rows, RETURN_ROW, RETURN_ACK_ROW)
