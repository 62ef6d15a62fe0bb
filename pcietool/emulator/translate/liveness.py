"""Which registers still matter behind each instruction: those whose value some path from there reads.

Two threads that differ only in the others go on alike. Must know no instructions.
"""

from __future__ import annotations

from pcietool.emulator.translate.control_flow import Block, successors
from pcietool.emulator.translate.isa import registers_read, registers_written
from pcietool.ptx.model import Function

Registers = frozenset[str]


def live_after(function: Function) -> dict[int, Registers]:
    """By id() of each instruction; what the instruction itself writes is among them if it is read later."""
    before: dict[Block, Registers] = dict.fromkeys(range(len(function.blocks)), frozenset())
    live: dict[int, Registers] = {}
    changed = True
    while changed:
        changed = False
        for block in reversed(range(len(function.blocks))):
            after = frozenset().union(*(before[follower] for follower in successors(function, block)))
            for instruction in reversed(function.blocks[block].instructions):
                live[id(instruction)] = after
                # A guarded instruction may leave its result as it was.
                killed = frozenset() if instruction.guard else frozenset(registers_written(instruction))
                after = (after - killed).union(registers_read(instruction))
            if after != before[block]:
                before[block], changed = after, True
    return live
