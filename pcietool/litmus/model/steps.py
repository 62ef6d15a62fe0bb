"""The PTX memory model as an operational view model: which steps each thread can take from a state.

A thread has a floor under what it may still read, location by location; synchronisation raises it. Rule numbers in
the comments are those of docs/memory-model.md. One step is one instruction; all that varies (whose turn, which message
is read, where a store comes to stand) are different steps. Must not decide which step is taken, nor what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pcietool.litmus.model.barriers import arrived, disagrees, settled
from pcietool.litmus.model.copies import committed, fenced, issued, waited
from pcietool.litmus.model.requests import (
    Access,
    Barrier,
    Commit,
    Copy,
    Fence,
    Load,
    Pause,
    ProgramState,
    ProxyFence,
    Request,
    Rmw,
    Store,
    Threads,
    WaitForCopies,
)
from pcietool.litmus.model.state import (
    INITIAL,
    TIME,
    Arrival,
    Message,
    Source,
    State,
    Step,
    Thread,
    View,
    is_at_end,
    join,
    replaced,
    with_thread,
)
from pcietool.litmus.text.program import Scope

NOTHING: frozenset[Any] = frozenset()


class Model:
    """The rules, for these threads. `messages` grows as steps are computed; nothing else here changes."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.messages: list[Message] = []
        self._numbers: dict[Message, int] = {}
        self._nearness = threads.nearness
        self._rules: dict[type[Request], Callable[[State, int, Any], list[Step]]] = {
            Load: self._load,
            Store: self._store,
            Rmw: self._rmw,
            Fence: self._fence,
            Barrier: self._barrier,
            Pause: self._pause,
            Copy: self._copy,
            Commit: lambda state, index, commit: [self._step(state, index, committed(state.threads[index], commit))],
            WaitForCopies: self._wait_for_copies,
            ProxyFence: lambda state, index, fence: [self._step(state, index, fenced(state.threads[index], fence))],
        }

    def start(self) -> State:
        first = tuple(
            self._number(Message(INITIAL, location, value, True, Scope.SYS, frozenset(), None))
            for location, value in enumerate(self.threads.memory)
        )
        threads = tuple(
            Thread(self.threads.begin(index), first, (None, None, None), NOTHING, 0, False, NOTHING, first, ((),))
            for index in range(len(self._nearness))
        )
        return State(threads, tuple((message,) for message in first), NOTHING, (), False)

    def steps(self, state: State) -> list[Step]:
        """Every step that matters. One that no other thread can notice or influence is taken alone, before all others:
        it commutes with them (one that goes back in a loop is not, or the others might wait for ever). So are those
        behind the deadline: what is left then runs once, in one order. No step at all: everything has ended, or what
        has not is stuck."""
        steps: list[Step] = []
        for index, thread in enumerate(state.threads):
            request = thread.at.request
            if request is None or thread.waits:
                continue
            possible = self._rules[type(request)](state, index, request)
            if isinstance(request, Barrier) or (state.arrivals and any(_has_ended(step) for step in possible)):
                possible = [step._replace(state=settled(step.state, self._after)) for step in possible]
            if request.private and possible and _goes_forward(thread, possible[0]):
                return possible
            if state.late and possible:
                return possible[-1:]
            steps += possible
        if not steps and self.threads.deadlines and not state.late and not self.has_ended(state):
            steps.append(Step(TIME, state._replace(late=True)))
        return steps

    def has_ended(self, state: State) -> bool:
        """Without steps and without this, an execution hangs."""
        return all(is_at_end(thread) for thread in state.threads)

    def value_of(self, message: int) -> int:
        return self.messages[message].value

    def memory(self, state: State) -> list[int]:
        """The last value of each location in coherence order."""
        return [self.value_of(order[-1]) for order in state.orders]

    # Rule 3

    def _morally_strong(self, thread: int, access: Access, message: Message) -> bool:
        """Whether the access and the write count as synchronised: same location is given."""
        writer = message.writer
        if writer in (thread, INITIAL):
            return True
        return access.strong and message.strong and self._within(writer, message.scope, thread, access.scope)

    def _within(self, one: int, its_scope: Scope, other: int, others_scope: Scope) -> bool:
        """Whether each one's scope contains the other thread."""
        return min(its_scope, others_scope) >= self._nearness[one][other]

    # Rules 4 and 5

    def _readable(self, state: State, thread: Thread, location: int) -> tuple[int, ...]:
        order = state.orders[location]
        return order[order.index(thread.floor[location]) :]

    def _after_reading(self, state: State, index: int, access: Access, message: int) -> Thread:
        """The thread with the floor and pending sources that reading this message leaves it."""
        thread = state.threads[index]
        content = self.messages[message]
        location = access.location
        floor, pending = thread.floor, thread.pending
        if self._morally_strong(index, access, content):
            if floor[location] != message:
                floor = replaced(floor, location, message)
            if access.strong and content.sources:
                grown = pending.union((location, source) for source in content.sources)
                pending = grown if len(grown) > len(pending) else pending
        if access.acquire:
            here = (source for place, source in pending if place == location)
            floor = self._acquired(state, index, floor, here, access.scope)
        if floor is thread.floor and pending is thread.pending:
            return thread
        return thread._replace(floor=floor, pending=pending)

    def _acquired(self, state: State, index: int, floor: View, sources: Iterable[Source], scope: Scope) -> View:
        """`floor`, raised by every source in mutual scope."""
        for source in sources:
            if self._within(source.writer, source.scope, index, scope):
                floor = join(state.orders, floor, source.view)
        return floor

    def _load(self, state: State, index: int, load: Load) -> list[Step]:
        before = state.threads[index]
        readable = self._readable(state, before, load.location)
        values: Iterable[tuple[int, Thread]]
        if load.poll is None or state.late:
            values = ((message, self._after_reading(state, index, load, message)) for message in readable)
        else:
            values = self._news(state, index, load, readable)
        return [self._step(state, index, thread, self.value_of(message), read=message) for message, thread in values]

    def _news(self, state: State, index: int, load: Load, readable: Sequence[int]) -> Iterator[tuple[int, Thread]]:
        """What a poll is worth following for: not for what the loop has seen before, nor for looking again just so."""
        before = state.threads[index]
        seen = {message for _, location, message in before.polled if location == load.location}
        for message in readable:
            if message in seen:
                continue
            thread = self._after_reading(state, index, load, message)
            if thread is before:
                following = self._after(index, before, self.value_of(message), late=False).request
                if isinstance(following, Load) and (following.poll, following.location) == (load.poll, load.location):
                    continue
            yield message, thread._replace(polled=_polled(thread, load, message))

    # Rules 6 and 7

    def _store(self, state: State, index: int, store: Store) -> list[Step]:
        thread = state.threads[index]
        above = state.orders[store.location].index(thread.floor[store.location]) + 1
        return self._writes(state, index, thread, store, store.value, above)

    def _writes(
        self, state: State, index: int, thread: Thread, access: Access, value: int, above: int, read: int | None = None
    ) -> list[Step]:
        """One step for each place in the coherence order, from position `above` on, that the write may take."""
        location = access.location
        order = state.orders[location]
        sources = self._sources(state, index, thread, access, read)
        content = Message(index, thread.writes, value, access.strong, access.scope, sources, read)
        message = self._number(content)
        # V of its own release leaves the write itself out: whoever gets V has read this write or a later one.
        after = thread._replace(floor=replaced(thread.floor, location, message), writes=thread.writes + 1)
        returned = None if read is None else self.value_of(read)
        steps = []
        for place in range(above, len(order) + 1):
            if self._parts_an_rmw(index, access, order, place):
                continue
            orders = replaced(state.orders, location, (*order[:place], message, *order[place:]))
            steps.append(self._step(state._replace(orders=orders), index, after, returned, read, message))
        return steps

    def _parts_an_rmw(self, index: int, access: Access, order: tuple[int, ...], place: int) -> bool:
        """Whether a write at this place would come between a morally strong RMW and what that read."""
        for later in order[place:]:
            content = self.messages[later]
            if content.read is None or order.index(content.read) >= place:
                continue
            if self._morally_strong(index, access, content) and self._excludes(content.writer, access, index):
                return True
        return False

    def _excludes(self, thread: int, access: Access, writer: int) -> bool:
        """Whether no morally strong write of the other can part an RMW of this thread at that location (rule 14)."""
        return self._nearness[thread][writer] < Scope.SYS or not self.threads.is_parted(thread, access.location)

    def _sources(self, state: State, index: int, thread: Thread, access: Access, read: int | None) -> frozenset[Source]:
        """What the write hands on: releases before it, its own, and what an RMW inherits (rule 8)."""
        if not access.strong:
            return frozenset()
        sources = {Source(scope, index, view) for scope, view in zip(Scope, thread.fenced, strict=True) if view}
        if access.release:
            sources.add(Source(access.scope, index, thread.floor))
        for message in state.orders[access.location]:
            content = self.messages[message]
            if content.writer == index:
                sources.update(source for source in content.sources if source.writer == index)
        if read is not None and self._morally_strong(index, access, self.messages[read]):
            sources |= self.messages[read].sources
        return frozenset(sources)

    # Rules 8 and 14

    def _rmw(self, state: State, index: int, rmw: Rmw) -> list[Step]:
        steps = []
        order = state.orders[rmw.location]
        for message in self._readable(state, state.threads[index], rmw.location):
            old = self.value_of(message)
            thread = self._after_reading(state, index, rmw, message)
            new = rmw.modify(old)
            if new is None:
                steps.append(self._step(state, index, thread, old, read=message))
                continue
            above = 1 + max(order.index(message), order.index(thread.floor[rmw.location]))
            possible = self._writes(state, index, thread, rmw, new, above, message)
            steps += (step for step in possible if self._is_whole(index, rmw, step))
        return steps

    def _is_whole(self, index: int, rmw: Rmw, step: Step) -> bool:
        """Whether nothing morally strong stands between what the RMW read and what it wrote."""
        assert step.read is not None
        assert step.wrote is not None
        order = step.state.orders[rmw.location]
        between = [self.messages[m] for m in order[order.index(step.read) + 1 : order.index(step.wrote)]]
        return not any(self._morally_strong(index, rmw, m) and self._excludes(index, rmw, m.writer) for m in between)

    # Rules 9 and 10

    def _fence(self, state: State, index: int, fence: Fence) -> list[Step]:
        thread = state.threads[index]
        sources = [source for _, source in thread.pending]
        if fence.sequential:
            sources += state.fences
        floor = self._acquired(state, index, thread.floor, sources, fence.scope)
        if fence.sequential:
            state = state._replace(fences=state.fences | {Source(fence.scope, index, floor)})
        fenced = replaced(thread.fenced, fence.scope, floor)
        return [self._step(state, index, thread._replace(floor=floor, fenced=fenced))]

    # Rule 11

    def _barrier(self, state: State, index: int, barrier: Barrier) -> list[Step]:
        thread = state.threads[index]
        if disagrees(state, barrier):
            text = f"threads meet at barrier {barrier.barrier} with different thread counts; give all the same"
            raise self.threads.error(index, thread.at, text)
        state = arrived(state, Arrival(index, barrier, thread.floor))
        if barrier.waits:
            return [Step(index, with_thread(state, index, thread._replace(waits=True)))]
        return [self._step(state, index, thread)]

    # Rule 13

    def _copy(self, state: State, index: int, copy: Copy) -> list[Step]:
        thread = state.threads[index]
        begun = issued(state, thread, copy)
        if begun is None:
            raise self.threads.error(
                index, thread.at, "issued again before a full wait_group has taken the copy before"
            )
        return [self._step(begun[0], index, begun[1])]

    def _wait_for_copies(self, state: State, index: int, wait: WaitForCopies) -> list[Step]:
        thread = waited(state, state.threads[index], wait)
        return [] if thread is None else [self._step(state, index, thread)]

    # Time

    def _pause(self, state: State, index: int, pause: Pause) -> list[Step]:
        return [self._step(state, index, state.threads[index])] if state.late else []

    # Going on

    def _step(
        self,
        state: State,
        index: int,
        thread: Thread,
        value: Any = None,
        read: int | None = None,
        wrote: int | None = None,
    ) -> Step:
        """The thread goes on with what its request has returned."""
        at = self._after(index, thread, value, state.late)
        polled = thread.polled
        if polled and (at.request is None or any(loop not in at.request.wait_loops for loop, _, _ in polled)):
            polled = NOTHING
        return Step(index, with_thread(state, index, thread._replace(at=at, polled=polled)), read, wrote)

    def _after(self, index: int, thread: Thread, value: Any, late: bool) -> ProgramState:
        at = thread.at
        following = at.following.get((value, late))
        if following is None:
            following = at.following[value, late] = self.threads.after(index, at, value, late)
        return following

    def _number(self, message: Message) -> int:
        number = self._numbers.setdefault(message, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        return number


def _goes_forward(before: Thread, step: Step) -> bool:
    after = step.state.threads[step.thread]
    return after.waits or after.at.position > before.at.position


def _polled(thread: Thread, load: Load, message: int) -> frozenset[tuple[int | None, int, int]]:
    """A message that is not the first here is news: every other word the loop waits for is then looked at again."""
    seen = thread.polled
    here = frozenset(one for one in seen if one[1] == load.location)
    return (here or seen) | {(load.poll, load.location, message)}


def _has_ended(step: Step) -> bool:
    return is_at_end(step.state.threads[step.thread])
