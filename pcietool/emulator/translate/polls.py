"""Finds wait loops in parsed PTX: loops that do nothing but look until a loaded value lets them go.

Engines park a thread in such a loop, or leave looks out, instead of taking every turn. Must stay conservative: a loop
that stores, synchronises, or may be left for another reason than what its polls return is taken turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from pcietool.emulator.ops import Code, Poll
from pcietool.emulator.translate import isa
from pcietool.emulator.translate.accesses import is_near, is_shared, is_strong
from pcietool.emulator.translate.control_flow import Block, jump_at_end, natural_loops, successors
from pcietool.emulator.translate.liveness import live_after
from pcietool.emulator.translate.translation import TIMERS
from pcietool.protocol.watch import WATCH
from pcietool.ptx.model import Address, Function, Instruction, Register, Symbol
from pcietool.ptx.registers import registers_in

LIMITS = tuple(
    at for name, (_, at, *_) in (WATCH.fields or {}).items() if name in ("gave_up", "poll_limit", "deadline_ns")
)
"""Where in the Watch stands what ends a wait that takes too long."""


def wait_loops(function: Function) -> dict[int, Poll]:
    """By id() of each load instruction that polls in a wait loop.

    The loop is the largest one around the load that only waits and that the loaded value can end.
    """
    loops = _loops(function)
    live = live_after(function)
    polls: dict[int, Poll] = {}
    for number, loop in enumerate(loops):
        counts = loop.counts(live)
        if counts and loop.ends_by_a_limit:  # with which it compares its count: each turn is taken
            continue
        if loop.only_waits():
            around = [other for other in loops[:number] if other.blocks > loop.blocks]
            state = loop.state(around, live)
            for load in loop.polls:
                if id(load) not in polls:
                    carried = tuple(sorted(state & _live_before(load, live)))
                    polls[id(load)] = Poll(number, carried, counts, len(loop.loads) == 1)
    return polls


def around(function: Function) -> dict[int, frozenset[int]]:
    """By id() of each instruction: the numbers of the wait loops that it stands in. Left out are those that control
    can leave and enter again without asking the engine for anything: nobody would notice."""
    found: dict[int, set[int]] = {}
    for number, loop in enumerate(_loops(function)):
        if loop.only_waits() and not _enters_again_unnoticed(function, loop.blocks, _is_noticed):
            for instruction in loop.body:
                found.setdefault(id(instruction), set()).add(number)
    return {instruction: frozenset(numbers) for instruction, numbers in found.items()}


def has_own_timers(function: Function) -> bool:
    """Does it compare the time with anything but the launch's deadline?"""
    whole = _Loop(function, frozenset(range(len(function.blocks))), _watch(function))
    late = whole.late
    times = whole.depending_on([i for i in whole.body if _reads_a_timer(i)])
    return any(
        i.opcode == "setp" and not times.isdisjoint(isa.registers_read(i)) and late.isdisjoint(isa.registers_written(i))
        for i in whole.body
    )


def _live_before(i: Instruction, live: Mapping[int, frozenset[str]]) -> frozenset[str]:
    return live[id(i)].difference(() if i.guard else isa.registers_written(i)).union(isa.registers_read(i))


def _loops(function: Function) -> list[_Loop]:
    watch = _watch(function)
    return [_Loop(function, blocks, watch) for blocks in natural_loops(function)]


def _watch(function: Function) -> frozenset[str]:
    """Registers that only ever hold the first parameter, which may be the Watch."""
    first = function.parameters[0].name if function.parameters else ""
    writes: dict[str, list[Instruction]] = {}
    for block in function.blocks:
        for i in block.instructions:
            for name in isa.registers_written(i):
                writes.setdefault(name, []).append(i)
    found: set[str] = set()
    grown = True
    while grown:
        before = len(found)
        found.update(name for name, those in writes.items() if all(_hands_on(i, first, found) for i in those))
        grown = len(found) > before
    return frozenset(found)


def _hands_on(i: Instruction, parameter: str, known: set[str]) -> bool:
    if i.opcode == "ld" and i.has("param"):
        return i.operands[1] == Address(Symbol(parameter))
    return i.opcode in ("cvta", "mov") and isinstance(i.operands[1], Register) and i.operands[1].name in known


def _enters_again_unnoticed(
    function: Function, blocks: frozenset[Block], is_noticed: Callable[[Instruction], bool]
) -> bool:
    reached = {follower for block in blocks for follower in successors(function, block)} - blocks
    ahead = list(reached)
    while ahead:
        block = ahead.pop()
        if any(map(is_noticed, function.blocks[block].instructions)):
            continue
        for follower in successors(function, block):
            if follower in blocks:
                return True
            if follower not in reached:
                reached.add(follower)
                ahead.append(follower)
    return False


def _is_noticed(i: Instruction) -> bool:
    """Does an exploration see each of these?"""
    return isa.row(i).asks not in (None, Code.SLEEP) and not i.guard and not i.has("param", "const")


def _ends_waiting(i: Instruction) -> bool:
    """Does the engine know by each of these that a thread is in no wait loop any more?"""
    if i.guard or is_shared(i):
        return False
    asks = isa.row(i).asks
    if asks == Code.STORE:
        return is_strong(i)
    return asks in (Code.RMW, Code.BARRIER, Code.WARP, Code.BULK, Code.MBARRIER)


def _is_poll(load: Instruction) -> bool:
    """Does the engine see each of these loads, and can another GPU change what it returns?"""
    return is_strong(load) and not is_near(load)


def _reads_a_timer(i: Instruction) -> bool:
    return any(name in TIMERS for operand in i.operands for name in registers_in(operand))


class _Loop:
    """`watch`: registers that hold the kernel's first parameter."""

    def __init__(self, function: Function, blocks: frozenset[Block], watch: frozenset[str]) -> None:
        self.function = function
        self.blocks = blocks
        self.body = [i for block in sorted(blocks) for i in function.blocks[block].instructions]
        self.loads = [i for i in self.body if isa.row(i).asks == Code.LOAD and not i.has("param", "const")]
        self._watch = watch
        self._ways = {block: successors(function, block) for block in sorted(blocks)}
        self._sources = {block: {one for one, ways in self._ways.items() if block in ways} for block in blocks}
        self._chosen: dict[Block, set[str]] = {}
        outside = set(range(len(function.blocks))) - blocks
        entered = {to for block in outside for to in successors(function, block)} | {0}
        (self._header,) = entered & blocks
        self._ends = [block for block, ways in self._ways.items() if not blocks.issuperset(ways)]
        self._conditions = self._guards(self._ends)

    def only_waits(self) -> bool:
        """No side effects, and made to be ended by what it polls: that alone decides about its ends, or the launch's
        deadline. A loop that a count, a timer of its own, or what nobody watches may end is left at its time."""
        if not all(isa.row(i).waits for i in self.body) or not self.polls:
            return False
        if not all(map(_is_poll, self._deciding_loads)):
            return False
        timers = [i for i in self.body if _reads_a_timer(i)]
        if not self.deciding.isdisjoint(name for i in timers for name in isa.registers_written(i)):
            return False
        if not self._conditions.isdisjoint(self.depending_on(timers)):
            return False
        made_of_polls = self.depending_on(self.polls) | self.late
        return all(not made_of_polls.isdisjoint(self._behind({condition})) for condition in self._conditions)

    @cached_property
    def polls(self) -> list[Instruction]:
        """Loads that return what may end the loop."""
        ending = self._behind(self._ending)
        return [i for i in self.loads if _is_poll(i) and not ending.isdisjoint(isa.registers_written(i))]

    def state(self, around: Sequence[_Loop], live: Mapping[int, frozenset[str]]) -> frozenset[str]:
        """Of what decides about the loop's ends: what a turn hands to the next. Where control leaves the loop and comes
        back without the engine noticing, also what the loops `around` it have changed meanwhile, and what their turns
        hand to the next."""
        written = {name for i in self.body for name in isa.registers_written(i)}
        state = written & self.deciding
        if around and _enters_again_unnoticed(self.function, self.blocks, _ends_waiting):
            own = set(map(id, self.body))
            outside = {
                name for loop in around for i in loop.body if id(i) not in own for name in isa.registers_written(i)
            }
            deciding = self.deciding.union(*(loop.deciding & loop.handed_on(live) for loop in around))
            state |= (outside - written) & deciding
        return frozenset(state)

    def counts(self, live: Mapping[int, frozenset[str]]) -> bool:
        """Whether something that matters behind the loop, but does not decide about it, changes from turn to turn."""
        written = {name for i in self.body for name in isa.registers_written(i)}
        followers = {way for ways in self._ways.values() for way in ways} - self.blocks
        firsts = [self.function.blocks[block].instructions[:1] for block in followers]
        needed = {name for first in firsts for i in first for name in _live_before(i, live)}
        return bool(written & self._behind(written & needed) & self.handed_on(live) - self.deciding)

    def handed_on(self, live: Mapping[int, frozenset[str]]) -> frozenset[str]:
        """Registers that a turn may read as the turn before has left them."""
        first = self.function.blocks[self._header].instructions[:1]
        return _live_before(first[0], live) if first else frozenset()

    @cached_property
    def deciding(self) -> frozenset[str]:
        """Registers that decide when the loop ends, but for the deadline, or whether a turn looks at each word."""
        words: dict[object, set[Block]] = {}
        for load in self.polls:
            address = load.operands[1]
            moves = any(not set(registers_in(address)).isdisjoint(isa.registers_written(i)) for i in self.body)
            words.setdefault(id(load) if moves else address, set()).add(self._block_of[id(load)])
        passing = {
            block
            for looks in words.values()
            for block in self.blocks - looks
            if block in self._reached(set(self._ways[block]), looks, self._ways)
        }
        return self._behind(self._ending | self._guards(passing))

    @property
    def _deciding_loads(self) -> Iterator[Instruction]:
        for i in self.loads:
            if not self.deciding.isdisjoint(isa.registers_written(i)):
                yield i

    @cached_property
    def _ending(self) -> set[str]:
        """Guards of the loop's ends, and those that decide whether a turn comes to one, but at the deadline."""
        ends = [block for block in self._ends if not self._guards([block]) <= self.late]
        return self._conditions.union(*map(self._choosing, ends))

    @cached_property
    def _block_of(self) -> dict[int, Block]:
        return {id(i): block for block in self.blocks for i in self.function.blocks[block].instructions}

    @property
    def ends_by_a_limit(self) -> bool:
        """Is the predicate of one of its ends made of what stands in the Watch?"""
        return not self._conditions.isdisjoint(self._limits)

    @cached_property
    def _limits(self) -> set[str]:
        """Registers that depend on what stands in the Watch."""
        loads = [
            i
            for i in self.loads
            if isinstance(at := i.operands[1], Address)
            and isinstance(at.base, Register)
            and at.base.name in self._watch
            and at.offset in LIMITS
        ]
        return self.depending_on(loads)

    @cached_property
    def late(self) -> frozenset[str]:
        """Predicates that tell whether the launch's deadline has passed: comparisons with what stands in the Watch, if
        the time is among what is compared."""
        tests = [i for i in self.body if i.opcode == "setp" and not self._limits.isdisjoint(isa.registers_read(i))]
        times = self.depending_on([i for i in self.body if _reads_a_timer(i)])
        if all(times.isdisjoint(isa.registers_read(i)) for i in tests):
            return frozenset()
        return frozenset(name for i in tests for name in isa.registers_written(i))

    def _guards(self, blocks: Iterable[Block]) -> set[str]:
        """Of the jumps at the ends of these blocks."""
        jumps = [jump_at_end(self.function, block) for block in blocks]
        return {jump.guard.register.name for jump in jumps if jump and jump.guard}

    def _behind(self, registers: set[str]) -> frozenset[str]:
        """These, and all that their values are made of, or that decides whether they are made. Before the deadline."""
        found = set(registers)
        grown = True
        while grown:
            before = len(found)
            for i in self.body:
                made = found.difference(self.late).intersection(isa.registers_written(i))
                if made:
                    found.update(isa.registers_read(i), self._choosing(self._block_of[id(i)]))
            grown = len(found) > before
        return frozenset(found)

    def _choosing(self, block: Block) -> set[str]:
        """Guards that decide whether a turn comes through a block at all."""
        if block not in self._chosen:
            before = self._reached({self._header}, {block}, self._ways)
            back = {one for one, ways in self._ways.items() if self._header in ways or not self.blocks.issuperset(ways)}
            avoiding = self._reached(back, {block}, self._sources)
            self._chosen[block] = self._guards(
                one for one in before if len({way in avoiding for way in self.blocks.intersection(self._ways[one])}) > 1
            )
        return self._chosen[block]

    def _reached(self, starts: Set[Block], avoided: Set[Block], edges: Mapping[Block, Iterable[Block]]) -> set[Block]:
        """Blocks of the loop to which edges lead from these, themselves among them, without those avoided."""
        found: set[Block] = set()
        ahead = list(self.blocks & starts - avoided)
        while ahead:
            block = ahead.pop()
            if block not in found:
                found.add(block)
                ahead += self.blocks.intersection(edges[block]) - avoided
        return found

    def depending_on(self, origins: Sequence[Instruction]) -> set[str]:
        """Registers whose value depends on what these instructions returned."""
        depending = {name for origin in origins for name in isa.registers_written(origin)}
        grown = True
        while grown:
            before = len(depending)
            for instruction in self.body:
                if not depending.isdisjoint(isa.registers_read(instruction)):
                    depending.update(isa.registers_written(instruction))
            grown = len(depending) > before
        return depending
