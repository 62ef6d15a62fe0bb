"""`pcietool atomic-loss`: parse, call, render."""

from __future__ import annotations

from pcietool.cli.command import Asked, command
from pcietool.errors import ExitCode
from pcietool.report.columns import Column
from pcietool.units import count, percent


def _numbers(requesters: str) -> str:
    """ "GPUs 0-3" -> "0-3", "GPU 1, GPU 0 stores" -> "1, 0 stores": the heading has the rest."""
    return requesters.removeprefix("GPU").removeprefix("s").replace(" GPU", "").strip()


COLUMNS = (
    Column("requesters_text", "GPUs", _numbers),
    Column("form", "with"),
    Column("concurrency", "grid"),
    Column("expected", "expected", count),
    Column("seen", "seen", count),
    Column("lost_fraction", "lost", percent),
    Column("predicted_lost_fraction", "1-1/N", percent),
    Column("repeated_old_values", "twice", count),
)
HINT = "docs/atomic-loss.md explains the rows; --operation and --concurrency choose what counts, --home the word's GPU"


@command("atomic-loss")
def atomic_loss(asked: Asked) -> ExitCode:
    """Whether a count by several GPUs, or a GPU and the CPU, on one word comes out right.

    Atomics are only atomic where the whole path supports them. Elsewhere they become a read and a write, two
    requesters read the same value, and one of their increments is lost without any error. The same count through
    single-writer slots stands beside it. An atomic that changes nothing is written back, too: the last rows show how
    many of another one's stores that undoes.
    """
    return asked.run(COLUMNS, HINT)
