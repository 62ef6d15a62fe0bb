"""Shows what a hung round left behind: who waited for whom, the proof where there is one, and what to do.

Reads `ProbeResult.hang`, a JSON form of `machines.base.Hang`; must not decide what a hang means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from pcietool.contract.outcomes import BlockedThread, WaitRecord
from pcietool.report.matrix import matrix_table

LINES_SHOWN = 4


def print_hang(console: Console, hang: Mapping[str, Any], advice: str | None) -> None:
    """`hang` holds `limit`, `records` (fields of WaitRecord), `dropped_records`, `proof` (fields of BlockedThread)."""
    records, proof = hang["records"], hang["proof"]
    console.print(Text(f"hung: ended by the {hang['limit']}", style="bold red"))
    _print_some(console, [str(WaitRecord(**record)) for record in records], hang.get("dropped_records", 0))
    print_missing(console, records)
    if proof:
        console.print(Text("proof: these threads wait, and nothing is under way that could wake them", style="bold"))
        _print_some(console, [_proof_line(thread) for thread in proof])
    console.print(Text(f"what to do: {advice or 'look at the writer of the slots above: it never sent its signal'}"))


def print_missing(console: Console, records: Sequence[Mapping[str, Any]]) -> None:
    """The arrival matrix: who waited for whom, and how far it had come."""
    if not records:
        return
    if not all(record.get("line") for record in records):
        console.print(Text("slot (row, col): col is the rank that should have stored it; row 0 is a GPU's own word"))
    ranks, cells = missing_signals(records)
    console.print(matrix_table(cells, [f"rank {rank}" for rank in ranks], row_is="waiter", column_is="writer"))
    lines = "; or the line of the WAIT_UNTIL" if any(record.get("line") for record in records) else ""
    console.print(Text(f"a cell is the sequence seen of the sequence wanted{lines}; blank: nothing was missing"))


def missing_signals(records: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[list[str | None]]]:
    """(ranks, cells[waiter][writer]) of the signals that never came: "seen/wanted" or "line 12", None where none is
    missing."""
    seen = {(record["rank"], record["col"]): _seen(record) for record in reversed(records)}
    ranks = sorted({rank for pair in seen for rank in pair})
    return ranks, [[seen.get((waiter, writer)) for writer in ranks] for waiter in ranks]


def _seen(record: Mapping[str, Any]) -> str:
    return f"line {record['line']}" if record.get("line") else f"{record['got']}/{record['wanted']}"


def _print_some(console: Console, lines: Sequence[str], uncounted: int = 0) -> None:
    for line in lines[:LINES_SHOWN]:
        console.print(Text(f"  {line}"))
    hidden = len(lines[LINES_SHOWN:]) + uncounted
    if hidden:
        console.print(Text(f"  and {hidden} more"))


def _proof_line(thread: Mapping[str, Any]) -> str:
    where = f"GPU {thread['device']} block {thread['block']} thread {thread['thread']} at {thread['source']}"
    if not BlockedThread(**thread).is_word:
        return f"{where}: {thread['address']}"
    writer = f"last written by {thread['last_writer']}" if thread["last_writer"] else "never written"
    return f"{where}: {thread['address']} holds {thread['value']}, {writer}"
