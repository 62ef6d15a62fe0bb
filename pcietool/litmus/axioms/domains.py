"""Which values a cell of memory can hold at all, where a program's constants say so. Must not know executions."""

from __future__ import annotations

from collections.abc import Iterator

from pcietool.litmus.layout import Layout
from pcietool.litmus.text.program import Access, Copy, LitmusTest, Operand, Rmw, Store, wrapped

MOST_VALUES = 16

Domains = dict[int, frozenset[int]]
"""By cell; one that is not here may hold anything."""


def domains(test: LitmusTest, layout: Layout) -> Domains:
    """Of cells that are only written as a whole, with constants or what an RMW makes of them."""
    values = {cell: {value} for cell, value in enumerate(layout.memory)}
    writes = [one for thread in test.threads for one in thread.code if isinstance(one, Store | Rmw | Copy)]
    for one in writes:
        for cells, operand in _written(one, layout):
            known = operand is not None and operand.register is None and len(cells) == 1
            for cell in cells:
                if not known:
                    values.pop(cell, None)
    grows = True
    while grows:
        grows = False
        for one in writes:
            for cells, operand in _written(one, layout):
                if cells[0] in values and operand is not None:
                    grows |= _grow(values, one, layout, cells, operand.constant)
    return {cell: frozenset(held) for cell, held in values.items()}


def _written(one: Access, layout: Layout) -> Iterator[tuple[tuple[int, ...], Operand | None]]:
    """(cells, operand) of each scalar; None for what is not known."""
    match one:
        case Store():
            yield from zip(layout.scalars(one), one.values, strict=True)
        case Rmw():
            yield layout.scalars(one)[0], one.value
        case Copy():
            yield layout.copied(one)[1], None


def _grow(values: dict[int, set[int]], one: Access, layout: Layout, cells: tuple[int, ...], constant: int) -> bool:
    """Whether the cell can hold more than was known. One that can hold too much is given up."""
    held = values[cells[0]]
    new = {constant}
    if isinstance(one, Rmw):
        bits = 8 * one.part.size
        new = {wrapped(one.combine(old, constant), bits) for old in held}
    new = {layout.split(cells, value)[0] for value in new} - held
    held |= new
    if len(held) > MOST_VALUES:
        del values[cells[0]]
    return bool(new)
