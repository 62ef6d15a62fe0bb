"""Which stores of a kernel cannot be done before a load has returned, because of what they store, where, or whether.

Told from the text of the kernel: a register depends on a load if any way leads from one to the other. Must not know
what else orders accesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from pcietool.emulator.translate.control_flow import Block, jump_at_end, successors
from pcietool.emulator.translate.isa import registers_read, registers_written
from pcietool.ptx.model import Function, Instruction


class Dependence:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._block_of = {
            id(instruction): number
            for number, block in enumerate(function.blocks)
            for instruction in block.instructions
        }
        self._known: dict[int, frozenset[int]] = {}

    def depends(self, write: Instruction, read: Instruction) -> bool:
        if write is read:
            return True
        if id(read) not in self._known:
            self._known[id(read)] = frozenset(self._depending_on(read))
        return id(write) in self._known[id(read)]

    @cached_property
    def _instructions(self) -> list[Instruction]:
        return [instruction for block in self._function.blocks for instruction in block.instructions]

    def _depending_on(self, read: Instruction) -> Iterator[int]:
        """id() of each instruction that needs the value, or of which the value decides whether it is done."""
        registers = set(registers_written(read))
        before = -1
        while len(registers) > before:
            before = len(registers)
            for instruction in self._instructions:
                if not registers.isdisjoint(registers_read(instruction)):
                    registers.update(registers_written(instruction))
        deciding = set()
        for instruction in self._instructions:
            if not registers.isdisjoint(registers_read(instruction)):
                yield id(instruction)
                if instruction.opcode == "bra" or instruction.opcode in ("ret", "exit"):
                    deciding.add(self._block_of[id(instruction)])
        for instruction in self._instructions:
            if any(self._is_decided_by(self._block_of[id(instruction)], branch) for branch in deciding):
                yield id(instruction)

    def _is_decided_by(self, block: Block, branch: Block) -> bool:
        """Whether, from the branch, control may come back there or to the end without the block, but need not."""
        if block == branch:
            return False
        jump = jump_at_end(self._function, branch)
        if jump and jump.opcode != "bra":  # a return that may be taken
            return True
        ways = successors(self._function, branch)
        return len(ways) > 1 and any(self._can_avoid(way, block, branch) for way in ways)

    def _can_avoid(self, start: Block, avoided: Block, branch: Block) -> bool:
        seen = {avoided}
        ahead = [start]
        while ahead:
            block = ahead.pop()
            if block in seen:
                continue
            seen.add(block)
            following = successors(self._function, block)
            if block == branch or not following:
                return True
            ahead += following
        return False
