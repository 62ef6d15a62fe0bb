"""The PTX memory model as an operational view model: which steps each thread can take from a state.

A thread has a floor under what it may still read, location by location; synchronisation raises it. Rule numbers in
the comments are those of docs/memory-model.md. One step is one instruction; all that varies (whose turn, which message
is read, where a store comes to stand) are different steps. Must not decide which step is taken, nor what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pcietool.errors import ConfigError
from pcietool.litmus.program import (
    Access,
    Arithmetic,
    Barrier,
    Branch,
    Fence,
    Instruction,
    LitmusTest,
    Load,
    Operand,
    Rmw,
    Scope,
    Store,
    common_scope,
)
from pcietool.litmus.state import INITIAL, Arrival, Message, Source, State, Step, Thread, View, join, replaced

LARGEST_BITS = 256
"""Of a value: enough for any sum that tells stores apart, and a loop that multiplies ends."""


class Model:
    """The rules, for one test. `messages` grows as steps are computed; nothing else here changes."""

    def __init__(self, test: LitmusTest) -> None:
        self.messages: list[Message] = []
        self._numbers: dict[Message, int] = {}
        self._name = test.name
        self._memory = test.memory
        self._initial_registers = [thread.initial for thread in test.threads]
        self._codes = [thread.code for thread in test.threads]
        self._ctas = [(thread.gpu, thread.cta) for thread in test.threads]
        self._nearness = [[common_scope(a, b) for b in test.threads] for a in test.threads]
        """The narrowest scope that contains both threads."""
        self._rules: dict[type[Instruction], Callable[[State, int, Any], list[Step]]] = {
            Arithmetic: self._arithmetic,
            Branch: self._branch,
            Load: self._load,
            Store: self._store,
            Rmw: self._rmw,
            Fence: self._fence,
            Barrier: self._barrier,
        }

    def start(self) -> State:
        first = tuple(
            self._number(Message(INITIAL, location, value, True, Scope.SYS, frozenset(), None))
            for location, value in enumerate(self._memory)
        )
        threads = (
            Thread(0, registers, first, (None, None, None), frozenset(), 0, False)
            for registers in self._initial_registers
        )
        return State(tuple(threads), tuple((message,) for message in first), frozenset(), ())

    def steps(self, state: State) -> list[Step]:
        """Every step that matters. One that no other thread can notice or influence is taken alone, before all others:
        it commutes with them. No step at all: everything has ended, or what has not is stuck."""
        steps: list[Step] = []
        for index, thread in enumerate(state.threads):
            instruction = self.next_instruction(index, thread)
            if instruction is None:
                continue
            possible = self._rules[type(instruction)](state, index, instruction)
            if state.arrivals or isinstance(instruction, Barrier):
                possible = [step._replace(state=self._settled(step.state)) for step in possible]
            if _is_private(instruction):
                return possible
            steps += possible
        return steps

    def next_instruction(self, index: int, thread: Thread) -> Instruction | None:
        """None for a thread that has ended or waits for a barrier."""
        code = self._codes[index]
        return None if thread.waits or thread.position >= len(code) else code[thread.position]

    def has_ended(self, state: State) -> bool:
        """Without steps and without this, an execution hangs."""
        return all(self._is_at_end(index, thread) for index, thread in enumerate(state.threads))

    def _is_at_end(self, index: int, thread: Thread) -> bool:
        return not thread.waits and thread.position >= len(self._codes[index])

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
            floor = replaced(floor, location, message)
            if access.strong and content.sources:
                pending = pending.union((location, source) for source in content.sources)
        if access.acquire:
            here = (source for place, source in pending if place == location)
            floor = self._acquired(state, index, floor, here, access.scope)
        return thread._replace(floor=floor, pending=pending)

    def _acquired(self, state: State, index: int, floor: View, sources: Iterable[Source], scope: Scope) -> View:
        """`floor`, raised by every source in mutual scope."""
        for source in sources:
            if self._within(source.writer, source.scope, index, scope):
                floor = join(state.orders, floor, source.view)
        return floor

    def _load(self, state: State, index: int, load: Load) -> list[Step]:
        steps = []
        for message in self._readable(state, state.threads[index], load.location):
            thread = self._after_reading(state, index, load, message)
            registers = replaced(thread.registers, load.register, self.value_of(message))
            steps.append(_step(state, index, thread._replace(registers=registers), read=message))
        return steps

    # Rules 6 and 7

    def _store(self, state: State, index: int, store: Store) -> list[Step]:
        thread = state.threads[index]
        value = _evaluate(store.value, thread.registers)
        above = state.orders[store.location].index(thread.floor[store.location]) + 1
        return self._writes(state, index, thread, store, value, above)

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
        steps = []
        for place in range(above, len(order) + 1):
            if self._parts_an_rmw(index, access, order, place):
                continue
            orders = replaced(state.orders, location, (*order[:place], message, *order[place:]))
            steps.append(_step(state._replace(orders=orders), index, after, read, message))
        return steps

    def _parts_an_rmw(self, index: int, access: Access, order: tuple[int, ...], place: int) -> bool:
        """Whether a write at this place would come between a morally strong RMW and what that read."""
        for later in order[place:]:
            content = self.messages[later]
            if content.read is None or order.index(content.read) >= place:
                continue
            if self._morally_strong(index, access, content):
                return True
        return False

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

    # Rule 8

    def _rmw(self, state: State, index: int, rmw: Rmw) -> list[Step]:
        steps = []
        order = state.orders[rmw.location]
        for message in self._readable(state, state.threads[index], rmw.location):
            old = self.value_of(message)
            thread = self._after_reading(state, index, rmw, message)
            operand = _evaluate(rmw.value, thread.registers)
            is_refused = rmw.expected is not None and old != _evaluate(rmw.expected, thread.registers)
            if rmw.register is not None:
                thread = thread._replace(registers=replaced(thread.registers, rmw.register, old))
            if is_refused:
                steps.append(_step(state, index, thread, read=message))
                continue
            above = 1 + max(order.index(message), order.index(thread.floor[rmw.location]))
            possible = self._writes(state, index, thread, rmw, rmw.combine(old, operand), above, message)
            steps += (step for step in possible if self._is_whole(index, rmw, step))
        return steps

    def _is_whole(self, index: int, rmw: Rmw, step: Step) -> bool:
        """Whether nothing morally strong stands between what the RMW read and what it wrote."""
        assert step.read is not None
        assert step.wrote is not None
        order = step.state.orders[rmw.location]
        between = order[order.index(step.read) + 1 : order.index(step.wrote)]
        return not any(self._morally_strong(index, rmw, self.messages[message]) for message in between)

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
        return [_step(state, index, thread._replace(floor=floor, fenced=fenced))]

    # Rule 11

    def _barrier(self, state: State, index: int, barrier: Barrier) -> list[Step]:
        thread = state.threads[index]
        arrival = Arrival(
            cta=self._ctas[index],
            instance=barrier.instance,
            barrier=_evaluate(barrier.barrier, thread.registers),
            quorum=_evaluate(barrier.quorum, thread.registers) if barrier.quorum else 0,
            thread=index,
            waits=barrier.waits,
            floor=thread.floor,
        )
        if any(_meet(arrival, other) and other.quorum != arrival.quorum for other in state.arrivals):
            text = f"threads meet at barrier {arrival.barrier} with different thread counts; give all the same"
            raise self._error(barrier, text)
        state = state._replace(arrivals=tuple(sorted((*state.arrivals, arrival))))
        return [_step(state, index, thread._replace(waits=barrier.waits))]

    def _settled(self, state: State) -> State:
        """The state once every barrier that is complete has let its threads go."""
        for arrival in state.arrivals:
            group = [other for other in state.arrivals if _meet(arrival, other)]
            if self._is_complete(state, arrival, group):
                return self._settled(self._released(state, group))
        return state

    def _is_complete(self, state: State, arrival: Arrival, group: list[Arrival]) -> bool:
        if arrival.quorum:
            return len(group) >= arrival.quorum
        arrived = {other.thread for other in group}
        return all(index in arrived or self._is_at_end(index, state.threads[index]) for index in self._members(arrival))

    def _members(self, arrival: Arrival) -> list[int]:
        """The threads of the CTA whose code contains the instance."""
        return [
            index
            for index, (cta, code) in enumerate(zip(self._ctas, self._codes, strict=True))
            if cta == arrival.cta and any(isinstance(one, Barrier) and one.instance == arrival.instance for one in code)
        ]

    def _released(self, state: State, group: list[Arrival]) -> State:
        """What others at the same barrier have seen, every thread that waited has seen now."""
        threads = list(state.threads)
        for member in group:
            if member.waits:
                floor = member.floor
                for other in group:
                    if other.barrier == member.barrier:
                        floor = join(state.orders, floor, other.floor)
                threads[member.thread] = threads[member.thread]._replace(floor=floor, waits=False)
        arrivals = tuple(other for other in state.arrivals if other not in group)
        return state._replace(threads=tuple(threads), arrivals=arrivals)

    # What only the thread itself can notice

    def _arithmetic(self, state: State, index: int, instruction: Arithmetic) -> list[Step]:
        thread = state.threads[index]
        left, right = _evaluate(instruction.left, thread.registers), _evaluate(instruction.right, thread.registers)
        try:
            result = instruction.combine(left, right)
        except ZeroDivisionError:
            raise self._error(instruction, "div by zero; keep the divisor from being 0") from None
        if result.bit_length() > LARGEST_BITS:
            raise self._error(instruction, f"a value of more than {LARGEST_BITS} bits; use smaller numbers")
        registers = replaced(thread.registers, instruction.register, result)
        return [_step(state, index, thread._replace(registers=registers))]

    def _branch(self, state: State, index: int, branch: Branch) -> list[Step]:
        thread = state.threads[index]
        left, right = _evaluate(branch.left, thread.registers), _evaluate(branch.right, thread.registers)
        position = branch.target if branch.compare(left, right) else thread.position + 1
        return [Step(index, _with_thread(state, index, thread._replace(position=position)))]

    def _error(self, instruction: Instruction, text: str) -> ConfigError:
        """To be raised by the caller."""
        return ConfigError(f"{self._name} line {instruction.line}: {text}")

    def _number(self, message: Message) -> int:
        number = self._numbers.setdefault(message, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        return number


def _is_private(instruction: Instruction) -> bool:
    """fence.acq_rel among them: it only moves between what the thread has read and what it may read."""
    return isinstance(instruction, Arithmetic | Branch) or (
        isinstance(instruction, Fence) and not instruction.sequential
    )


def _evaluate(operand: Operand, registers: tuple[int, ...]) -> int:
    return operand.constant if operand.register is None else registers[operand.register]


def _with_thread(state: State, index: int, thread: Thread) -> State:
    return state._replace(threads=replaced(state.threads, index, thread))


def _step(state: State, index: int, thread: Thread, read: int | None = None, wrote: int | None = None) -> Step:
    """The thread goes on to its next instruction."""
    return Step(index, _with_thread(state, index, thread._replace(position=thread.position + 1)), read, wrote)


def _meet(one: Arrival, other: Arrival) -> bool:
    """Whether both count for the same completion: with a thread count by barrier, without one by instance."""
    if one.cta != other.cta:
        return False
    return one.barrier == other.barrier if one.quorum else one.instance == other.instance
