"""The states of a search by number, and which step leads where: shortest paths, and states from which none leads to an
end. Must not know what a state is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class Graph(Generic[S]):
    """Numbers are given in the order in which states are found; the first is 0."""

    def __init__(self, start: S) -> None:
        self.states = [start]
        self.left_open: list[int] = []
        """States that were not looked at: anything may follow them."""
        self._numbers = {start: 0}
        self._following: dict[int, tuple[int, ...]] = {}
        self._cut: set[int] = set()

    def add(self, state: int, following: Iterable[S]) -> list[int]:
        """What follows a state. Those that are new, by number."""
        numbers = self._numbers
        first_new = len(numbers)
        found = []
        for one in following:
            number = numbers.setdefault(one, len(numbers))
            if number == len(self.states):
                self.states.append(one)
            found.append(number)
        self._following[state] = tuple(found)
        return list(range(first_new, len(numbers)))

    def cut(self, state: int) -> None:
        """No way through here counts as a way to an end."""
        self._cut.add(state)

    def depths(self) -> list[int]:
        """The fewest steps to each state."""
        self._came_from = [-1] * len(self.states)
        depths = [-1] * len(self.states)
        depths[0] = 0
        waiting = deque([0])
        while waiting:
            state = waiting.popleft()
            for other in self._following.get(state, ()):
                if depths[other] < 0:
                    depths[other] = depths[state] + 1
                    self._came_from[other] = state
                    waiting.append(other)
        return depths

    def path(self, end: int) -> list[int]:
        """A shortest one, from the start to `end`. Depths are known."""
        path = [end]
        while path[-1]:
            path.append(self._came_from[path[-1]])
        return path[::-1]

    def without_way_to(self, ends: Iterable[int]) -> set[int]:
        """All states from which no way leads to one of these. What is only reached through a cut is left out."""
        before: dict[int, list[int]] = {}
        reached = {0}
        waiting = [0]
        while waiting:
            state = waiting.pop()
            for other in () if state in self._cut else self._following.get(state, ()):
                before.setdefault(other, []).append(state)
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
        saved = reached.intersection(ends)
        waiting = list(saved)
        while waiting:
            for other in before.get(waiting.pop(), ()):
                if other not in saved:
                    saved.add(other)
                    waiting.append(other)
        return reached - saved

    def final_among(self, states: Collection[int]) -> list[int]:
        """Those of the states, which only lead to each other, from which every way leads back (Tarjan)."""
        order: dict[int, int] = {}
        lowest: dict[int, int] = {}
        done: set[int] = set()
        final: list[int] = []
        for root in sorted(states):
            if root in order:
                continue
            path = [(root, iter(self._onward(root)))]
            component = [root]
            order[root] = lowest[root] = len(order)
            while path:
                state, rest = path[-1]
                other = next(rest, None)
                if other is None:
                    path.pop()
                    if path:
                        lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[state])
                    if lowest[state] == order[state]:
                        at = component.index(state)
                        group = set(component[at:])
                        del component[at:]
                        if all(target in group for one in group for target in self._onward(one)):
                            final += group
                        done |= group
                elif other not in order:
                    order[other] = lowest[other] = len(order)
                    component.append(other)
                    path.append((other, iter(self._onward(other))))
                elif other not in done:
                    lowest[state] = min(lowest[state], order[other])
        return final

    def _onward(self, state: int) -> tuple[int, ...]:
        return () if state in self._cut else self._following.get(state, ())
