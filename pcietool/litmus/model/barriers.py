"""Block barriers and warp operations, rule 11 of docs/memory-model.md: who has come, and what happens when all have.

Must not know what else threads can do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from pcietool.litmus.model.requests import Barrier, ProgramState
from pcietool.litmus.model.state import Arrival, State, Thread, View, is_at_end, join

GoOn = Callable[[int, Thread, Any, bool], ProgramState]
"""(number of a thread, the thread, what its request returned, late) -> where it goes on."""


def disagrees(state: State, barrier: Barrier) -> bool:
    """Whether somebody waits at the same barrier with another thread count."""
    place = barrier.block, barrier.barrier
    others = (arrival.barrier for arrival in state.arrivals)
    return any(other.quorum != barrier.quorum and (other.block, other.barrier) == place for other in others)


def arrived(state: State, arrival: Arrival) -> State:
    """In the order of threads: who came first makes no difference."""
    arrivals = sorted((*state.arrivals, arrival), key=lambda one: one.thread)
    return state._replace(arrivals=tuple(arrivals))


def settled(state: State, go_on: GoOn) -> State:
    """The state once every barrier that is complete has let its threads go."""
    groups: dict[Hashable, list[Arrival]] = {}
    for arrival in state.arrivals:
        groups.setdefault(_meeting(arrival.barrier), []).append(arrival)
    for group in groups.values():
        if _is_complete(state, group):
            return settled(_released(state, group, go_on), go_on)
    return state


def _meeting(barrier: Barrier) -> Hashable:
    """Equal for all that count for the same completion: with a thread count by barrier, without one by instance."""
    return barrier.block, barrier.barrier if barrier.quorum else None, None if barrier.quorum else barrier.instance


def _is_complete(state: State, group: list[Arrival]) -> bool:
    barrier = group[0].barrier
    if barrier.quorum:
        return len(group) >= barrier.quorum
    present = {arrival.thread for arrival in group}
    return all(index in present or is_at_end(state.threads[index]) for index in barrier.members)


def _released(state: State, group: list[Arrival], go_on: GoOn) -> State:
    """What others at the same barrier have seen, every thread that waited has seen now."""
    threads = list(state.threads)
    results = group[0].barrier.results
    returned = results({arrival.thread: arrival.barrier.gives for arrival in group}) if results else {}
    seen: dict[int, View] = {}
    for _, barrier, floor in group:
        seen[barrier.barrier] = join(state.orders, seen.get(barrier.barrier, floor), floor)
    for index, barrier, floor in group:
        if barrier.waits:
            thread = threads[index]
            at = go_on(index, thread, returned.get(index), state.late)
            floor = seen[barrier.barrier] if barrier.orders else floor
            threads[index] = thread._replace(at=at, floor=floor, waits=False)
    arrivals = tuple(arrival for arrival in state.arrivals if arrival not in group)
    return state._replace(threads=tuple(threads), arrivals=arrivals)
