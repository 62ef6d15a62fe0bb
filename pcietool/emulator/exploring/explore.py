"""All executions of kernels launched together, under the rules of `litmus.model.steps`, and which gaps are near.

Nothing here is timed. Whoever stops at `max_states` has proved nothing: `complete` says so. Must not judge outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from pcietool.emulator.exploring.explored_threads import PtxThreads
from pcietool.emulator.exploring.gaps import OWN_TIMERS, gaps
from pcietool.emulator.exploring.launches import ExploredLaunch
from pcietool.emulator.exploring.locations import TableChanged
from pcietool.emulator.exploring.scout import scout
from pcietool.emulator.memory import Memory
from pcietool.errors import EmulationError
from pcietool.litmus.describe import interleaving
from pcietool.litmus.model.search import Bounds, Outcome, Search
from pcietool.litmus.model.state import State
from pcietool.litmus.model.steps import Model
from pcietool.litmus.text.program import Verdict

MAX_STATES = 1_000_000
MAX_STEPS = 20_000
"""Of one execution."""
BOUNDS = Bounds(
    MAX_STATES,
    MAX_STEPS,
    EmulationError(f"an execution has more than {MAX_STEPS:,} steps; bound its loops, or launch less"),
)


@dataclass(frozen=True)
class Observed:
    """`count` elements of memory that are looked at when all threads have ended."""

    address: int
    dtype: DTypeLike
    count: int


@dataclass
class KernelExploration(Search):
    """An outcome holds the final values of all that is observed, in its order. `gaps`: what may hide outcomes that PTX
    allows; without any, and if it is complete, there are no others."""

    gaps: tuple[str, ...] = field(default=(), init=False)

    @property
    def hangs(self) -> Verdict:
        """Whether an execution may never end. Time stands still here: a kernel that looks at it may end by itself."""
        if self.hung and OWN_TIMERS in self.gaps:
            return "undecided"
        return "allowed" if self.hung else self._not_found

    def verdict(self, sought: Callable[[Outcome], bool]) -> Verdict:
        """Whether an execution may end so."""
        return "allowed" if any(map(sought, self.outcomes)) else self._not_found

    @property
    def _not_found(self) -> Verdict:
        return "forbidden" if self.complete and not self.gaps else "undecided"

    def example(self, outcome: Outcome) -> list[str]:
        """An execution that ends so, one line a step."""
        return interleaving(self.model, self.execution(outcome))

    def hanging_example(self) -> list[str]:
        """An execution that hangs, one line a step; empty if none does."""
        return interleaving(self.model, self.hang) if self.hang else []


def explore(
    launches: Sequence[ExploredLaunch],
    memory: Memory,
    is_native: Callable[[int, int], bool],
    bytes_whole: Callable[[int], float],
    observe: Sequence[Observed] = (),
    bounds: Bounds = BOUNDS,
) -> KernelExploration:
    """`launches` run from `memory` as it is, which stays so; `is_native(device, home)`: atomics of the device are
    performed at that home in one step; `bytes_whole(home)`: up to how many bytes a vector there is one access.

    Raises EmulationError for what the emulator refuses, for what is not explored, and for an execution that does not
    end.
    """
    threads = PtxThreads(launches, memory, is_native, bytes_whole)
    scout(threads)
    until = bounds.clock() + bounds.seconds
    while True:
        try:
            threads.renew_requests()
            model = Model(threads)
            found = KernelExploration(model)
            found.run(partial(_outcome, threads, model, observe), replace(bounds, seconds=until - bounds.clock()))
        except TableChanged:
            continue
        found.gaps = tuple(gaps(threads, model, found))
        return found


def _outcome(threads: PtxThreads, model: Model, observe: Sequence[Observed], state: State) -> Outcome:
    """What is observed, once what the threads wrote has been laid over the memory before."""
    written = list(zip(threads.locations.cells, model.memory(state), strict=True))
    values: list[int] = []
    for one in observe:
        kind = np.dtype(one.dtype)
        nbytes = kind.itemsize * one.count
        segment, offset = threads.memory_before.find(one.address, 1)
        raw = bytearray(segment.raw[offset : offset + nbytes])
        for cell, value in written:
            first = cell.address - one.address
            if -cell.size < first < nbytes:
                content = value.to_bytes(cell.size, "little")[max(0, -first) : nbytes - first]
                raw[max(0, first) : max(0, first) + len(content)] = content
        values += np.frombuffer(raw, kind).tolist()
    return tuple(values)
