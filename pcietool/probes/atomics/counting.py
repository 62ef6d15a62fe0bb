"""One round in which several requesters count on one word: the buffers, the launches, and what came of it.

Must not decide which rounds are worth running, nor what a loss means; `atomics` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from pcietool.errors import UsageError
from pcietool.machines.base import Buffer, Launch, Place
from pcietool.machines.host_agents import HostAgent
from pcietool.probes.atomics.config import Grid, Kind, Operation, Scope
from pcietool.probes.atomics.marks import LAP, MARKING, Marks, numbers, words_of
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.structs import struct_of
from pcietool.probes.common.world import World
from pcietool.protocol.slots import SLOT_STRIDE

OPERATIONS: Mapping[str, int] = {
    "add": 0, "inc": 1, "dec": 2, "cas": 3, "exch": 4, "min": 5, "max": 6, "and": 7, "or": 8, "xor": 9,
}  # fmt: skip
"""The values of OPERATION in kernels/atomics.cu."""
WITHOUT_RED: tuple[Operation, ...] = ("cas", "exch")
"""They only exist with a result."""
CPU_CAN_JOIN: tuple[Operation, ...] = ("add", "inc", "cas")
"""The CPU thread only ever adds 1, so the GPUs have to count upwards too."""
KEPT_OLD_VALUES = 2**20
"""Of one requester; mirrors kernels/atomics.cu."""
WORD_RANGE = 2**32
ROUND = np.dtype(
    [(name, "<u8") for name in ("gates", "cpu_word", "word", "slots", "counted", "old_values")]
    + [(name, "<u4") for name in ("rank", "requesters", "world", "sequence", "first_thread", "operations")]
)
"""Round of kernels/atomics.cu."""


@dataclass(frozen=True)
class Form:
    """What a GPU does in a round. Only the operations that OPERATIONS lists are read-modify-writes of the word."""

    operation: Operation | Literal["slots", "plain", "wide", "beside", "nothing", "load", "cas beside"]
    kind: Kind | Literal["store", "load+store", "no-op", "control"]
    scope: Scope

    @property
    def entry(self) -> str:
        """The kernel that does this."""
        return f"count_{self.kind}_{self.scope}" if self.operation in OPERATIONS else f"count_{self.operation}"

    @property
    def defines(self) -> dict[str, int]:
        return {"OPERATION": OPERATIONS.get(self.operation, OPERATIONS["add"])}

    def __str__(self) -> str:
        if self.kind == "no-op":
            return f"{self.kind} {self.operation}"
        return f"{self.kind}.{self.scope}.{self.operation}" if self.operation in OPERATIONS else self.operation


SLOTS = Form("slots", "store", "sys")
PLAIN = Form("plain", "load+store", "gpu")
WIDE = Form("wide", "red", "sys")
"""One 64-bit atomic over the word and the one beside it."""
BESIDE = Form("beside", "store", "sys")
"""Stores to the word beside the counted one, and reads it back."""


@dataclass(frozen=True)
class Requesters:
    """Who counts: GPUs by rank, which is also their index, and the CPU."""

    gpus: tuple[int, ...]
    cpu: bool = False

    @property
    def count(self) -> int:
        return len(self.gpus) + self.cpu

    @property
    def names(self) -> list[str]:
        return [f"GPU {gpu}" for gpu in self.gpus] + ["CPU"] * self.cpu

    def bits(self, world: int) -> int:
        """As the kernel takes them: bit r for rank r, bit `world` for the CPU."""
        return sum(1 << gpu for gpu in self.gpus) | self.cpu << world

    def __str__(self) -> str:
        first, last = self.gpus[0], self.gpus[-1]
        is_range = len(self.gpus) > 2 and last - first == len(self.gpus) - 1
        numbers = f"{first}-{last}" if is_range else ",".join(map(str, self.gpus))
        return f"GPU{'s' if last > first else ''} {numbers}{' + CPU' if self.cpu else ''}"


@dataclass(frozen=True)
class Count:
    """What came of one round."""

    wanted: int
    """Operations that were asked for."""
    made: int
    """Fewer if the deadline came first."""
    expected: int
    """How many of these must show afterwards: all, of `min` and `max` one a word."""
    seen: int | None
    """How many of them the word, or the slots, show. None: `reason`."""
    repeated_old_values: int | None
    """How often an atom returned a value that another had already returned."""
    elapsed_ns: float
    """GPU time of the slowest requester, with launch and start gate."""
    reason: str | None = None

    def and_then(self, other: Count) -> Count:
        """Both, one after the other."""
        assert self.seen is not None
        assert other.seen is not None
        repeated = None
        if self.repeated_old_values is not None and other.repeated_old_values is not None:
            repeated = self.repeated_old_values + other.repeated_old_values
        return Count(
            self.wanted + other.wanted,
            self.made + other.made,
            self.expected + other.expected,
            self.seen + other.seen,
            repeated,
            self.elapsed_ns + other.elapsed_ns,
            self.reason or other.reason,
        )


class Counter:
    """A word and slots on one home, and all requesters that can reach them."""

    def __init__(self, world: World, home: Place, most_threads: int) -> None:
        """`most_threads`: of one GPU in any round."""
        self.world = world
        self._memory = memory = Memory(world)
        self._cpu_slot = world.size * most_threads
        self._word = memory.alloc(home, SLOT_STRIDE, "the word that is counted on")
        self._slots = memory.alloc(home, (self._cpu_slot + 1) * SLOT_STRIDE, "slots of the counting threads")
        self._counted = memory.per_device(4 * most_threads, "counts of the threads")
        self._old_values = memory.per_device(4 * KEPT_OLD_VALUES, "old values")
        self._marked: Buffer | None = None
        self._sequence = 0

    def run(self, form: Form, requesters: Requesters, grid: Grid, operations: int, dead: int | None = None) -> Count:
        """`operations` by each thread of each GPU of `requesters`, and as many as one GPU makes by the CPU.

        Requester `dead` is not started, for a demonstration of what happens then. Raises Hung, and UsageError for
        more operations than a 32-bit word can count.
        """
        wanted = requesters.count * grid.size * operations
        if wanted >= WORD_RANGE:
            raise UsageError(f"{wanted:,} operations do not fit a 32-bit word; use fewer --iters or threads")
        if form.operation not in MARKING:
            return self._count(form, requesters, grid, operations, dead)
        laps = (min(LAP, operations - begun) for begun in range(0, operations, LAP))
        return reduce(Count.and_then, (self._mark(form, requesters, grid, lap, dead) for lap in laps))

    def _count(self, form: Form, requesters: Requesters, grid: Grid, operations: int, dead: int | None) -> Count:
        """One round on one word, or on slots."""
        each = grid.size * operations
        wanted = requesters.count * each
        start = wanted if form.operation == "dec" else 0
        self._word.write(np.array([start], np.uint32))
        if form == SLOTS:
            self._slots.fill(0)
        agents = [self._agent(form, each)] * requesters.cpu
        elapsed_ns = self._round(form, requesters, grid, operations, dead, agents)
        made = sum(int(self._made(gpu, grid).sum()) for gpu in requesters.gpus) + each * requesters.cpu
        old_values, reason = self._read_old_values(form, requesters, each, made == wanted)
        repeated = None if old_values is None else int(old_values.size - np.unique(old_values).size)
        return Count(wanted, made, made, self._seen(form, start, old_values), repeated, elapsed_ns, reason)

    def _mark(self, form: Form, requesters: Requesters, grid: Grid, operations: int, dead: int | None) -> Count:
        """One round on as many words as it takes."""
        each = grid.size * operations
        wanted = requesters.count * each
        words = words_of(wanted)
        if self._marked is None or self._marked.nbytes < 4 * words:
            self._marked = self._memory.alloc(self._word.place, 4 * words, "the words that are marked")
        marks = Marks(form.operation)
        self._marked.fill(marks.start)
        elapsed_ns = self._round(form, requesters, grid, operations, dead)
        called = np.concatenate(
            [
                numbers(self._made(gpu, grid), operations, position, requesters.count, self._sequence).ravel()
                for position, gpu in enumerate(requesters.gpus)
            ]
        )
        made = int(np.count_nonzero(called >= 0))
        expected, seen = marks.compare(
            marks.wanted(called[called >= 0], words), marks.upright(self._marked.read(np.uint32, words))
        )
        old_values, reason = self._read_old_values(form, requesters, each, made == wanted)
        repeated = None if old_values is None else marks.repeated(called, old_values)
        return Count(wanted, made, expected, seen, repeated, elapsed_ns, reason)

    def _round(
        self,
        form: Form,
        requesters: Requesters,
        grid: Grid,
        operations: int,
        dead: int | None,
        agents: Sequence[HostAgent] = (),
    ) -> float:
        """GPU time of the slowest requester in ns. Raises Hung."""
        self._sequence += 1
        launches = [
            self._launch(form, requesters, grid, operations, position)
            for position, gpu in enumerate(requesters.gpus)
            if gpu != dead
        ]
        during = f"{form} by {requesters}, {grid}" if dead is None else f"--inject dead-rank, GPU {dead} not started"
        return max(self.world.run(launches, during, agents).elapsed_ns.values())

    def beside(self, form: Form, counting: int, storing: int, operations: int) -> tuple[int, int]:
        """(stores made, stores lost) by GPU `storing`, the only writer of the word beside the one on which GPU
        `counting` counts meanwhile: a store is lost if the word shows another value a microsecond later. Raises Hung.
        """
        requesters, grid = Requesters((counting, storing)), Grid(1, 1)
        self._word.fill(0)
        self._sequence += 1
        launches = [
            self._launch(form, requesters, grid, operations, 0),
            # Each store takes about twice as long.
            self._launch(BESIDE, requesters, grid, max(1, operations // 2), 1),
        ]
        self.world.run(launches, f"stores by GPU {storing} beside a counted word")
        made = int(self._counted[storing].read(np.uint32, 1)[0])
        kept = self._old_values[storing].read(np.uint32, min(made, KEPT_OLD_VALUES))
        return kept.size, int(np.count_nonzero(kept != np.arange(1, kept.size + 1)))

    def free(self) -> None:
        self._memory.free()

    def _launch(self, form: Form, requesters: Requesters, grid: Grid, operations: int, position: int) -> Launch:
        kernel = self.world.machine.load("atomics.cu", form.defines).kernel(form.entry)
        rank = requesters.gpus[position]
        agent = self._agent(form, 0)
        given = struct_of(
            ROUND,
            gates=self.world.tables[rank],
            cpu_word=agent.buffer.address + agent.offset,
            word=self._marked if form.operation in MARKING and self._marked else self._word,
            slots=self._slots,
            counted=self._counted[rank],
            old_values=self._old_values[rank],
            rank=rank,
            requesters=requesters.bits(self.world.size),
            world=self.world.size,
            sequence=self._sequence,
            first_thread=position * grid.size,
            operations=operations,
        )
        return Launch(
            rank,
            kernel,
            grid.blocks,
            grid.threads,
            args=(given,),
        )

    def _agent(self, form: Form, adds: int) -> HostAgent:
        """The CPU thread; among single-writer slots it has its own."""
        if form == SLOTS:
            return HostAgent(self._slots, self._cpu_slot * SLOT_STRIDE, adds)
        return HostAgent(self._word, 0, adds)

    def _made(self, gpu: int, grid: Grid) -> np.ndarray:
        """[threads]: operations that each thread made."""
        return self._counted[gpu].read(np.uint32, grid.size)

    def _read_old_values(
        self, form: Form, requesters: Requesters, each: int, complete: bool
    ) -> tuple[np.ndarray | None, str | None]:
        """Of all GPUs, or (None, why not)."""
        if form.kind != "atom":
            return None, None
        if requesters.cpu:
            return None, "no old values returned twice where the CPU counts: what it saw is not recorded"
        if each > KEPT_OLD_VALUES:
            return None, f"old values are only kept of {KEPT_OLD_VALUES:,} operations a GPU; use fewer --iters"
        if not complete:
            return None, "no old values: the round was cut short"
        return np.concatenate([self._old_values[gpu].read(np.uint32, each) for gpu in requesters.gpus]), None

    def _seen(self, form: Form, start: int, old_values: np.ndarray | None) -> int | None:
        """Reads the word, or the slots, where they lie."""
        if form == SLOTS:
            slots = self._slots.read(np.uint32)[:: SLOT_STRIDE // 4]
            return int(slots.sum(dtype=np.uint64))
        word = int(self._word.read(np.uint32, 1)[0])
        if form.operation == "dec":
            return (start - word) % WORD_RANGE
        if form.operation != "exch":
            return word
        if old_values is None:
            return None
        written_and_found = np.unique(np.append(old_values, np.uint32(word)))
        return int(np.count_nonzero(written_and_found))  # 0 is what the word held at the start
