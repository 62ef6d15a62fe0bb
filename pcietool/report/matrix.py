"""A square table of one figure for each ordered pair, with its caption; knows nothing of what the figure means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def matrix_table(
    cells: Sequence[Sequence[Any]],
    labels: Sequence[str],
    format: Callable[[Any], str] = str,
    row_is: str = "writer",
    column_is: str = "owner",
) -> RenderableType:
    """A square table [row][column] of one figure for each ordered pair; None is a blank, as on the diagonal."""
    caption = Text(f"row = {row_is}, column = {column_is}", style="italic")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for label in labels:
        table.add_column(Text(label), justify="right")
    for label, row in zip(labels, cells, strict=True):
        table.add_row(Text(label, style="bold"), *(Text("" if cell is None else format(cell)) for cell in row))
    return Group(caption, table)  # not the table's own caption, which would be as narrow as the table
