"""The entries signal and barrier: every rank sends a message to every other, in each iteration.

Mirrors verify_signal.cu and verify_barrier.cu of kernels/verify/; needs no routing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from pcietool.machines.base import Launch
from pcietool.probes.verify.entry import ACK_ROW, FIRST_ROW, Entry, EntryMemory, SlotUse, compare_rows, poison, words
from pcietool.probes.verify.trial import Finding, Report, Trial
from pcietool.protocol.rows import payload, row_keys

MESSAGE_WORDS = 16
BOARDS = 2
"""Of a barrier: two rounds take turns."""
THREADS = 64
VECTOR_BYTES = 16


class Signal(Entry):
    """From thread to thread, each message acknowledged."""

    name = "signal"
    source = "verify_signal.cu"

    def __init__(self, memory: EntryMemory, iterations: int) -> None:
        super().__init__(memory, iterations)
        ranks = range(self.world.size)
        self._pairs = list(permutations(ranks, 2))
        """(reader, writer)"""
        nbytes = BOARDS * len(ranks) * MESSAGE_WORDS * 4 + VECTOR_BYTES
        self._landing = [memory.shared(rank, nbytes, "messages") for rank in ranks]
        self._outputs = [memory.local(rank, iterations * len(ranks) * MESSAGE_WORDS * 4, "output") for rank in ranks]
        self._endpoints = memory.endpoints(self._landing)
        addresses = np.array([output.address for output in self._outputs], np.uint64)
        self._output_tables = memory.on_every_device(addresses, "outputs")

    def prepare(self, trial: Trial) -> None:
        for output in self._outputs:
            poison(output)

    def wrong_tables(self) -> Iterator[Finding]:
        return iter(())  # the kernel is given none

    def launches(self, trial: Trial) -> list[Launch]:
        return self.grids(trial, 1, THREADS, lambda device: (self._endpoints[device], self._output_tables[device]))

    def corrupt_row(self, trial: Trial) -> int:
        rank = trial.corruption.rank if trial.corruption else 0
        return (rank + 1) % self.world.size  # a message is named by its reader

    def wrong_data(self, trial: Trial, report: Report) -> Iterator[Finding]:
        shape = (self.iterations, self.world.size, MESSAGE_WORDS)
        outputs = [words(output, shape) for output in self._outputs]
        for reader, writer in self._pairs:
            sent = payload(row_keys(self.iterations, writer, np.array([reader])), MESSAGE_WORDS)
            seen = np.ascontiguousarray(outputs[reader][:, writer : writer + 1])
            yield from compare_rows(report, sent, seen, f"message from rank {writer} at rank {reader}")

    def slot_uses(self) -> list[SlotUse]:
        return [(reader, row, writer) for reader, writer in self._pairs for row in (FIRST_ROW, ACK_ROW)]

    def slot_total(self) -> int:
        """A signal and an acknowledgement for each ordered pair."""
        return 2 * self.world.size * (self.world.size - 1)


class Barrier(Signal):
    """From all threads of a rank to all threads of each other, with an all-GPU barrier between."""

    name = "barrier"
    source = "verify_barrier.cu"

    _counts_remotely = False
    """Instead of slots, as one of the mutants does: then a word behind the boards is incremented by all ranks."""

    def prepare(self, trial: Trial) -> None:
        super().prepare(trial)
        self._counts_remotely = bool(trial.defines.get("ARRIVED_BY"))
        for landing in self._landing:
            landing.write(np.full(1, trial.before, np.uint32), landing.nbytes - VECTOR_BYTES)

    def slot_uses(self) -> list[SlotUse]:
        return [] if self._counts_remotely else [(reader, FIRST_ROW, writer) for reader, writer in self._pairs]

    def slot_total(self) -> int:
        """A signal for each ordered pair."""
        return 0 if self._counts_remotely else self.world.size * (self.world.size - 1)
