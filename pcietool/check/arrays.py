"""Memory that a scenario talks about before there is any: arrays by name, and what of them a kernel is passed.

Symbolic: addresses come when a scenario is played. Must not know a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcietool.errors import ScenarioError

Values = ArrayLike | Callable[[int], ArrayLike] | None
"""What is there first, or has to be there: for all ranks, or by rank; None for zeros."""


@dataclass(frozen=True, eq=False)
class Piece:
    """`count` elements in one place: the memory of `rank`, or pinned host memory where that is None."""

    array: Array
    rank: int | None
    first: int = 0
    """The element that it starts with, where it is passed to a kernel."""

    @property
    def whole(self) -> Piece:
        """All of it, from its first element on."""
        return next(piece for piece in self.array.pieces if piece.rank == self.rank)

    @property
    def label(self) -> str:
        """Such as "signal of rank 1"."""
        if self.rank is None or len(self.array.pieces) == 1:
            return self.array.name
        return f"{self.array.name} of rank {self.rank}"

    def at(self, element: int) -> Piece:
        """The same memory from this element on, as a kernel is passed it. Raises ScenarioError beyond the end."""
        if not 0 <= element < self.array.count:
            raise ScenarioError(f"{self.label} has {self.array.count} elements; {element} is none of them")
        return Piece(self.array, self.rank, element)


class Array:
    """One piece a rank, or a single one. `array[rank]` is the piece of that rank."""

    def __init__(self, name: str, dtype: np.dtype, count: int, ranks: Sequence[int | None], initial: Values) -> None:
        self.name = name
        self.dtype = dtype
        self.count = count
        self.initial = initial
        self.pieces = tuple(Piece(self, rank) for rank in ranks)

    def __getitem__(self, rank: int) -> Piece:
        if not isinstance(rank, int | np.integer) or not 0 <= rank < len(self.pieces):
            raise ScenarioError(f"{self.name} has pieces 0 to {len(self.pieces) - 1}, not {rank!r}")
        return self.pieces[rank]

    @property
    def only(self) -> Piece:
        """The piece, if there is one alone. Raises ScenarioError."""
        if len(self.pieces) > 1:
            raise ScenarioError(f"{self.name} is an array on every rank; say whose: {self.name}[rank]")
        return self.pieces[0]

    def values(self, given: Values, piece: Piece) -> np.ndarray:
        """`given` for this piece, in the array's shape (count,) and type. Raises ScenarioError if it does not fit."""
        raw = given(piece.rank or 0) if callable(given) else given
        if raw is None:
            return np.zeros(self.count, self.dtype)
        try:
            found = np.asarray(raw)
            if found.dtype.kind in "iu" and self.dtype.kind in "iu":  # 2**32 - 1 and -1 are the same four bytes
                mask = (1 << 8 * self.dtype.itemsize) - 1
                found = np.array(found.astype(object) & mask, f"u{self.dtype.itemsize}").view(self.dtype)
            return np.ascontiguousarray(np.broadcast_to(found.astype(self.dtype), (self.count,)))
        except (TypeError, ValueError, OverflowError) as error:
            shape = "x".join(map(str, np.shape(raw))) or "one value"
            raise ScenarioError(
                f"{piece.label} has {self.count} elements of {self.dtype}, which {shape} of"
                f" {np.asarray(raw).dtype} does not fit; give one value, or as many as there are"
            ) from error


@dataclass(frozen=True, eq=False)
class Pointers:
    """A table in the launching rank's memory: the address of each piece, by rank."""

    array: Array


@dataclass(frozen=True, eq=False)
class Struct:
    """Passed by value: members laid out as C++ does, an array as the addresses of all its pieces."""

    members: tuple[Array | Piece | Pointers | np.generic, ...]
    nbytes: int | None = None
    """Filled up with zeros to so many: a table of eight pointers of which two are used."""


Passed = int | float | bytes | np.generic | np.ndarray | Array | Piece | Pointers | Struct
"""What may stand in a kernel's argument list."""
