"""Finds wait loops in parsed PTX: loops that do nothing but look until a loaded value lets them go.

The engine parks a thread in such a loop instead of emulating every poll. Must stay conservative: a loop that
stores, synchronises or counts for its own sake is not a wait loop, and is then emulated poll by poll.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from pcietool.emulator.ops import Code, Poll
from pcietool.emulator.translate import isa
from pcietool.emulator.translate.accesses import is_near, is_shared, is_strong
from pcietool.emulator.translate.control_flow import Block, jump_at_end, natural_loops, successors
from pcietool.emulator.translate.liveness import live_after
from pcietool.emulator.translate.translation import TIMERS
from pcietool.ptx.model import Function, Instruction, Register
from pcietool.ptx.registers import registers_in


def wait_loops(function: Function) -> dict[int, Poll]:
    """By id() of each load instruction that polls in a wait loop.

    The loop is the largest one around the load that only waits and that the loaded value can end.
    """
    loops = [_Loop(function, blocks) for blocks in natural_loops(function)]
    live = live_after(function)
    polls: dict[int, Poll] = {}
    for number, loop in enumerate(loops):
        if loop.only_waits():
            around = [other for other in loops[:number] if other.blocks > loop.blocks]
            state = loop.state(around)
            for load in loop.loads:
                if _is_poll(load) and loop.ends_by(load) and id(load) not in polls:
                    before = live[id(load)].difference(() if load.guard else isa.registers_written(load))
                    carried = state & before.union(isa.registers_read(load))
                    polls[id(load)] = Poll(number, tuple(sorted(carried)), len(loop.loads) == 1)
    return polls


def around(function: Function) -> dict[int, frozenset[int]]:
    """By id() of each instruction: the numbers of the wait loops that it stands in. Left out are those that control
    can leave and enter again without asking the engine for anything: nobody would notice."""
    found: dict[int, set[int]] = {}
    for number, blocks in enumerate(natural_loops(function)):
        loop = _Loop(function, blocks)
        if loop.only_waits() and not _enters_again_unnoticed(function, blocks, _is_noticed):
            for instruction in loop.body:
                found.setdefault(id(instruction), set()).add(number)
    return {instruction: frozenset(numbers) for instruction, numbers in found.items()}


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


class _Loop:
    def __init__(self, function: Function, blocks: frozenset[Block]) -> None:
        self.function = function
        self.blocks = blocks
        self.body = [i for block in sorted(blocks) for i in function.blocks[block].instructions]
        self.loads = [i for i in self.body if isa.row(i).asks == Code.LOAD and not i.has("param", "const")]
        ends = [jump_at_end(function, block) for block in blocks if not blocks.issuperset(successors(function, block))]
        self.conditions = {jump.guard.register.name for jump in ends if jump and jump.guard}

    def only_waits(self) -> bool:
        """No side effects, and made to be ended by what it polls. A counter may end it too, but only where the loop
        also looks at a timer: a deadline; without one, the counting is what the loop is for. A loop that the timer
        itself ends may do so at any time, not just at the launch's deadline, and has to be emulated look by look."""
        if not all(isa.row(i).waits for i in self.body):
            return False
        if any(not _is_poll(load) and self.ends_by(load) for load in self.loads):  # nobody watches what it looks at
            return False
        if timers := self._timers():
            return self.conditions.isdisjoint(self._depending_on(timers))
        return self.conditions <= self._depending_on([load for load in self.loads if _is_poll(load)])

    def state(self, around: Sequence[_Loop]) -> frozenset[str]:
        """Of what can end the loop: what a turn hands to the next that came of a load, or was done in some turns only.
        Where control leaves the loop and enters it again without the engine noticing, also what the loops `around` it
        have changed meanwhile."""
        written = {name for i in self.body for name in isa.registers_written(i)}
        chosen = {
            name
            for block in self._skipped()
            for i in self.function.blocks[block].instructions
            for name in isa.registers_written(i)
        }
        state = written & self._deciding() & (chosen | self._depending_on(self.loads, self._holding()))
        state -= self._depending_on(self._timers())
        if around and _enters_again_unnoticed(self.function, self.blocks, _ends_waiting):
            own = set(map(id, self.body))
            outside = {
                name for loop in around for i in loop.body if id(i) not in own for name in isa.registers_written(i)
            }
            state |= (outside - written) & self._deciding()
        return frozenset(state)

    def _deciding(self) -> set[str]:
        """Registers that the loop's ends depend on."""
        deciding = set(self.conditions)
        grown = True
        while grown:
            before = len(deciding)
            for i in self.body:
                if not deciding.isdisjoint(isa.registers_written(i)):
                    deciding.update(isa.registers_read(i))
            grown = len(deciding) > before
        return deciding

    def _skipped(self) -> set[Block]:
        """Blocks that some turn leaves out."""
        outside = set(range(len(self.function.blocks))) - self.blocks
        entered = {to for block in outside for to in successors(self.function, block)} | {0}
        (header,) = entered & self.blocks
        return {block for block in self.blocks if block != header and self._turns_without(block, header)}

    def _turns_without(self, avoided: Block, header: Block) -> bool:
        ahead, reached = [header], {avoided}
        while ahead:
            for follower in successors(self.function, ahead.pop()):
                if follower == header:
                    return True
                if follower in self.blocks and follower not in reached:
                    reached.add(follower)
                    ahead.append(follower)
        return False

    def _timers(self) -> list[Instruction]:
        return [i for i in self.body if any(name in TIMERS for o in i.operands for name in registers_in(o))]

    def ends_by(self, load: Instruction) -> bool:
        """Can what `load` returned end the loop?"""
        return not self.conditions.isdisjoint(self._depending_on([load]))

    def _holding(self) -> set[str]:
        """Predicates that are true in every turn that another one follows: those that the jump back of a loop of one
        block is made of. What `selp` chooses by one of them is no choice as long as the thread waits."""
        if len(self.blocks) > 1:
            return set()
        back = self.body[-1].guard
        holding = {back.register.name} if back and not back.negated else set()
        for i in reversed(self.body):
            if (
                (i.opcode, i.modifiers) == ("and", ("pred",))
                and not i.guard
                and holding.issuperset(isa.registers_written(i))
            ):
                holding |= {operand.name for operand in i.operands[1:] if isinstance(operand, Register)}
        return holding

    def _depending_on(self, origins: Sequence[Instruction], holding: Set[str] = frozenset()) -> set[str]:
        """Registers whose value depends on what these instructions returned, in a turn in which these predicates
        hold."""
        depending = {name for origin in origins for name in isa.registers_written(origin)}
        grown = True
        while grown:
            before = len(depending)
            for instruction in self.body:
                if not depending.isdisjoint(_read_while(holding, instruction)):
                    depending.update(isa.registers_written(instruction))
            grown = len(depending) > before
        return depending


def _read_while(holding: Set[str], i: Instruction) -> Set[str]:
    """What the result of an instruction is made of while these predicates hold."""
    if i.opcode == "selp" and isinstance(i.operands[3], Register) and i.operands[3].name in holding:
        return set(registers_in(i.operands[1]))
    return set(isa.registers_read(i))
