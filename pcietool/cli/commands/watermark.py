"""`pcietool watermark`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.command import Asked, command
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import count, gb_per_s, micros


def _percent(value: float) -> str:
    return f"{value:.1f}"


def _mark(is_it: bool) -> str:
    return "*" if is_it else ""


COLUMNS = (
    Column("is_smallest_good", "", _mark),
    Column("sms", "SMs"),
    Column("path", "path"),
    Column("chunk_text", "chunk"),
    Column("gb_per_s", "GB/s", gb_per_s),
    Column("percent_of_sm_copy", "% SM", _percent),
    Column("percent_of_copy_engine", "% CE", _percent),
    Column("first_release_us", "first µs", micros),
    Column("signals", "signals", count),
    Column("polls", "polls", count),
)
HINT = "docs/watermark.md explains the rows; --chunks and --sms choose rows, --pattern who pushes to whom"


@command("watermark")
def watermark(asked: Asked) -> ExitCode:
    """How small chunks can be, and how few SMs push them, before signals cost bandwidth.

    A producer pushes rows to a consumer and publishes each chunk of rows with one signal, so that the consumer can
    start before everything is there. Every byte that arrives is checked. * marks the smallest chunk within 2 % of the
    best with as many SMs.
    """
    return asked.run(COLUMNS, HINT)
