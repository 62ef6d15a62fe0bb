"""Which registers an instruction reads. What it does with them is the emulator's business."""

from __future__ import annotations

from collections.abc import Iterator

from pcietool.ptx.model import Address, Instruction, Negated, Operand, Pair, Register, Vector

NO_DESTINATION = frozenset(
    {"st", "red", "bar", "barrier", "bra", "brx", "nanosleep", "membar", "fence", "ret", "exit", "trap", "call", "cp"}
    | {"griddepcontrol", "mbarrier", "prefetch", "discard", "applypriority"}
)
"""Opcodes whose first operand is no result (of those that have one in some form, it counts as read)."""


def registers_in(operand: Operand) -> Iterator[str]:
    """Names of all registers an operand reads (or, as a destination, writes)."""
    match operand:
        case Register(name) | Address(base=Register(name)) | Negated(Register(name)):
            yield name
        case Vector(items):
            yield from (item.name for item in items if isinstance(item, Register))
        case Pair(first, second):
            yield from (first.name, second.name)


def registers_read(instruction: Instruction) -> Iterator[str]:
    """Names of the registers whose value the instruction uses, its guard included."""
    if instruction.guard:
        yield instruction.guard.register.name
    for position, operand in enumerate(instruction.operands):
        is_result = position == 0 and instruction.opcode not in NO_DESTINATION and not isinstance(operand, Address)
        if not is_result:
            yield from registers_in(operand)
