"""What litmus tests found beyond one line each: outcomes, and one execution to read. Must not judge either."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pcietool.contract.results import Row
from pcietool.units import count


def print_findings(console: Console, rows: Sequence[Row], outcomes: bool, trace: bool) -> None:
    """For each test its outcomes, those it asks for marked by *, with the number of trials that ended so where there
    were trials; or an interleaving, or both."""
    for row in rows:
        console.print()
        console.print(Text(" · ".join(filter(None, (row["test"], row.get("place")))), style="bold"))
        console.print(Text(f"  {row['question']}", style="italic"))
        if outcomes:
            _print_outcomes(console, row)
        if trace:
            _print_interleavings(console, row)


def _print_outcomes(console: Console, row: Row) -> None:
    for outcome in row["outcomes"]:
        line = f"  {'*' if outcome['sought'] else ' '} {outcome['text']}"
        if "count" in outcome:
            line += f"  {count(outcome['count'])}" + (
                "" if outcome["verdict"] == "allowed" else f"  {outcome['verdict']}"
            )
        console.print(Text(line), soft_wrap=True)
    if not row["complete"]:
        console.print(Text(f"    and perhaps more: the bound of {row['states']} states ended the search"))


def _print_interleavings(console: Console, row: Row) -> None:
    if not row["interleaving"]:
        console.print(Text(f"  no execution to show: {row['verdict']}"))
    _print_lines(console, row["interleaving"])
    if row["hanging"]:
        console.print(Text("  an execution that never ends:"))
        _print_lines(console, row["hanging"])


def _print_lines(console: Console, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines, start=1):
        console.print(Text(f"  {number:>3}  {line}"), soft_wrap=True)
