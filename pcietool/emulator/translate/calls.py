"""Calls of the two functions that NVRTC leaves to the driver: printf, which an emulated kernel leaves out, and assert,
which ends it. What is only handed to them does nothing.

Must not know any other function: NVRTC inlines what it can.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcietool.emulator.translate.missing import called
from pcietool.emulator.translate.translation import Translation
from pcietool.ptx.model import Function, Instruction, Register, Symbol
from pcietool.ptx.registers import registers_in

PRINTF, ASSERT = "vprintf", "__assertfail"


def call(t: Translation, i: Instruction) -> Iterator[str]:
    callee = i.operands[1]
    name = callee.name if isinstance(callee, Symbol) else ""
    if name not in (PRINTF, ASSERT):
        raise t.unknown(i, called(i))
    yield "failed_assertion()" if name == ASSERT else "pass"


def argument(t: Translation, i: Instruction) -> Iterator[str]:
    """A parameter of a call, which nobody looks at."""
    yield "pass"


def answer(t: Translation, i: Instruction) -> Iterator[str]:
    """What printf returns: that it has printed nothing."""
    yield f"{t.destination(i)} = 0"


def local_address(t: Translation, i: Instruction) -> Iterator[str]:
    """The generic address of local memory, if it is only handed on to a call: there are no such addresses."""
    if i.form == "cvta.to.local.u64":  # of an address that is none: nothing gets there
        yield f"{t.destination(i)} = {t.value(i, i.operands[1], 64)}"
        return
    into = i.operands[0]
    if i.form != "cvta.local.u64":
        raise t.unknown(i, f"instruction form {i.form}")
    if not isinstance(into, Register) or not _is_only_passed(t.function, into.name, set()):
        raise t.unknown(i, "a generic address of local memory")
    yield f"{t.destination(i)} = {t.value(i, i.operands[1], 64)}"


def _is_only_passed(function: Function, register: str, seen: set[str]) -> bool:
    """Does nothing but parameters of calls, and sums that go there alone, come of it?"""
    seen.add(register)
    for block in function.blocks:
        for i in block.instructions:
            into, *sources = i.operands or (None,)
            reads = {name for operand in sources for name in registers_in(operand)}
            if i.opcode == "st":
                reads |= set(registers_in(into)) if into is not None else set()
            if register not in reads or (i.opcode == "st" and i.has("param")):
                continue
            if i.opcode not in ("add", "mov") or not isinstance(into, Register):
                return False
            if into.name not in seen and not _is_only_passed(function, into.name, seen):
                return False
    return True
