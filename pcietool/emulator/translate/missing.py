"""Says what a kernel has that the emulator does not know, in the words of who wrote it: all of it in one line.

Must not decide what is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pcietool.errors import PtxError
from pcietool.ptx.model import Instruction, Symbol

MOST_NAMED = 8
LIBRARY: Mapping[str, str] = {
    "malloc": "malloc in a kernel (allocate before the launch)",
    "free": "free in a kernel (allocate before the launch)",
}
"""What NVRTC makes of these is a call."""
HARDWARE: Mapping[str, str] = {
    "multimem": "multimem, which NVLink multicast is needed for and no modelled link has,",
}
"""Opcodes that no emulated machine could execute, and why."""


def called(i: Instruction) -> str:
    """What a call calls; nothing if it is none."""
    if i.opcode != "call":
        return ""
    callee = i.operands[1]
    if not isinstance(callee, Symbol):
        return "calls through a pointer"
    mangled = re.match(r"_Z(\d+)", callee.name)
    name = callee.name[mangled.end() :][: int(mangled[1])] if mangled else callee.name
    return LIBRARY.get(
        name, f"a call of the function {name}, which this module does not have (define it in the same source),"
    )


def unknown_form(i: Instruction) -> str:
    """In words, for the error of an instruction that has no row."""
    return called(i) or HARDWARE.get(i.opcode, f"instruction form {i.form}")


def refusal(unknown: Sequence[tuple[Instruction, PtxError]]) -> PtxError:
    """One error for all of them: the first in full, the names of the others. What only hands something to a call is
    not counted, since it goes with the call."""
    calls = [(i, error) for i, error in unknown if i.opcode == "call"]
    first, error = (calls or unknown)[0]
    names = dict.fromkeys(_name(i) for i, _ in unknown if not (calls and _is_of_a_call(i)))
    names.pop(_name(first))
    if not names:
        return PtxError(f"{error}; report it, or run on a GPU")
    named = ", ".join(list(names)[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)
    return PtxError(f"{error}, and {len(names)} more in this kernel: {named}; report them, or run on a GPU")


def _name(i: Instruction) -> str:
    return called(i).partition(" (")[0] or i.form


def _is_of_a_call(i: Instruction) -> bool:
    texts = any(isinstance(o, Symbol) and o.name.startswith(("$str", "__unnamed_")) for o in i.operands)
    return texts or i.has("param") or i.form == "cvta.local.u64"
