"""The PTX memory model as an operational view model: which steps each thread can take from a state.

A thread has a floor under what it may still read, location by location; synchronisation raises it. Rule numbers in
the comments are those of docs/memory-model.md. One step is one instruction; all that varies (whose turn, which message
is read, where a store comes to stand) are different steps. Must not decide which step is taken, nor what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pcietool.litmus.model.accesses import Accesses, Done
from pcietool.litmus.model.barriers import arrived, disagrees, settled
from pcietool.litmus.model.copies import committed, fenced, issued, waited
from pcietool.litmus.model.requests import (
    Access,
    Await,
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
    Values,
    WaitForCopies,
)
from pcietool.litmus.model.state import (
    TIME,
    Arrival,
    Looks,
    Polled,
    Source,
    State,
    Step,
    Thread,
    is_at_end,
    join,
    replaced,
    with_thread,
)

NOTHING: frozenset[Any] = frozenset()


class Model:
    """The rules, for these threads."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.accesses = Accesses(threads.nearness, threads.memory)
        self._rules: dict[type[Request], Callable[[State, int, Any], list[Step]]] = {
            Load: self._load,
            Store: self._store,
            Rmw: self._rmw,
            Fence: self._fence,
            Barrier: self._barrier,
            Pause: self._pause,
            Await: self._await,
            Copy: self._copy,
            Commit: lambda state, index, commit: [self._step(state, index, committed(state.threads[index], commit))],
            WaitForCopies: self._wait_for_copies,
            ProxyFence: lambda state, index, fence: [self._step(state, index, fenced(state.threads[index], fence))],
        }

    def start(self) -> State:
        first = self.accesses.first
        threads = tuple(
            Thread(self.threads.begin(index), first, (None, None, None), NOTHING, 0, False, None, first, ((),), first)
            for index in range(len(self.threads.nearness))
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

    def memory(self, state: State) -> list[int]:
        """The last value of each location in coherence order."""
        return [self.accesses.value_in(order[-1], location) for location, order in enumerate(state.orders)]

    # Rules 3 to 8 and 14

    def _load(self, state: State, index: int, load: Load) -> list[Step]:
        done = self.accesses.loads(state, index, load)
        if load.poll is not None and not state.late:
            done = self._news(state, index, load, done)
        return [self._accessed(state, index, load, one) for one in done]

    def _news(self, state: State, index: int, load: Load, possible: Iterator[Done]) -> Iterator[Done]:
        """What a poll is worth following for: not for what it has seen before, carrying the same, while the other words
        of its loop showed what they show now, unless one of those has news; nor for looking again just so."""
        before = state.threads[index]
        assert load.poll is not None
        polled = before.polled if before.polled and before.polled.loop == load.poll else Polled(load.poll, (), NOTHING)
        elsewhere = None
        for done in possible:
            latest = looked(polled.latest, load.moments, done.read)
            look = load.moments, load.carried, latest
            if look in polled.past:
                if elsewhere is None:
                    elsewhere = self._has_news_elsewhere(state, index, load, polled)
                if not elsewhere:
                    continue
            elif done.thread is before:
                following = self._after(index, before, load.returned(done.values), late=False).request
                if isinstance(following, Load) and _asks_the_same(following, load):
                    continue
            seen = Polled(load.poll, latest, polled.past | {look})
            yield done._replace(thread=done.thread._replace(polled=seen))

    def _has_news_elsewhere(self, state: State, index: int, load: Load, polled: Polled) -> bool:
        floor = state.threads[index].floor
        past = {(moments, latest) for moments, _, latest in polled.past}
        return any(
            (moments, looked(polled.latest, moments, messages)) not in past
            for moments, _ in polled.latest
            if moments != load.moments
            for messages in self.accesses.choices(state.orders, floor, moments)
        )

    def _store(self, state: State, index: int, store: Store) -> list[Step]:
        return [self._accessed(state, index, store, done) for done in self.accesses.stores(state, index, store)]

    def _rmw(self, state: State, index: int, rmw: Rmw) -> list[Step]:
        def comes_back(thread: Thread, old: Values) -> bool:
            return self._after(index, thread, rmw.returned(old), state.late) is thread.at

        return [self._accessed(state, index, rmw, done) for done in self.accesses.rmws(state, index, rmw, comes_back)]

    def _accessed(self, state: State, index: int, access: Access, done: Done) -> Step:
        value = access.returned(done.values) if done.read else None
        thread = self._gone_on(state, index, done.thread, value)
        return Step(index, with_thread(state, index, thread, done.orders), done.read, done.wrote)

    # Rules 9 and 10

    def _fence(self, state: State, index: int, fence: Fence) -> list[Step]:
        thread = state.threads[index]
        sources = [source for _, source in thread.pending] if fence.acquires else []
        if fence.sequential:
            sources += state.fences
        floor = self.accesses.acquired(state, index, thread.floor, sources, fence.scope)
        if fence.sequential:
            state = state._replace(fences=state.fences | {Source(fence.scope, index, floor)})
        fenced = replaced(thread.fenced, fence.scope, floor) if fence.releases else thread.fenced
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

    # Launches

    def _await(self, state: State, index: int, wait: Await) -> list[Step]:
        threads = [state.threads[number] for number in wait.threads]
        come = {arrival.barrier.block for arrival in state.arrivals}
        let = (block in come or all(is_at_end(state.threads[number]) for number in those) for block, those in wait.lets)
        if not (all(map(is_at_end, threads)) and all(let)):
            return []
        thread = state.threads[index]
        floor = thread.floor
        for other in threads:
            floor = join(state.orders, floor, other.floor)
        return [self._step(state, index, thread._replace(floor=floor, began=floor if wait.begins else thread.began))]

    # Time

    def _pause(self, state: State, index: int, pause: Pause) -> list[Step]:
        return [self._step(state, index, state.threads[index])] if state.late else []

    # Going on

    def _step(self, state: State, index: int, thread: Thread) -> Step:
        """The thread goes on, with nothing from memory."""
        return Step(index, with_thread(state, index, self._gone_on(state, index, thread, None)))

    def _gone_on(self, state: State, index: int, thread: Thread, value: Any) -> Thread:
        """The thread where its program goes on with what its request has returned."""
        at = self._after(index, thread, value, state.late)
        polled = thread.polled
        if polled and (at.request is None or polled.loop not in at.request.wait_loops):
            polled = None
        _, floor, fenced, pending, writes, waits, _, proxied, groups, began = thread
        return Thread(at, floor, fenced, pending, writes, waits, polled, proxied, groups, began)

    def _after(self, index: int, thread: Thread, value: Any, late: bool) -> ProgramState:
        at = thread.at
        following = at.following.get((value, late))
        if following is None:
            following = at.following[value, late] = self.threads.after(index, at, value, late)
        return following


def _goes_forward(before: Thread, step: Step) -> bool:
    after = step.state.threads[step.thread]
    return after.waits or after.at.position > before.at.position


def _asks_the_same(one: Load, other: Load) -> bool:
    return (one.poll, one.moments, one.carried) == (other.poll, other.moments, other.carried)


def looked(latest: Looks, moments: tuple[tuple[int, ...], ...], messages: tuple[int, ...]) -> Looks:
    """What the words of a wait loop show after one more look."""
    return tuple(sorted({**dict(latest), moments: messages}.items()))


def _has_ended(step: Step) -> bool:
    return is_at_end(step.state.threads[step.thread])
