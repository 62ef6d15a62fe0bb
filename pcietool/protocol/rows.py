"""What `verify` sends: words that depend on iteration, source, row and column, so that nothing passes for another.

The host's mirror of row_key and payload in kernels/verify.cuh. numpy only; must not know where rows lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

POISON = 0xDEADBEEF
"""What lies in every word before it is written, and again once it was read."""
_MASK = 0xFFFFFFFF


def row_keys(iterations: int, source: int, rows: np.ndarray) -> np.ndarray:
    """[iterations, rows] of uint32; `rows` names the rows, [rows]."""
    key = (np.arange(iterations, dtype=np.uint32) * np.uint32(0x9E3779B1))[:, None]
    key = key ^ (rows.astype(np.uint32) * np.uint32(0xC2B2AE35)) ^ np.uint32(source * 0x85EBCA6B & _MASK)
    key = (key ^ key >> np.uint32(15)) * np.uint32(0x2C1B3C6D)
    keys: np.ndarray = key ^ key >> np.uint32(12)
    return keys


def payload(keys: np.ndarray, columns: int) -> np.ndarray:
    """[..., columns] of uint32 for keys [...]. Words of a row, and of a column, all differ."""
    words: np.ndarray = (keys[..., None] ^ np.arange(columns, dtype=np.uint32)) * np.uint32(0x297A2D39)
    return words


@dataclass(frozen=True)
class WrongByte:
    """The first byte that is not what was sent. `iteration` and `row` index the arrays compared."""

    iteration: int
    row: int
    byte: int
    expected: int
    seen: int
    wrong_bytes: int
    """Of all that was compared, this one included."""
    origin: str
    """What the wrong row looks like."""

    def __str__(self) -> str:
        others = f"; {self.wrong_bytes} bytes are wrong in all" if self.wrong_bytes > 1 else ""
        return f"byte {self.byte} is {self.seen:#04x}, expected {self.expected:#04x} ({self.origin}{others})"


def first_wrong_byte(expected: np.ndarray, seen: np.ndarray) -> WrongByte | None:
    """Compares [iterations, rows, words] of uint32, byte by byte."""
    if np.array_equal(expected, seen):
        return None
    wrong = expected.view(np.uint8) != seen.view(np.uint8)
    iteration, row, byte = (int(index) for index in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return WrongByte(
        iteration,
        row,
        byte,
        int(expected.view(np.uint8)[iteration, row, byte]),
        int(seen.view(np.uint8)[iteration, row, byte]),
        int(np.count_nonzero(wrong)),
        _origin(expected, seen, iteration, row),
    )


def _origin(expected: np.ndarray, seen: np.ndarray, iteration: int, row: int) -> str:
    """Where what lies in a wrong row came from, as far as it is one of the rows that were sent."""
    got = seen[iteration, row]
    if np.all(got == POISON):
        return "nothing had arrived"
    others = np.argwhere((expected == got).all(axis=-1))
    if len(others):
        of_iteration, of_row = (int(index) for index in others[0])
        return f"row {of_row} of iteration {of_iteration}"
    if np.any(got == POISON):
        return "only a part had arrived"
    return "a mixture or a changed word"
