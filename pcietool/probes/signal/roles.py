"""What a block of the ping-pong kernel is told, and what it leaves behind.

The host's mirror of enums and structs in kernels/signal.cu. Must not allocate or launch (`ping_pong`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np

VECTOR = 16
"""Bytes that a thread moves at once."""


class Kind(IntEnum):
    STARTS = 0
    ANSWERS = 1
    MOVES = 2
    POLLS = 3


class Injection(IntEnum):
    NONE = 0
    DIE = 1
    DROP = 2
    DELAY = 3
    CORRUPT = 4
    EARLY = 5
    BACK = 6


FAULTS = {1: "payload", 2: "value"}
FAULT = np.dtype([(name, "<u4") for name in ("count", "kind", "round", "word")] + [("wanted", "<u8"), ("got", "<u8")])
RESULT = np.dtype([("began_ns", "<u8"), ("ended_ns", "<u8"), ("done", "<u8")])
ROLE = np.dtype(
    [(name, "<u8") for name in ("theirs", "mine", "sends", "receives")]
    + [(name, "<u4") for name in ("kind", "rank", "row", "col", "writer", "injection")]
    + [("delay_ns", "<u8"), ("passes", "<u4"), ("amount", "<u4")]
)


class Pair(NamedTuple):
    """`writer` starts each round by storing to the slot of `owner`, who answers."""

    writer: int
    owner: int

    def __str__(self) -> str:
        return f"{self.writer}, {self.owner}"


@dataclass(frozen=True)
class Role:
    """What one block of `rank` does; the fields of ROLE."""

    kind: Kind
    rank: int
    theirs: int = 0
    mine: int = 0
    sends: int = 0
    receives: int = 0
    row: int = 0
    col: int = 0
    writer: int = 0
    injection: Injection = Injection.NONE
    delay_ns: int = 0
    passes: int = 0
    amount: int = 0

    def fields(self) -> tuple[int, ...]:
        return tuple(int(getattr(self, name)) for name in ROLE.names or ())


@dataclass
class LaunchRecord:
    """What one launch left behind, block by block, in the order of its roles."""

    roles: Sequence[Role]
    results: list[np.void] = field(default_factory=list)
    faults: list[np.void] = field(default_factory=list)
    stamps: list[np.ndarray] = field(default_factory=list)

    def periods_ns(self) -> dict[Pair, np.ndarray]:
        """Each round trip of each pair, [rounds]: SM clock scaled to globaltimer over the same block."""
        periods = {}
        for role, result, stamps in zip(self.roles, self.results, self.stamps, strict=True):
            if role.kind is Kind.STARTS:
                cycles = np.diff(stamps).astype(np.float64)  # unsigned differences survive the clock's wrap
                periods[Pair(role.rank, role.col)] = cycles * (_span_ns(result) / cycles.sum())
        return periods

    def moved_gb_per_s(self) -> float | None:
        """What all movers moved together; each counts over its own time, they ran at the same time."""
        moved = [(r, o) for r, o in zip(self.roles, self.results, strict=True) if r.kind is Kind.MOVES]
        if not moved:
            return None
        return float(sum(int(o["done"]) * r.amount * VECTOR / _span_ns(o) for r, o in moved))

    def polls_per_us(self) -> float:
        """Of all blocks that only poll, together."""
        polled = [o for r, o in zip(self.roles, self.results, strict=True) if r.kind is Kind.POLLS]
        return float(sum(int(o["done"]) / _span_ns(o) * 1e3 for o in polled))

    def wrong(self) -> list[str]:
        """One line for each block that found something wrong."""
        return [_fault_text(role, fault) for role, fault in zip(self.roles, self.faults, strict=True) if fault["count"]]


def _span_ns(result: np.void) -> float:
    return max(1.0, float(result["ended_ns"]) - float(result["began_ns"]))


def _fault_text(role: Role, fault: np.void) -> str:
    where = f"rank {role.rank} from rank {role.col}, round {fault['round']}"
    if FAULTS[int(fault["kind"])] == "payload":
        return f"{where}: payload word {fault['word']} is {fault['got']:#x}, not {fault['wanted']:#x}"
    slot = f"slot (row {role.row}, col {role.col})"
    return f"{where}: {slot} did not go straight to {fault['wanted']}, last seen {fault['got']}"
