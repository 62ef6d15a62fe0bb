"""From which size on somebody else's all-reduce is faster than ours: the number that deployers paste into settings.

Figures in, figures out; must not measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pcietool.contract.results import Row


def crossovers(rows: Sequence[Row]) -> list[Row]:
    """One row for each contender and mode that has sizes. `rows` have contender, mode, bytes and
    times_faster_median."""
    sized = [row for row in rows if row.get("bytes") is not None]

    def group(row: Row) -> tuple[str, str]:
        return row["contender"], row["mode"]

    return [
        {"contender": contender, "mode": mode, **crossover([(r["bytes"], r["times_faster_median"]) for r in members])}
        for (contender, mode), members in groupby(sorted(sized, key=group), group)
    ]


def crossover(times_faster: Sequence[tuple[int, float]]) -> Row:
    """`times_faster`: (bytes, how many times faster ours is). {"crossover_bytes": the smallest size from which on
    ours is slower at every size measured, or None, then with a reason}."""
    ordered = sorted(times_faster)
    found = None
    for nbytes, times in reversed(ordered):
        if times >= 1:
            break
        found = nbytes
    if found is None:
        reason = f"ours is no slower at the largest size measured, {ordered[-1][0]} bytes"
        return {"crossover_bytes": None, "crossover_bytes_reason": reason}
    if found == ordered[0][0]:
        return {"crossover_bytes": found, "note": "theirs is faster from the smallest size measured on"}
    return {"crossover_bytes": found}
