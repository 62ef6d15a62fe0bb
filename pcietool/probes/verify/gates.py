"""The entries gate and end-to-end: rows in expert order behind gate counters, alone and as part of everything.

Mirrors verify_gate.cuh, verify_gate.cu and verify_end_to_end.cu of kernels/verify/.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pcietool.machines.base import Argument, Launch
from pcietool.probes.verify.entry import (
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
from pcietool.probes.verify.pushes import Dispatch, Size
from pcietool.probes.verify.trial import Finding, Report, Trial
from pcietool.protocol import recount
from pcietool.protocol.expert_order import ARRIVAL, ROW_BLOCK, ExpertOrder, expert_order
from pcietool.protocol.routing import NOWHERE, Routing
from pcietool.protocol.rows import payload, row_keys

GATE_JOB = np.dtype(
    [
        (name, "<u8")
        for name in (
            "arrivals", "seeds", "counters", "counted", "rows", "output", "arrivals_count", "row_blocks",
        )
    ]
)  # fmt: skip
"""GateJob of verify_gate.cu."""
END_JOB = np.dtype(
    [
        (name, "<u8")
        for name in (
            "slot_of", "arrivals", "first", "seeds", "experts", "counters", "rows", "elections", "results", "sums",
            "row_blocks", "rows_count", "choices",
        )
    ]
)  # fmt: skip
"""EndJob of verify_end_to_end.cu."""
RESULT = np.dtype([("rank", "<u4"), ("position", "<u4")])
"""Result of verify_end_to_end.cu."""
NOTHING = 0xFFFFFFFF


class GateTables:
    """Rows of each rank in expert order, their gates, and the recount of both."""

    def __init__(self, memory: EntryMemory, routing: Routing, iterations: int, row_bytes: int) -> None:
        ranks = range(routing.world)
        self.iterations = iterations
        self.orders = [expert_order(routing, rank) for rank in ranks]
        self.counted = [recount.expert_order(routing, rank, ROW_BLOCK) for rank in ranks]
        self.arrivals = [memory.table(rank, self.orders[rank].arrivals, "arrivals") for rank in ranks]
        self.seeds = [memory.table(rank, self.orders[rank].seeds, "seeds") for rank in ranks]
        self.experts = [memory.table(rank, self.orders[rank].experts, "experts") for rank in ranks]
        self.counters = [memory.local(rank, 4 * iterations * self.orders[rank].row_blocks, "gates") for rank in ranks]
        self.rows = [memory.local(rank, iterations * self.orders[rank].slots * row_bytes, "rows") for rank in ranks]

    def prepare(self, trial: Trial) -> None:
        for counters in self.counters:
            counters.fill(0)
        for rows in self.rows:
            poison(rows)
        for rank, order in enumerate(self.orders):
            if order.row_blocks:
                kind = trial.corruption_of(rank)
                seeds, arrivals = order.seeds, order.arrivals
                self.seeds[rank].write(off_by_one(seeds) if kind == "count" else seeds)
                self.arrivals[rank].write(off_by_one(arrivals, "row") if kind == "route" else arrivals)

    def wrong(self, what: str) -> Iterator[Finding]:
        """What the kernel is given, against naive loops."""
        for rank, (order, (arrivals, seeds, experts)) in enumerate(zip(self.orders, self.counted, strict=True)):
            given = self.arrivals[rank].read(ARRIVAL, len(order.arrivals))
            yield from compare_fields(f"{what} at rank {rank}", given, arrivals, "arrival")
            given = self.seeds[rank].read(np.uint32, order.row_blocks)
            yield from compare_table(f"{what} padding rows at rank {rank}", given, seeds, ("row block",))
            given = self.experts[rank].read(np.uint32, order.row_blocks)
            yield from compare_table(f"{what} experts at rank {rank}", given, experts, ("row block",))


class Gate(Entry):
    """Local arrivals that open gates; crosses no link."""

    name = "gate"
    source = "verify_gate.cu"

    def __init__(self, memory: EntryMemory, iterations: int, size: Size, routing: Routing) -> None:
        super().__init__(memory, iterations)
        self.size = size
        self.tables = tables = GateTables(memory, routing, iterations, size.row_bytes)
        ranks = range(self.world.size)
        self._counted = [
            memory.local(rank, 4 * iterations * tables.orders[rank].row_blocks, "rows counted") for rank in ranks
        ]
        self._outputs = [
            memory.local(rank, iterations * tables.orders[rank].slots * size.row_bytes, "output") for rank in ranks
        ]
        self._jobs = memory.structs(
            GATE_JOB,
            "jobs",
            arrivals=tables.arrivals,
            seeds=tables.seeds,
            counters=tables.counters,
            counted=self._counted,
            rows=tables.rows,
            output=self._outputs,
            arrivals_count=[len(order.arrivals) for order in tables.orders],
            row_blocks=[order.row_blocks for order in tables.orders],
        )

    def prepare(self, trial: Trial) -> None:
        self.tables.prepare(trial)
        for counted, output in zip(self._counted, self._outputs, strict=True):
            counted.fill(0)
            poison(output)

    def wrong_tables(self) -> Iterator[Finding]:
        yield from self.tables.wrong(self.name)

    def launches(self, trial: Trial) -> list[Launch]:
        size = self.size
        shape = (size.row_vectors, size.producers, size.consumers)
        blocks = size.producers + size.consumers
        return self.grids(trial, blocks, size.threads, lambda device: (self._jobs[device], *shape))

    def corrupt_row(self, trial: Trial) -> int:
        return row_of_rank(trial, [len(order.arrivals) for order in self.tables.orders], "gets")

    def wrong_data(self, trial: Trial, report: Report) -> Iterator[Finding]:
        for rank, (arrivals, seeds, _) in enumerate(self.tables.counted):
            shape = (self.iterations, len(seeds) * ROW_BLOCK, self.size.row_words)
            output = words(self._outputs[rank], shape)
            for source in range(self.world.size):
                slots = [slot for of, _, slot, _ in arrivals if of == source]
                names = np.array([row for of, row, _, _ in arrivals if of == source], np.uint32)
                sent = payload(row_keys(self.iterations, source, names), self.size.row_words)
                where = f"row {{row}} of those from rank {source} behind a gate of rank {rank}"
                yield from compare_rows(report, sent, np.ascontiguousarray(output[:, slots]), where)
            counted = self._counted[rank].read(np.uint32, self.iterations * len(seeds))
            expected = ROW_BLOCK - np.array(seeds, np.int64)
            shown = counted.reshape(self.iterations, len(seeds))
            yield from compare_counts(f"behind gates of rank {rank}", shown, expected, ("row block",))

    def miscount(self, rank: int) -> None:
        increment(self._counted[rank])

    def slot_uses(self) -> list[SlotUse]:
        return []  # counters only

    def slot_total(self) -> int:
        return 0


class EndToEnd(Dispatch):
    """Dispatch, gate, an integer operation, combine, and the sum of each row's results."""

    name = "end-to-end"
    source = "verify_end_to_end.cu"

    def __init__(self, memory: EntryMemory, iterations: int, size: Size, routing: Routing) -> None:
        super().__init__(memory, iterations, size, routing)
        self.gates = gates = GateTables(memory, routing, iterations, size.row_bytes)
        self._routing = routing
        world, capacity = self.world.size, self.streams.capacity
        ranks = range(world)
        _, rows, choices = routing.experts.shape
        self.returns = [memory.shared(rank, world * capacity * size.row_bytes, "results") for rank in ranks]
        self._endpoints = memory.endpoints(self.landing, self.returns)
        self._elections = [memory.local(rank, 4 * world, "elections of results") for rank in ranks]
        self._sums = [memory.local(rank, iterations * rows * size.row_bytes, "sums") for rank in ranks]
        self._slot_tables = [memory.table(rank, self._slots_of(rank), "slots in expert order") for rank in ranks]
        self._result_tables = [memory.table(rank, self._results(rank), "results") for rank in ranks]
        self._ends = memory.structs(
            END_JOB,
            "end jobs",
            slot_of=self._slot_tables,
            arrivals=gates.arrivals,
            first=[memory.table(rank, _first_arrivals(gates.orders[rank]), "first arrivals") for rank in ranks],
            seeds=gates.seeds,
            experts=gates.experts,
            counters=gates.counters,
            rows=gates.rows,
            elections=self._elections,
            results=self._result_tables,
            sums=self._sums,
            row_blocks=[order.row_blocks for order in gates.orders],
            rows_count=rows,
            choices=choices,
        )

    def _slots_of(self, rank: int) -> np.ndarray:
        """[producer, position] of uint32: slots in expert order."""
        slots = np.zeros((self.world.size, self.streams.capacity), np.uint32)
        arrivals = self.gates.orders[rank].arrivals
        slots[arrivals["source"], arrivals["position"]] = arrivals["slot"]
        return slots

    def _results(self, rank: int) -> np.ndarray:
        """[rows, choices] of dtype RESULT: where each choice's result comes back."""
        to = self._routing.ranks[rank]
        results = np.full(to.shape, NOTHING, np.uint32).astype(RESULT)
        results["rank"] = np.where(to == NOWHERE, NOTHING, to)
        for consumer in range(self.world.size):
            chosen = to == consumer
            results["position"][chosen] = np.arange(np.count_nonzero(chosen))
        return results

    def prepare(self, trial: Trial) -> None:
        super().prepare(trial)
        self.gates.prepare(Trial(trial.iterations))
        for elections in self._elections:
            elections.fill(0)
        for sums in self._sums:
            poison(sums)

    def wrong_tables(self) -> Iterator[Finding]:
        yield from super().wrong_tables()
        yield from self.gates.wrong(self.name)
        world, capacity = self.world.size, self.streams.capacity
        for rank, (arrivals, _, _) in enumerate(self.gates.counted):
            given = self._slot_tables[rank].read(np.uint32, world * capacity).reshape(world, capacity)
            slots = recount.slots_of(arrivals, world, capacity)
            yield from compare_table(f"slots in expert order at rank {rank}", given, slots, ("source", "position"))
            results = recount.results(self._routing, rank, NOTHING)
            given = self._result_tables[rank].read(RESULT, len(results))
            yield from compare_fields(f"results of rank {rank}", given, results, "choice")

    def launches(self, trial: Trial) -> list[Launch]:
        size = self.size
        blocks = size.producers + size.consumers + size.gates + 1

        def arguments(device: int) -> tuple[Argument, ...]:
            endpoints, jobs, *shape = self.arguments(device)
            return endpoints, jobs, self._ends[device], *shape, size.gates

        return self.grids(trial, blocks, size.threads, arguments)

    def wrong_data(self, trial: Trial, report: Report) -> Iterator[Finding]:
        _, rows, choices = self._routing.experts.shape
        columns = np.arange(self.size.row_words, dtype=np.uint32)
        for rank, sums in enumerate(self._sums):
            shape = (self.iterations, rows, self.size.row_words)
            sent = payload(row_keys(self.iterations, rank, np.arange(rows)), self.size.row_words)
            expected = np.zeros(shape, np.uint32)
            for row in range(rows):
                for choice in range(choices):
                    expert = int(self._routing.experts[rank, row, choice])
                    if expert != NOWHERE:
                        expected[:, row] += sent[:, row] * np.uint32(3) + np.uint32(expert * 0x10001) + columns
            yield from compare_rows(report, expected, words(sums, shape), f"sum of row {{row}} at rank {rank}")
        yield from self.tables.wrong_counts(self.counted_routes)

    def slot_uses(self) -> list[SlotUse]:
        back = recount.return_routes(self.counted_routes)
        longest = self.streams.capacity
        return [*super().slot_uses(), *recount.written_slots(back, longest, RETURN_ROW, RETURN_ACK_ROW)]

    def slot_total(self) -> int:
        """Those of dispatch, and a signal and an acknowledgement for each stream back."""
        return super().slot_total() + 2 * self.world.size**2


def _first_arrivals(order: ExpertOrder) -> np.ndarray:
    """[row blocks + 1] of uint32: the number of each block's first arrival."""
    first = np.searchsorted(order.arrivals["slot"], np.arange(order.row_blocks + 1) * ROW_BLOCK)
    return first.astype(np.uint32)
