"""The memory of an exploration as cells: the smallest pieces that accesses tell apart, and which threads use each when.

They become known while kernels are explored. An access that changes what earlier steps relied on raises TableChanged:
the search then starts again with the finer table. Must not know what values there are.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class TableChanged(Exception):
    """There is a new cell, or an access that was taken for nobody else's business is not. Never seen outside."""


class Use(NamedTuple):
    """`phase`: how many block-wide barriers the thread has passed. All threads of a block are in the same phase."""

    thread: int
    block: int
    phase: int
    writes: bool


@dataclass
class Cell:
    address: int
    size: int
    uses: set[Use] = field(default_factory=set)
    contested: set[Use] = field(default_factory=set)
    """Those that another thread's use may come before or behind, and one of the two writes."""


class Locations:
    """Cells have numbers, in the order in which they were found. `are_ordered`: whether one of two blocks only begins
    when the other has ended."""

    def __init__(self, are_ordered: Callable[[int, int], bool] = lambda one, other: False) -> None:
        self.cells: list[Cell] = []
        self._starts: list[int] = []
        """Sorted."""
        self._numbers: dict[int, int] = {}
        """By the address at which a cell starts."""
        self._are_ordered = are_ordered

    def used(self, address: int, size: int, use: Use) -> tuple[int, ...]:
        """The numbers of the cells of these bytes, in their order. Raises TableChanged."""
        numbers = self._cells_of(address, size)
        changed = False
        for number in numbers:
            cell = self.cells[number]
            if use not in cell.uses:
                contenders = [other for other in cell.uses if self._may_race(use, other)]
                cell.uses.add(use)
                if contenders:
                    changed = changed or not cell.contested.issuperset(contenders)
                    cell.contested.update(contenders, (use,))
        if changed:
            raise TableChanged
        return numbers

    def is_contested(self, number: int, use: Use) -> bool:
        return use in self.cells[number].contested

    def _cells_of(self, address: int, size: int) -> tuple[int, ...]:
        """Raises TableChanged if there were none so far, or larger ones."""
        end = address + size
        before = len(self.cells)
        self._split_at(address)
        self._split_at(end)
        numbers = []
        at = address
        while at < end:
            if at not in self._numbers:
                following = self._starts[bisect_right(self._starts, at) :][:1]
                self._add(Cell(at, min([end, *following]) - at))
            numbers.append(self._numbers[at])
            at += self.cells[numbers[-1]].size
        if len(self.cells) > before:
            raise TableChanged
        return tuple(numbers)

    def _split_at(self, address: int) -> None:
        """No cell reaches over this address any more."""
        place = bisect_right(self._starts, address) - 1
        if place < 0 or self._starts[place] == address:
            return
        cell = self.cells[self._numbers[self._starts[place]]]
        end = cell.address + cell.size
        if address < end:
            cell.size = address - cell.address
            self._add(Cell(address, end - address, set(cell.uses), set(cell.contested)))

    def _add(self, cell: Cell) -> None:
        self._numbers[cell.address] = len(self.cells)
        insort(self._starts, cell.address)
        self.cells.append(cell)

    def _may_race(self, one: Use, other: Use) -> bool:
        is_ordered = one.block == other.block and one.phase != other.phase
        return (
            one.thread != other.thread
            and (one.writes or other.writes)
            and not is_ordered
            and not self._are_ordered(one.block, other.block)
        )
