"""One launch of an entry: what it is asked to do, and what its checks found.

Must not know what an entry sends or where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pcietool.contract.outcomes import Hang
from pcietool.protocol.slots import SEQUENCES

Check = Literal["bytes", "count", "slots", "guards", "table", "deadline", "unordered"]
"""What found something: data at its reader, rows counted, slots stored to, words around slots, a table that the kernel
was given, a wait that gave up, an access that the emulator saw unordered."""
CorruptionKind = Literal["byte", "count", "route", "slot", "tally", "guard"]
"""One bit that is sent, a count or a route that a kernel is given; and, once it has run, a slot, a count that it made,
a word beside the slots."""
Point = Literal["writing", "reading"]
POINTS: Mapping[Point, int] = {"writing": 1, "reading": 2}
"""WRITING and READING of verify.cuh."""
NOBODY = 0xFFFFFFFF


@dataclass(frozen=True)
class Late:
    """One rank is late in each iteration, by ns, before it writes what it sends last or before it reads."""

    rank: int
    point: Point
    ns: int

    def __str__(self) -> str:
        return f"rank {self.rank} {self.ns / 1e3:g} µs late before {self.point}"


@dataclass(frozen=True)
class Corruption:
    """What is made wrong on purpose, by `rank` or at it."""

    kind: CorruptionKind
    rank: int = 0


@dataclass(frozen=True)
class Trial:
    """`iterations` in one launch, with sequence numbers from `start` on, modulo 2^32."""

    iterations: int
    start: int = 1
    late: Late | None = None
    corruption: Corruption | None = None
    defines: Mapping[str, int] = field(default_factory=dict)

    @property
    def before(self) -> int:
        """The sequence number that all slots begin with."""
        return (self.start - 1) % SEQUENCES

    @property
    def last(self) -> int:
        """The sequence number that ends up in every slot in use."""
        return (self.before + self.iterations) % SEQUENCES

    def corruption_of(self, rank: int) -> str | None:
        """Its kind, if it is this rank's."""
        return self.corruption.kind if self.corruption and self.corruption.rank == rank else None

    def arguments(self, first_rank: int, world: int, corrupt_row: int) -> tuple[int, ...]:
        """TRIAL_PARAMETERS of verify.cuh."""
        late = (self.late.rank, POINTS[self.late.point], self.late.ns) if self.late else (NOBODY, 0, 0)
        flips = self.corruption is not None and self.corruption.kind == "byte"
        corrupt_rank = self.corruption.rank if flips and self.corruption else NOBODY
        return first_rank, world, self.iterations, self.start, *late, corrupt_rank, corrupt_row


@dataclass(frozen=True)
class Finding:
    """Something wrong: which check found it, and what, where, expected and seen."""

    check: Check
    text: str


@dataclass
class Report:
    """What came of one trial."""

    findings: list[Finding] = field(default_factory=list)
    hang: Hang | None = None
    launched: bool = False
    """Wrong tables are not."""
    rows: int = 0
    """Read by somebody, in all iterations."""
    bytes_checked: int = 0
