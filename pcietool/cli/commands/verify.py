"""`pcietool verify`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.command import Asked, command
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import count

COLUMNS = (
    Column("entry", "entry"),
    Column("distribution", "distribution"),
    Column("launches", "launches", count),
    Column("iterations", "iterations", count),
    Column("rows", "rows", count),
    Column("bytes_checked", "bytes", count),
    Column("found_by", "found by"),
    Column("status", "status"),
)
MUTANT_COLUMNS = (
    Column("mutant", "mutant"),
    Column("entry", "entry"),
    Column("expected", "expected"),
    Column("outcome", "outcome"),
    Column("killed_by", "killed by"),
    Column("tries", "tries", count),
)
HINT = "docs/verify.md explains the checks; --mutants shows that each of them finds what it is for"
MUTANT_HINT = "docs/verify.md explains the mutants; --json has what was found in each"


@command("verify")
def verify(asked: Asked) -> ExitCode:
    """Whether what arrives is what was sent: each protocol alone, byte by byte, and every check proved able to fail.

    What is sent depends on iteration, source, row and column; buffers are poisoned before each iteration; tables and
    counts are recomputed by naive loops. Wrong data, or a mutant that survives, makes exit code 3, a hang 4.
    """
    mutants = asked.words["mutants"]
    columns, hint = (MUTANT_COLUMNS, MUTANT_HINT) if mutants else (COLUMNS, HINT)
    return asked.run(columns, hint)
