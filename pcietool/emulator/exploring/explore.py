"""Every execution that PTX allows of kernels launched together, under the rules of `litmus.model.steps`.

Nothing here is timed. Whoever stops at `max_states` has proved nothing: `complete` says so. Must not judge outcomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from pcietool.emulator.engine.threads import GridSpec
from pcietool.emulator.exploring.explored_threads import PtxThreads
from pcietool.emulator.exploring.locations import TableChanged
from pcietool.emulator.memory import Memory
from pcietool.errors import EmulationError, UsageError
from pcietool.litmus.describe import interleaving
from pcietool.litmus.model.search import Bounds, Outcome, Search
from pcietool.litmus.model.state import State
from pcietool.litmus.model.steps import Model

MAX_STATES = 1_000_000
MAX_STEPS = 20_000
"""Of one execution."""


@dataclass(frozen=True)
class Observed:
    """`count` elements of memory that are looked at when all threads have ended."""

    address: int
    dtype: DTypeLike
    count: int


@dataclass
class KernelExploration(Search):
    """An outcome holds the final values of all that is observed, in its order."""

    def example(self, outcome: Outcome) -> list[str]:
        """An execution that ends so, one line a step."""
        return interleaving(self.model, self.execution(outcome))

    def hanging_example(self) -> list[str]:
        """An execution that hangs, one line a step; empty if none does."""
        return interleaving(self.model, self.hang) if self.hang else []


def explore(
    launches: Sequence[tuple[int, GridSpec]],
    memory: Memory,
    is_native: Callable[[int, int], bool],
    observe: Sequence[Observed] = (),
    max_states: int = MAX_STATES,
) -> KernelExploration:
    """`launches`, each with its device, run at the same time; `memory` is what they find, and stays as it is;
    `is_native(device, home)`: atomics of the device are performed at that home in one step.

    Raises UsageError for two launches on one device; EmulationError for what the emulator refuses, for accesses of
    two sizes to the same bytes, for what is not explored, and for an execution that does not end.
    """
    device, launched = Counter(device for device, _ in launches).most_common(1)[0]
    if launched > 1:
        raise UsageError(f"{launched} launches on GPU {device}: only kernels that run together are explored, one a GPU")
    threads = PtxThreads(launches, memory, is_native)
    too_long = EmulationError(f"an execution has more than {MAX_STEPS:,} steps; bound its loops, or launch less")
    while True:
        model = Model(threads)
        found = KernelExploration(model)
        try:
            found.run(partial(_outcome, threads, model, observe), Bounds(max_states, MAX_STEPS, too_long))
        except TableChanged:
            threads.renew_requests()
        else:
            return found


def _outcome(threads: PtxThreads, model: Model, observe: Sequence[Observed], state: State) -> Outcome:
    """What is observed, once what the threads wrote has been laid over the memory before."""
    written = dict(zip(threads.locations.places, model.memory(state), strict=True))
    values: list[int] = []
    for one in observe:
        kind = np.dtype(one.dtype)
        segment, offset = threads.memory_before.find(one.address, 1)
        raw = bytearray(segment.raw[offset : offset + kind.itemsize * one.count])
        for (address, size), value in written.items():
            first = address - one.address
            if 0 <= first < len(raw):
                raw[first : first + size] = value.to_bytes(size, "little")
        values += np.frombuffer(raw, kind).tolist()
    return tuple(values)
