"""Values as functions of what reads return, and what they are once it is known where each read gets its value.

Must not know programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

ReadName = tuple[int, int]
"""(thread, how manieth event of it)."""
Values = Mapping[ReadName, int]


class Term(NamedTuple):
    """`of` gives the value from those of the reads that it `needs`."""

    needs: frozenset[ReadName]
    of: Callable[[Values], int]


NOTHING: frozenset[ReadName] = frozenset()


def constant(value: int) -> Term:
    return Term(NOTHING, lambda _: value)


def read(name: ReadName) -> Term:
    return Term(frozenset({name}), lambda values: values[name])


def applied(function: Callable[..., int], *terms: Term) -> Term:
    """Raises what the function raises where its arguments are constants."""
    needs = frozenset().union(*(term.needs for term in terms))
    if not needs:
        return constant(function(*(term.of({}) for term in terms)))
    return Term(needs, lambda values: function(*(term.of(values) for term in terms)))
