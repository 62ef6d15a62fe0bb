"""Relations between numbered events: one bit mask an event, with a bit for each event it is related to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Relation = list[int]


def members(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def bits(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def relation(count: int, pairs: Iterable[tuple[int, int]]) -> Relation:
    rows = [0] * count
    for a, b in pairs:
        rows[a] |= 1 << b
    return rows


def union(first: Relation, *others: Relation) -> Relation:
    rows = list(first)
    for other in others:
        for a, row in enumerate(other):
            rows[a] |= row
    return rows


def both(first: Relation, second: Relation) -> Relation:
    return [a & b for a, b in zip(first, second, strict=True)]


def composed(first: Relation, second: Relation) -> Relation:
    """From a to c if `first` leads from a to some b, and `second` from there to c."""
    rows = []
    for row in first:
        mask = 0
        while row:
            low = row & -row
            mask |= second[low.bit_length() - 1]
            row ^= low
        rows.append(mask)
    return rows


def closed(rows: Relation) -> Relation:
    """Transitively."""
    rows = list(rows)
    for middle, row in enumerate(rows):
        if row:
            bit = 1 << middle
            row = rows[middle]
            for a, other in enumerate(rows):
                if other & bit:
                    rows[a] = other | row
    return rows


def has_cycle(closed_rows: Relation) -> bool:
    return any(row >> a & 1 for a, row in enumerate(closed_rows))
