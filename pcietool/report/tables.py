"""What a person sees on the terminal: the verdict first, then one table for each part of the result.

Renders to the rich console it is given; must not compute figures, decide statuses, or know what a row means. Which
keys of a row are shown, and how, is the caller's list of columns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pcietool.contract.results import ProbeResult, Row, Status
from pcietool.report.columns import Column
from pcietool.report.hang import print_hang
from pcietool.report.matrix import matrix_table
from pcietool.units import MISSING, micros

EMULATED = "emulated: modelled, not measured"
WIDTH_OF_PIPES = 120
WIDEST = 1000
"""More columns than any table has."""
LONGEST_WORD = 16
"""Cells up to this length are never broken."""

CALM = (Status.PASS, Status.INFO, Status.WAIVED)
"""Statuses after which nothing needs to be looked into."""
STYLES = {
    Status.PASS: "bold green",
    Status.INFO: "bold cyan",
    Status.WARN: "bold yellow",
    Status.WAIVED: "dim",
    Status.INTERRUPTED: "bold yellow",
    Status.ERROR: "bold red",
    Status.FAIL: "bold red",
    Status.HANG: "bold red",
}


def make_console(file: IO[str] | None = None, color: bool = True) -> Console:
    """A console that writes plain text where `file` is no terminal, and without colour where the user wants none."""
    file = file or sys.stdout
    fixed_width = None if file.isatty() or "COLUMNS" in os.environ else WIDTH_OF_PIPES
    return Console(
        file=file,
        width=fixed_width,
        color_system="auto" if color else None,
        markup=False,
        highlight=False,
        emoji=False,
    )


def print_screen(
    console: Console,
    document: Mapping[str, Any],
    results: Sequence[ProbeResult],
    columns: Sequence[Column] | None,
    hint: str = "",
    every_check: bool = False,
) -> None:
    """The verdict, with `hint` where nothing is wrong, and the details if there are `columns`; the verdict once more
    where that has pushed it off the terminal."""
    backend = document["backend"]
    with console.capture() as first:
        print_verdict(console, results, backend, document["machine"]["label"], document["gpus"])
        if hint and columns is not None and all(result.status in CALM for result in results):
            console.print(Text(hint, style="dim"))
    with console.capture() as rest:
        if columns is not None:
            print_details(console, results, columns, backend, every_check)
    verdict, details = (_trimmed(part.get()) for part in (first, rest))
    scrolled_off = console.is_terminal and (verdict + details).count("\n") >= console.height
    console.file.write(f"{verdict}{details}\n{verdict}" if scrolled_off else verdict + details)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip(" ") for line in text.split("\n"))


def print_verdict(
    console: Console,
    results: Sequence[ProbeResult],
    backend: str,
    label: str,
    gpus: Sequence[Mapping[str, Any]] = (),
) -> None:
    """The first screen: where the figures come from, and one line for each part."""
    console.print(Text(" · ".join([*_origin(backend), label]), style="bold"))
    for line in _renumbered(gpus):
        console.print(Text(line))
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    for result in results:
        status = Text(result.status.upper(), style=STYLES[result.status])
        lines.add_row(status, result.transport, Text(_with_reason(result)))
    console.print(lines)


def _renumbered(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which GPU each number stands for, if --gpus gave them other numbers than the machine does."""
    if all(gpu.get("machine_index") in (None, gpu["index"]) for gpu in gpus):
        return []
    return [f"GPU {gpu['index']} = index {gpu['machine_index']}, {gpu['pci']}, {gpu['uuid']}" for gpu in gpus]


def print_details(
    console: Console,
    results: Sequence[ProbeResult],
    columns: Sequence[Column],
    backend: str,
    every_check: bool = False,
) -> None:
    """For each part: what was timed and how, its table, its self-tests, and what a hang left behind. A line about the
    method that two parts share is printed once."""
    explained: set[str] = set()
    for result in results:
        if not (result.rows or result.checks or result.hang):
            continue
        console.print()
        method = [line for line in result.method.splitlines() if result.rows and line not in explained]
        explained.update(method)
        print_heading(console, [result.name, result.transport, *_origin(backend)], method)
        if result.matrix:
            print_matrix(console, result.matrix)
        rows = [row for row in result.rows if not row.get("in_matrix")]
        if rows:
            print_rows(console, rows, columns)
            print_reasons(console, rows, columns)
        print_checks(console, result.checks, every_check)
        if result.hang:
            print_hang(console, result.hang, result.reason)


def print_matrix(console: Console, matrix: Mapping[str, Any]) -> None:
    """A result's figure for each ordered pair."""
    console.print()
    is_time = matrix["unit"] == "us"
    console.print(Text(f"{matrix['figure']}, {'µs' if is_time else matrix['unit']}", style="bold"))
    console.print(matrix_table(matrix["cells"], matrix["labels"], micros if is_time else str))
    console.print()


def print_heading(console: Console, parts: Sequence[str], method: Sequence[str]) -> None:
    """Not the title of the table, which would be as narrow as the table is."""
    console.print(Text(" · ".join(parts), style="bold"))
    for line in method:
        console.print(Text(line, style="italic"))


def print_checks(console: Console, checks: Sequence[Mapping[str, Any]], every: bool = False) -> None:
    """Failed checks in full; those that passed as one line, unless the user wants to see `every` one."""
    passed = [check for check in checks if check["passed"]]
    for check in checks:
        if every or not check["passed"]:
            console.print(_check_line(check))
    if passed and not every:
        names = ", ".join(dict.fromkeys(check["name"] for check in passed))
        plural = "" if len(passed) == 1 else "s"
        console.print(Text.assemble(("ok", STYLES[Status.PASS]), f"    {len(passed)} check{plural}: {names}"))


def print_rows(console: Console, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Where the terminal is too narrow, lines go beyond its edge: figures that are broken in two cannot be read."""
    table = rows_table(rows, columns)
    least = table.__rich_measure__(console, console.options.update(max_width=WIDEST)).minimum
    table.width = least if least > console.width else None
    console.print(table, crop=False)


def rows_table(rows: Sequence[Row], columns: Sequence[Column]) -> Table:
    """A column that no row has a value for is left out; a missing value is a dash. Numbers stand to the right. Raises
    KeyError for a column that is not optional and that a row lacks."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    values = [(column, [column.of(row) for row in rows]) for column in columns]
    shown = [(column, cells) for column, cells in values if any(cell is not None for cell in cells)]
    written = []
    for column, cells in shown:
        texts = [_cell(cell, column.format) for cell in cells]
        widest = max(map(len, (column.heading, *texts)))
        least = widest if widest <= LONGEST_WORD else None
        justify: Literal["left", "right"] = "right" if all(map(_is_number, cells)) else "left"
        table.add_column(Text(column.heading), justify=justify, min_width=least)
        written.append(map(Text, texts))
    for line in zip(*written, strict=True):
        table.add_row(*line)
    return table


def print_reasons(console: Console, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Why values of these columns are missing, each reason once."""
    reasons = (row[key] for row in rows for key in row if _explains_a_gap(row, key, columns))
    for reason in dict.fromkeys(reasons):
        if reason is not None:
            console.print(Text(f"{MISSING} {reason}", style="dim"))


def _explains_a_gap(row: Row, key: str, columns: Sequence[Column]) -> bool:
    if key == "reason":
        return True
    subject = key.removesuffix("_reason")
    return key != subject and any(c.key.startswith(subject) and row.get(c.key) is None for c in columns)


def _origin(backend: str) -> list[str]:
    return [EMULATED] if backend == "emulated" else []


def _with_reason(result: ProbeResult) -> str:
    return f"{result.verdict} ({result.reason})" if result.reason else result.verdict


def _check_line(check: Mapping[str, Any]) -> Text:
    passed = bool(check["passed"])
    failed = Status.WARN if check.get("severity") == "warn" else Status.FAIL
    word = Text("ok  ", style=STYLES[Status.PASS]) if passed else Text(failed.upper(), style=STYLES[failed])
    return Text.assemble(word, f"  {check['name']}: {check['text']}")


def _cell(value: Any, format: Callable[[Any], str]) -> str:
    return MISSING if value is None else format(value)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
