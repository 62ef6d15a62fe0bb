"""The memory locations of an exploration: which (address, size) each is, and which threads use it when.

They become known while kernels are explored. An access that changes what earlier steps relied on raises TableChanged:
the search then starts again with the larger table. Must not know what values there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pcietool.errors import EmulationError


class TableChanged(Exception):
    """There is a new location, or an access that was taken for nobody else's business is not. Never seen outside."""


class Use(NamedTuple):
    """`phase`: how many block-wide barriers the thread has passed. All threads of a block are in the same phase."""

    thread: int
    block: int
    phase: int
    writes: bool


@dataclass
class _Location:
    address: int
    size: int
    uses: set[Use] = field(default_factory=set)
    contested: set[Use] = field(default_factory=set)
    """Those that another thread's use may come before or behind, and one of the two writes."""

    def contenders(self, use: Use) -> list[Use]:
        return [other for other in self.uses if _may_race(use, other)]


class Locations:
    """Numbered in the order in which they were found."""

    def __init__(self) -> None:
        self._locations: list[_Location] = []
        self._numbers: dict[int, int] = {}
        """By each of its bytes."""

    @property
    def places(self) -> list[tuple[int, int]]:
        """(address, size) of each."""
        return [(location.address, location.size) for location in self._locations]

    def used(self, address: int, size: int, use: Use) -> int:
        """The number of the location. Raises TableChanged, or EmulationError for bytes that another access uses in
        another size."""
        number = self._numbers.get(address)
        location = None if number is None else self._locations[number]
        if number is None or location is None or (location.address, location.size) != (address, size):
            self._add(address, size, use)
            raise TableChanged
        if use not in location.uses:
            contenders = location.contenders(use)
            location.uses.add(use)
            if contenders:
                known = location.contested.issuperset(contenders)
                location.contested.update(contenders, (use,))
                if not known:
                    raise TableChanged
        return number

    def is_contested(self, number: int, use: Use) -> bool:
        return use in self._locations[number].contested

    def _add(self, address: int, size: int, use: Use) -> None:
        number = len(self._locations)
        for byte in range(address, address + size):
            other = self._numbers.setdefault(byte, number)
            if other != number:
                raise EmulationError(
                    f"a {size} byte access overlaps one of {self._locations[other].size} bytes; only accesses of one"
                    " size to the same bytes are explored"
                )
        self._locations.append(_Location(address, size, {use}))


def _may_race(one: Use, other: Use) -> bool:
    is_ordered = one.block == other.block and one.phase != other.phase
    return one.thread != other.thread and (one.writes or other.writes) and not is_ordered
