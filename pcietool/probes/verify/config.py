"""What verify is asked to prove, and what that means on one machine: sizes, iterations, entries, distributions.

Must not touch memory or launch anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pcietool.errors import UsageError
from pcietool.machines.base import Machine
from pcietool.probes.common.injections import checked
from pcietool.probes.common.world import SELF_RANKS, Transport
from pcietool.probes.verify.pushes import VECTOR_BYTES, Size
from pcietool.probes.verify.traffic import Direction
from pcietool.protocol.chunks import ARTICLE_CHUNK
from pcietool.protocol.routing import DISTRIBUTIONS, EDGES, Distribution, Workload

EntryName = Literal["signal", "barrier", "dispatch", "combine", "gate", "end-to-end"]
ENTRIES: tuple[EntryName, ...] = get_args(EntryName)
ROUTED: tuple[EntryName, ...] = ("dispatch", "combine", "gate", "end-to-end")
"""Entries that run with every distribution."""
INJECTIONS = ("corrupt-byte", "corrupt-count", "corrupt-route", "stall=US")
WRAP = 2**31
"""The first sequence number that is negative as a signed one."""
STARTS = (1, WRAP - 4)
"""First sequence numbers: from the beginning, and across the wrap of signed numbers."""
MOST_ROWS = 2**16
"""A returned row is named by 16 bits of its position."""
CHOICES = 2
MOST_ITERATIONS = 500
"""Of a launch: everything that was read waits in memory to be compared."""
LONGEST_ROW = 16 * 1024
PIECES = 4
"""Of a chunk, if it is long enough."""
MOST_PIECE_BYTES = 32 * 1024
"""A bulk store takes a piece from shared memory."""


class VerifyConfig(BaseModel):
    """What to prove. None means the machine's usual."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    entries: tuple[EntryName, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    transport: Transport | Literal["all"] | None = None
    iterations: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS // 16)] | None = None
    experts: Annotated[int, Field(ge=1, le=4096)] | None = None
    row_bytes: Annotated[int, Field(ge=VECTOR_BYTES, le=LONGEST_ROW, multiple_of=VECTOR_BYTES)] | None = None
    mutants: bool = False
    soak_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    load: Direction = "none"
    timeout_s: Annotated[float, Field(gt=0)] = 2.0
    seed: Annotated[int, Field(ge=0)] = 0
    inject: str | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> VerifyConfig:
        checked(self.inject, INJECTIONS)
        if self.mutants and (self.inject or self.soak_s or self.distributions or self.load != "none"):
            raise UsageError("--mutants chooses faults and loads by itself; leave --inject, --soak, --distribution and"
                             " --load out")  # fmt: skip
        if self.distributions and not set(self.chosen_entries) & set(ROUTED):
            raise UsageError(f"--distribution: only {', '.join(ROUTED)} have one; name one of them")
        if self.inject in ("corrupt-count", "corrupt-route") and not set(self.chosen_entries) & set(ROUTED):
            raise UsageError(f"--inject {self.inject}: only {', '.join(ROUTED)} are given tables; name one of them")
        return self

    @property
    def chosen_entries(self) -> tuple[EntryName, ...]:
        """Each once, in the order in which they build on each other."""
        return tuple(name for name in ENTRIES if name in self.entries) or ENTRIES

    @property
    def chosen_distributions(self) -> tuple[Distribution, ...]:
        return tuple(name for name in DISTRIBUTIONS if name in self.distributions) or DISTRIBUTIONS


@dataclass(frozen=True)
class Effort:
    """How much is sent how often: little where every instruction is emulated."""

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
        on_gpus = machine.backend == "cuda"
        ranks = SELF_RANKS if transport == "self" else len(machine.devices)
        rows = config.rows or (64 if on_gpus else 2)
        experts = config.experts or 2 * ranks
        if experts > ranks * rows:
            raise UsageError(f"--experts {experts}: {ranks} ranks with {rows} rows each have only {ranks * rows} rows;"
                             " use fewer experts or more --rows")  # fmt: skip
        if experts % ranks:
            raise UsageError(f"--experts {experts}: must be a multiple of the {ranks} ranks, which share them evenly")
        return cls(
            ranks=ranks,
            rows=rows,
            choices=CHOICES,
            experts_a_rank=experts // ranks,
            row_bytes=config.row_bytes or (2048 if on_gpus else 256),
            chunk_rows=ARTICLE_CHUNK,
            threads=128 if on_gpus else 16,
            producers=8 if on_gpus else 2,
            consumers=4 if on_gpus else 1,
            gates=4 if on_gpus else 1,
            iterations=config.iterations,
        )

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
        """(first sequence number, iterations) of each launch: half of the iterations from the beginning, half across
        the wrap."""
        halves = (self.iterations - self.iterations // len(STARTS), self.iterations // len(STARTS))
        starts = (STARTS[0], max(STARTS[1], WRAP - halves[1] // 2))  # few iterations begin closer to the wrap
        return [
            (start + done, min(MOST_ITERATIONS, half - done))
            for start, half in zip(starts, halves, strict=True)
            for done in range(0, half, MOST_ITERATIONS)
        ]
