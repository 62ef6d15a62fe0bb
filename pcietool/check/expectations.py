"""What has to be true of memory at some point of a scenario, and what is said where it is not.

Must not know where values come from: a run, or an execution that exploring found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pcietool.check.arrays import Array, Piece, Values
from pcietool.errors import ScenarioError

Reader = Callable[[Piece], np.ndarray]
"""The values of a piece, in its array's type."""


@dataclass(frozen=True)
class Wrong:
    """One piece that is not as expected: the first such element, or none where all together are judged."""

    label: str
    text: str

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


class Expectation(ABC):
    """About one array, or several."""

    @abstractmethod
    def wrong(self, read: Reader) -> Iterator[Wrong]:
        """Raises ScenarioError if it cannot be judged."""


@dataclass(frozen=True, eq=False)
class Equal(Expectation):
    """Each piece holds these values, floats up to `tolerance`, relative or absolute."""

    array: Array
    expected: Values
    tolerance: float

    def wrong(self, read: Reader) -> Iterator[Wrong]:
        for piece in self.array.pieces:
            seen, expected = read(piece), self.array.values(self.expected, piece)
            if self.tolerance and seen.dtype.kind == "f":
                bad = ~np.isclose(seen, expected, self.tolerance, self.tolerance, equal_nan=True)
            elif seen.dtype.kind == "f":
                bad = ~((seen == expected) | (np.isnan(seen) & np.isnan(expected)))
            else:
                bad = seen != expected
            if bad.any():
                first = int(bad.argmax())
                yield Wrong(
                    piece.label,
                    f"[{first}] is {seen[first]}, expected {expected[first]}; {bad.sum()} of {bad.size} elements wrong",
                )


@dataclass(frozen=True, eq=False)
class Same(Expectation):
    """All ranks hold the same values, whatever they are."""

    array: Array

    def wrong(self, read: Reader) -> Iterator[Wrong]:
        first, *others = self.array.pieces
        reference = read(first)
        for piece in others:
            differs = read(piece).view(np.uint8) != reference.view(np.uint8)
            if differs.any():
                index = int(differs.argmax()) // self.array.dtype.itemsize
                yield Wrong(piece.label, f"[{index}] is {read(piece)[index]}, but {reference[index]} in {first.label}")


@dataclass(frozen=True, eq=False)
class That(Expectation):
    """`holds(values, rank)` is true of each piece."""

    array: Array
    holds: Callable[[np.ndarray, int], object]
    about: str

    def wrong(self, read: Reader) -> Iterator[Wrong]:
        for piece in self.array.pieces:
            values = read(piece)
            try:
                holds = bool(self.holds(values, piece.rank or 0))
            except Exception as error:
                raise ScenarioError(
                    f"the expectation of {piece.label} raised {type(error).__name__}: {error} (it is called with the"
                    " values, an array, and the rank)"
                ) from error
            if not holds:
                shown = np.array2string(values[:8], separator=", ")
                yield Wrong(piece.label, f"not {self.about}: {shown}{' ...' if values.size > 8 else ''}")


@dataclass(frozen=True, eq=False)
class OneOf(Expectation):
    """All arrays of one of these alternatives hold its values."""

    alternatives: Sequence[Mapping[Array, Values]]

    def wrong(self, read: Reader) -> Iterator[Wrong]:
        found = [
            [wrong for array, values in one.items() for wrong in Equal(array, values, 0).wrong(read)]
            for one in self.alternatives
        ]
        if all(found):
            nearest = min(found, key=len)[0]
            yield Wrong(
                nearest.label,
                f"{nearest.text}; none of {len(found)} alternatives holds" if len(found) > 1 else nearest.text,
            )
