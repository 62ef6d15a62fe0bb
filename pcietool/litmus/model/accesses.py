"""Loads, stores and RMWs, rules 3 to 8 and 14 of docs/memory-model.md: what can be read, where a write may come to
stand, and what either leaves the thread with.

Must not know what else threads can do, nor how they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product
from typing import NamedTuple

from pcietool.litmus.model.requests import Access, Load, Rmw, Store, Values
from pcietool.litmus.model.state import (
    INITIAL,
    Message,
    Orders,
    Source,
    State,
    Thread,
    View,
    join,
    replaced,
)
from pcietool.litmus.text.program import Scope


class Done(NamedTuple):
    """What an access has come to: the thread that has done it, the coherence orders, the messages read and the values
    in them, the messages written."""

    thread: Thread
    orders: Orders
    read: tuple[int, ...] = ()
    values: Values = ()
    wrote: tuple[int, ...] = ()


class Moment(NamedTuple):
    """What is written at once. For an RMW: what it read in each of these locations, whether it writes just that, and
    whether its thread then only tries again."""

    locations: tuple[int, ...]
    values: Values
    sources: frozenset[Source]
    read: tuple[int, ...] = ()
    unchanged: bool = False
    tries_again: bool = False


class Accesses:
    """`messages` grows as writes are found; nothing else here changes."""

    def __init__(self, nearness: Sequence[Sequence[Scope]], memory: Sequence[int]) -> None:
        self.messages: list[Message] = []
        self._numbers: dict[Message, int] = {}
        self._nearness = nearness
        self.first: View = tuple(
            self.number(Message(INITIAL, 0, 0, (location,), (value,), 0, True, Scope.SYS, frozenset()))
            for location, value in enumerate(memory)
        )
        """The initial message of each location."""

    def number(self, message: Message) -> int:
        """Equal messages have one number."""
        number = self._numbers.setdefault(message, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        return number

    def value_in(self, message: int, location: int) -> int:
        """What the message says of one of its locations."""
        content = self.messages[message]
        return content.values[content.locations.index(location)]

    # Rule 3

    def morally_strong(self, thread: int, access: Access, message: Message) -> bool:
        """Whether the access and the write count as synchronised: that they have a location in common is given."""
        writer = message.writer
        if writer == INITIAL:
            return True
        if access.size != message.size:
            return False
        if writer == thread:
            return True
        return access.strong and message.strong and self.within(writer, message.scope, thread, access.scope)

    def within(self, one: int, its_scope: Scope, other: int, others_scope: Scope) -> bool:
        """Whether each one's scope contains the other thread."""
        return min(its_scope, others_scope) >= self._nearness[one][other]

    # Rules 4 and 5

    def loads(self, state: State, index: int, load: Load) -> Iterator[Done]:
        """By what is read."""
        before = state.threads[index]
        floor = before.floor if load.coherent else before.began
        for picks in self.choices(state.orders, floor, load.moments):
            thread = self.after_reading(state, index, load, picks) if load.coherent else before
            yield Done(thread, state.orders, picks, self._values(load, picks))

    def choices(self, orders: Orders, floor: View, moments: tuple[tuple[int, ...], ...]) -> Iterable[tuple[int, ...]]:
        """The messages that an access may read, one for each location."""
        if len(moments) == 1 and len(moments[0]) == 1:
            return [(message,) for message in _readable(orders, floor, moments[0][0])]
        whole = [list(self._at_one_moment(orders, floor, moment)) for moment in moments]
        return [tuple(chain(*picks)) for picks in product(*whole)]

    def _at_one_moment(self, orders: Orders, floor: View, moment: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Whoever sees a part of a message sees nothing older beside it."""
        for picks in product(*(_readable(orders, floor, location) for location in moment)):
            seen = dict(zip(moment, picks, strict=True))
            if not any(
                orders[other].index(seen[other]) < orders[other].index(message)
                for message in set(picks)
                for other in self.messages[message].locations
                if other in seen
            ):
                yield picks

    def _values(self, access: Access, picks: tuple[int, ...]) -> Values:
        if len(picks) == 1:
            return (self.value_in(picks[0], access.moments[0][0]),)
        return tuple(map(self.value_in, picks, chain(*access.moments)))

    def after_reading(self, state: State, index: int, access: Access, picks: tuple[int, ...]) -> Thread:
        """The thread with the floor and pending sources that reading these messages leaves it."""
        thread = state.threads[index]
        floor, pending = thread.floor, thread.pending
        locations = access.moments[0] if len(picks) == 1 else tuple(chain(*access.moments))
        for location, message in zip(locations, picks, strict=True):
            content = self.messages[message]
            if not self.morally_strong(index, access, content):
                continue
            if floor[location] != message and len(picks) == 1:
                floor = replaced(floor, location, message)
            elif len(picks) > 1:
                floor = raised(state.orders, floor, message, content.locations, locations)
            if content.sources and access.strong:
                grown = pending.union((location, source) for source in content.sources)
                pending = grown if len(grown) > len(pending) else pending
        if access.acquire:
            here = [source for place, source in pending if place in locations]
            floor = self.acquired(state, index, floor, here, access.scope)
        if floor is thread.floor and pending is thread.pending:
            return thread
        return thread._replace(floor=floor, pending=pending)

    def acquired(self, state: State, index: int, floor: View, sources: Iterable[Source], scope: Scope) -> View:
        """`floor`, raised by every source in mutual scope."""
        for source in sources:
            if self.within(source.writer, source.scope, index, scope):
                floor = join(state.orders, floor, source.view)
        return floor

    # Rules 6 and 7

    def stores(self, state: State, index: int, store: Store) -> Iterator[Done]:
        """By where the store comes to stand."""
        sources = self.sources(state, index, store, (), store.release)
        done = [Done(state.threads[index], state.orders)]
        rest = store.values
        for moment in store.moments:
            now, rest = rest[: len(moment)], rest[len(moment) :]
            done = [
                later._replace(wrote=before.wrote + later.wrote)
                for before in done
                for later in self._written(before, index, store, Moment(moment, now, sources))
            ]
        yield from done

    def _written(self, before: Done, index: int, access: Access, moment: Moment) -> Iterator[Done]:
        """One for each place in the coherence orders, above what the thread has seen, that the write may take."""
        thread, orders, locations = before.thread, before.orders, moment.locations
        native = access.native if isinstance(access, Rmw) else True
        content = Message(
            index,
            thread.writes,
            thread.at.position,
            locations,
            moment.values,
            access.size,
            access.strong,
            access.scope,
            moment.sources,
            moment.read,
            native,
        )
        for places in self._places(orders, index, access, thread.floor, moment):
            behind = tuple(orders[location][place - 1] for location, place in zip(locations, places, strict=True))
            if self._says_nothing_new(orders, content, behind, moment):
                yield Done(_all_above(orders, thread, locations, behind), orders)
                continue
            message = self.number(content)
            # V of its own release leaves the write itself out: whoever gets V has read this write or a later one.
            floor = thread.floor
            for location, place in zip(locations, places, strict=True):
                order = orders[location]
                orders_after = (*order[:place], message, *order[place:])
                floor = replaced(floor, location, message)
                orders = replaced(orders, location, orders_after)
            yield Done(thread._replace(floor=floor, writes=thread.writes + 1), orders, wrote=(message,))
            orders = before.orders

    def _places(
        self, orders: Orders, index: int, access: Access, floor: View, moment: Moment
    ) -> Iterator[tuple[int, ...]]:
        possible = []
        for at, location in enumerate(moment.locations):
            order = orders[location]
            above = order.index(floor[location])
            whole = len(order)
            if moment.read:
                read = order.index(moment.read[at])
                above = max(above, read)
                whole = read + self._whole_for(index, access, order[read + 1 :])
            places = range(above + 1, whole + 1)
            possible.append(
                [place for place in places if not self._parts_an_rmw(index, access, location, order, place)]
            )
        for choice in product(*possible):
            if len(choice) == 1 or _agree(orders, moment.locations, choice):
                yield choice

    def _whole_for(self, index: int, access: Access, behind: Sequence[int]) -> int:
        """How many places behind what an RMW reads it may write in, with nothing morally strong in between."""
        assert isinstance(access, Rmw)
        for count, message in enumerate(behind):
            content = self.messages[message]
            if self.morally_strong(index, access, content) and self._excludes(index, access.native, content.writer):
                return count + 1
        return len(behind) + 1

    def _parts_an_rmw(self, index: int, access: Access, location: int, order: tuple[int, ...], place: int) -> bool:
        """Whether a write at this place would come between a morally strong RMW and what that read."""
        for later in order[place:]:
            content = self.messages[later]
            if not content.read or order.index(content.read[content.locations.index(location)]) >= place:
                continue
            if self.morally_strong(index, access, content) and self._excludes(content.writer, content.native, index):
                return True
        return False

    def _excludes(self, thread: int, native: bool, writer: int) -> bool:
        """Whether no morally strong write of the other can part an RMW of this thread (rule 14)."""
        return native or self._nearness[thread][writer] < Scope.SYS

    def _says_nothing_new(self, orders: Orders, content: Message, behind: tuple[int, ...], moment: Moment) -> bool:
        """Whether it makes no difference that the write stands behind these messages: so loops come to an end that
        store the same again and again, or poll with an RMW."""
        before = [self.messages[number] for number in behind]
        if moment.unchanged:
            if tuple(map(self.value_in, behind, content.locations)) != content.values:
                return False
            if moment.tries_again:  # that turn of the loop may as well be left out
                return True
            again = any(
                self.messages[number].writer == content.writer and self.messages[number].position == content.position
                for number in orders[content.locations[0]]
            )
            return behind == moment.read and all(self._stands_for(one, content, again) for one in before)
        same = before[0]._replace(ordinal=content.ordinal, read=content.read)
        return same == content and len(set(behind)) == 1

    def _stands_for(self, before: Message, content: Message, again: bool) -> bool:
        """Whether whoever reads `before` is as well off as with `content` behind it, by an RMW that wrote the same. In
        another turn of a loop it may be better off, since that turn may as well be left out."""
        if not content.sources <= before.sources:
            return False
        if before.writer == INITIAL:
            return True
        if not before.strong or before.size != content.size:
            return False
        if not again:
            return before.writer == content.writer and before.scope == content.scope
        near = (
            row[before.writer] <= row[content.writer] for n, row in enumerate(self._nearness) if n != content.writer
        )
        return before.scope >= content.scope and all(near)

    def sources(
        self, state: State, index: int, access: Access, read: tuple[int, ...], releases: bool
    ) -> frozenset[Source]:
        """What a write hands on: releases before it, its own, and what an RMW inherits (rule 8). Whoever reads it is
        above all older writes here, so views need not say so."""
        if not access.strong:
            return frozenset()
        thread = state.threads[index]
        locations = tuple(chain(*access.moments))
        views = [(scope, view) for scope, view in zip(Scope, thread.fenced, strict=True) if view]
        if releases:
            views.append((access.scope, thread.floor))
        sources = {Source(scope, index, self._without(view, locations)) for scope, view in views}
        for location in locations:
            for message in state.orders[location]:
                content = self.messages[message]
                if content.writer == index and content.size == access.size:
                    sources.update(source for source in content.sources if source.writer == index)
        for message in read:
            if self.morally_strong(index, access, self.messages[message]):
                sources |= self.messages[message].sources
        return frozenset(sources)

    def _without(self, view: View, locations: tuple[int, ...]) -> View:
        for location in locations:
            view = replaced(view, location, self.first[location])
        return view

    # Rules 8 and 14

    def rmws(self, state: State, index: int, rmw: Rmw, comes_back: Callable[[Thread, Values], bool]) -> Iterator[Done]:
        """By what is read and where the write comes to stand. `comes_back`: whether the thread, having read this, would
        do nothing but try again."""
        orders = state.orders
        for picks in self.choices(orders, state.threads[index].floor, rmw.moments):
            thread = self.after_reading(state, index, rmw, picks)
            old = self._values(rmw, picks)
            new = rmw.modify(old)
            if new is None and rmw.native:
                yield Done(thread, orders, picks, old)
                continue
            unchanged = new is None or new == old
            sources = self.sources(state, index, rmw, picks, rmw.release and new is not None)
            tries_again = unchanged and comes_back(thread, old)
            moment = Moment(rmw.moments[0], new or old, sources, picks, unchanged, tries_again)
            for done in self._written(Done(thread, orders), index, rmw, moment):
                yield done._replace(read=picks, values=old)


def _readable(orders: Orders, floor: View, location: int) -> tuple[int, ...]:
    order = orders[location]
    return order[order.index(floor[location]) :]


def raised(orders: Orders, floor: View, message: int, its: Iterable[int], looked_at: tuple[int, ...]) -> View:
    """`floor`, with this message or a later one in those of its locations that were looked at."""
    for location in its:
        if location in looked_at and floor[location] != message:
            order = orders[location]
            if order.index(floor[location]) < order.index(message):
                floor = replaced(floor, location, message)
    return floor


def _all_above(orders: Orders, thread: Thread, locations: tuple[int, ...], messages: tuple[int, ...]) -> Thread:
    floor = thread.floor
    for location, message in zip(locations, messages, strict=True):
        floor = raised(orders, floor, message, (location,), locations)
    return thread if floor is thread.floor else thread._replace(floor=floor)


def _agree(orders: Orders, locations: tuple[int, ...], places: tuple[int, ...]) -> bool:
    """Whether the write comes before and behind the same messages in all of its locations."""
    below: set[int] = set()
    above: set[int] = set()
    for location, place in zip(locations, places, strict=True):
        below.update(orders[location][:place])
        above.update(orders[location][place:])
    return not below & above
