"""Calls of the two functions that NVRTC leaves to the driver: printf, and assert, which ends the kernel.

Must not know any other function: what NVRTC does not inline, `inlining` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pcietool.emulator.translate.missing import called
from pcietool.emulator.translate.translation import Translation
from pcietool.ptx.declarations import end_of
from pcietool.ptx.model import Address, Arguments, Function, Instruction, Operand, Register, Symbol, Vector
from pcietool.ptx.registers import registers_in

PRINTF, ASSERT = "vprintf", "__assertfail"


def call(t: Translation, i: Instruction) -> Iterator[str]:
    callee = i.operands[1]
    name = callee.name if isinstance(callee, Symbol) else ""
    if name not in (PRINTF, ASSERT):
        raise t.unknown(i, called(i))
    if name == ASSERT:
        yield "failed_assertion()"
        return
    arguments = i.operands[2]
    assert isinstance(arguments, Arguments)
    text, values = (_passed(t, i, one) for one in arguments.items)
    yield f"MC.printed(TH, {text}, {values}, {'VB' if end_of(t.function.variables, 'local') else repr(b'')})"


def _passed(t: Translation, i: Instruction, parameter: Operand) -> str:
    if not isinstance(parameter, Symbol):
        raise t.unknown(i, f"argument {parameter}")
    variable = t.function.variables.get(parameter.name)
    if variable is not None and variable.space == "local":
        return f"VQ[{variable.offset >> 3}]"
    return _python_name(parameter)


def _python_name(parameter: Symbol) -> str:
    return "A_" + re.sub(r"\W", "_", parameter.name)


def argument(t: Translation, i: Instruction) -> Iterator[str]:
    """A parameter of a call. Only addresses are looked at: those of printf's text and values."""
    to, value = i.operands[:2]
    if i.type == "b64" and isinstance(to, Address) and isinstance(to.base, Symbol) and not isinstance(value, Vector):
        yield f"{_python_name(to.base)} = {t.value(i, value, 64)}"
    else:
        yield "pass"


def answer(t: Translation, i: Instruction) -> Iterator[str]:
    """What printf returns, which nobody looks at: the number of its arguments, taken for none."""
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
            if register not in reads or (i.opcode == "st" and (i.has("param") or _is_argument(function, into))):
                continue
            if i.opcode not in ("add", "mov") or not isinstance(into, Register):
                return False
            if into.name not in seen and not _is_only_passed(function, into.name, seen):
                return False
    return True


def _is_argument(function: Function, to: Operand | None) -> bool:
    """Is it where `inlining` put a parameter of one of the calls that are left?"""
    calls = (i for block in function.blocks for i in block.instructions if i.opcode == "call")
    arguments = {one for i in calls if isinstance(i.operands[2], Arguments) for one in i.operands[2].items}
    return isinstance(to, Address) and to.base in arguments
