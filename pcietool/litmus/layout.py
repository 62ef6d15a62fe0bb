"""The memory of a litmus test as cells: the smallest pieces of its locations that accesses tell apart.

Numbers only; must not know what is in them, nor what accesses mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pcietool.litmus.text.program import Access, Copy, Item, LitmusTest, Part, wrapped


class Cell(NamedTuple):
    location: int
    offset: int
    size: int


class Layout:
    """A cell is known by its number, in the order of locations and addresses. Its value is a signed number if it has
    4 or 8 bytes, else an unsigned one."""

    def __init__(self, test: LitmusTest) -> None:
        self._test = test
        bounds = _bounds(test)
        self.cells = [
            Cell(location, start, end - start) for location, cuts in enumerate(bounds) for start, end in pairwise(cuts)
        ]
        self._numbers = {(cell.location, cell.offset): number for number, cell in enumerate(self.cells)}
        self._between: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self.memory = tuple(self._first_value(cell) for cell in self.cells)

    def between(self, location: int, start: int, end: int) -> tuple[int, ...]:
        """The cells of these bytes of a location."""
        found = self._between.get((location, start, end))
        if found is None:
            first = self._numbers[location, start]
            count = sum(1 for cell in self.cells[first:] if cell.location == location and cell.offset < end)
            found = self._between[location, start, end] = tuple(range(first, first + count))
        return found

    def scalars(self, access: Access) -> tuple[tuple[int, ...], ...]:
        """The cells of each scalar of an access."""
        size = access.part.size
        return tuple(self.between(access.location, offset, offset + size) for offset in access.part.offsets)

    def copied(self, copy: Copy) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The cells that a copy reads, and as many that it writes."""
        length = _length(self._test, copy)
        return self.between(copy.source, 0, length), self.between(copy.location, 0, length)

    def split(self, cells: Sequence[int], value: int) -> tuple[int, ...]:
        """What each of these cells holds if together they hold `value`."""
        return tuple(self._pieces(cells, value))

    def join(self, cells: Sequence[int], values: Sequence[int]) -> int:
        """What these cells hold together, as an unsigned number."""
        total = shift = 0
        for cell, value in zip(cells, values, strict=True):
            bits = 8 * self.cells[cell].size
            total |= value % (1 << bits) << shift
            shift += bits
        return total

    def value_of(self, item: Item, memory: Sequence[int] | Mapping[int, int]) -> int:
        """Of a question's item about memory, of which all cells are given."""
        cells = self.between(item.number, item.part.offset, item.part.end)
        return _signed(self.join(cells, [memory[cell] for cell in cells]), item.part.size)

    def name(self, cell: int) -> str:
        """Such as "w", or "w+1" for a later piece."""
        location, offset, _ = self.cells[cell]
        return self._test.locations[location] + (f"+{offset}" if offset else "")

    def _pieces(self, cells: Sequence[int], value: int) -> Iterator[int]:
        for cell in cells:
            size = self.cells[cell].size
            yield _signed(value % (1 << 8 * size), size)
            value >>= 8 * size

    def _first_value(self, cell: Cell) -> int:
        content = self._test.contents[cell.location][cell.offset : cell.offset + cell.size]
        return int.from_bytes(content, "little", signed=cell.size >= 4)


def extended(scalar: int, part: Part) -> int:
    """An unsigned number of memory as an access has it: signed if it has 32 bits or more, or the access says so."""
    return wrapped(scalar, 8 * part.size) if part.signed or part.size >= 4 else scalar


def in_register(scalar: int, part: Part, bits: int) -> int:
    """What an access has, in a register of so many bits."""
    if part.size == 4 and bits == 64 and not part.signed:
        scalar %= 1 << 32
    return wrapped(scalar, bits)


def _bounds(test: LitmusTest) -> list[list[int]]:
    """Where the cells of each location start, and behind them its length."""
    bounds = [{0, len(content)} for content in test.contents]
    code = [one for thread in test.threads for one in thread.code]
    touched = [(one.location, one.part) for one in code if isinstance(one, Access) and not isinstance(one, Copy)]
    touched += [(item.number, item.part) for item in test.question.items if item.thread is None]
    for location, part in touched:
        bounds[location].update(part.offsets, (part.end,))
    copies = [one for one in code if isinstance(one, Copy)]
    before = None
    while bounds != before:  # a copy goes piece by piece
        before = [set(cuts) for cuts in bounds]
        for copy in copies:
            length = _length(test, copy)
            common = {cut for cut in bounds[copy.location] | bounds[copy.source] if cut < length} | {length}
            bounds[copy.location] |= common
            bounds[copy.source] |= common
    return [sorted(cuts) for cuts in bounds]


def _length(test: LitmusTest, copy: Copy) -> int:
    return min(len(test.contents[copy.location]), len(test.contents[copy.source]))


def _signed(value: int, size: int) -> int:
    return wrapped(value, 8 * size) if size >= 4 else value
