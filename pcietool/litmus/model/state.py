"""What a moment of an execution consists of. Tuples all the way down: states are compared and looked up by value.

Data only; how one state becomes the next stands in model.py.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from pcietool.litmus.model.requests import Barrier, ProgramState
from pcietool.litmus.text.program import Scope

INITIAL = -1
"""The writer of the initial messages."""
TIME = -2
"""Whose step it is when time passes."""

View = tuple[int, ...]
"""A floor: for each location, the oldest message that may still be read."""
Orders = tuple[tuple[int, ...], ...]
"""The coherence order of each location's messages, the initial one first."""


class Source(NamedTuple):
    """What a release hands on: `writer` had this view, for threads within `scope`. A fence.sc leaves one too."""

    scope: Scope
    writer: int
    view: View


class Message(NamedTuple):
    """One write. States know it by its number, which equal messages share, so that equal states are equal tuples."""

    writer: int
    ordinal: int
    """The writer's how manieth write this is."""
    position: int
    """Of the instruction in its program."""
    locations: tuple[int, ...]
    values: tuple[int, ...]
    size: int
    """Bytes of the scalar, or of each scalar of a vector."""
    strong: bool
    scope: Scope
    sources: frozenset[Source]
    read: tuple[int, ...] = ()
    """What it read in each location, if it belongs to an RMW."""
    native: bool = True
    """Whether the RMW was one step."""


Looks = tuple[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]], ...]
"""(locations, messages) of the last look at each of the words that a turn looks at, sorted."""


class Polled(NamedTuple):
    """`past`: each look at one of its words, as (locations, what the thread carried, what all words had then shown)."""

    loop: int
    latest: Looks
    past: frozenset[tuple[tuple[tuple[int, ...], ...], Hashable, Looks]]


class Thread(NamedTuple):
    at: ProgramState
    floor: View
    fenced: tuple[View | None, View | None, View | None]
    """The floor at the last fence of each scope."""
    pending: frozenset[tuple[int, Source]]
    """Sources read so far, with the location they were read from: what a later acquire or fence can make count."""
    writes: int
    waits: bool
    """For a barrier."""
    polled: Polled | None
    """What the wait loop has seen that the thread is in."""
    proxied: View
    """The floor at the last proxy fence."""
    groups: tuple[tuple[int, ...], ...]
    """Agents of bulk copies that no full wait has taken, by group; the last group is not committed yet."""
    began: View
    """The floor at its start."""


class Arrival(NamedTuple):
    """One thread at a barrier that is not complete."""

    thread: int
    barrier: Barrier
    floor: View


class State(NamedTuple):
    threads: tuple[Thread, ...]
    orders: Orders
    fences: frozenset[Source]
    """What every fence.sc so far has seen."""
    arrivals: tuple[Arrival, ...]
    late: bool
    """All deadlines have passed."""


class Step(NamedTuple):
    """`thread` executed its next instruction, read and wrote these messages, and `state` came of it. An access to
    several locations reads one message in each, in their order."""

    thread: int
    state: State
    read: tuple[int, ...] = ()
    wrote: tuple[int, ...] = ()


def is_at_end(thread: Thread) -> bool:
    return thread.at.request is None


def with_thread(state: State, index: int, thread: Thread, orders: Orders | None = None) -> State:
    threads = replaced(state.threads, index, thread)
    return State(threads, orders or state.orders, state.fences, state.arrivals, state.late)


def join(orders: Orders, one: View, other: View) -> View:
    """The later message of each location."""
    if one == other:
        return one
    return tuple(
        a if a == b or order.index(a) > order.index(b) else b for order, a, b in zip(orders, one, other, strict=True)
    )


def replaced(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])
