"""The slot map: where each (owner, row, writer) slot lies, and that no two writers ever share a word.

The host's mirror of SLOT_STRIDE in kernels/slots.cuh. numpy only; must not allocate.
"""

from __future__ import annotations

from dataclasses import dataclass

SLOT_STRIDE = 128
GUARD_BYTES = 128
"""Before and after each slot array; filled with GUARD_BYTE and checked after every run."""
GUARD_BYTE = 0xA5
SEQUENCES = 2**32
"""Sequence numbers are words of 32 bits and wrap; none is reserved, neither 0 nor all ones."""


def ahead(one: int, other: int) -> int:
    """How far one sequence number is ahead of another, below 0 if it is behind: the difference that `reached` takes."""
    return (one - other + SEQUENCES // 2) % SEQUENCES - SEQUENCES // 2


@dataclass(frozen=True)
class SlotMap:
    """`rows` x `cols` slots of one owner; a slot's column is its only writer."""

    rows: int
    cols: int
    stride: int = SLOT_STRIDE

    @property
    def nbytes(self) -> int:
        """Of the slots alone."""
        return self.rows * self.cols * self.stride

    @property
    def padded_nbytes(self) -> int:
        """With the guards around them."""
        return self.nbytes + 2 * GUARD_BYTES

    def offset(self, row: int, col: int) -> int:
        """Bytes from the first slot."""
        if not (0 <= row < self.rows and 0 <= col < self.cols):
            raise IndexError(f"slot (row {row}, col {col}) outside {self.rows} x {self.cols}")
        return (row * self.cols + col) * self.stride
