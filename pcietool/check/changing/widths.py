"""One access as several: what a protocol that puts data and flag into one vector, or one 64-bit word, relies on.

Text in, text out; must not know what a change means.
"""

from __future__ import annotations

import re

from pcietool.ptx.model import Instruction

_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
_ACCESS = re.compile(
    r"(?P<guard>@!?%?[\w$]+\s+)?(?P<form>[\w.:]+)\s+(?:(?P<to>[^\[]*?)\s*,\s*)?\[(?P<at>[^\]]*)\](?:\s*,\s*(?P<value>.*))?",
    re.DOTALL,
)


def parts_of(instruction: Instruction) -> int:
    """How many accesses its elements would be, or 2 for a word of 64 bits; 0 for what is as small as a flag is."""
    if instruction.opcode not in ("ld", "st"):
        return 0
    vector = next((_VECTORS[one] for one in instruction.modifiers if one in _VECTORS), 0)
    return vector or (2 if _bytes(instruction) == 8 else 0)


def parts(instruction: Instruction, text: str, line: int) -> str:
    """The accesses, in ascending order, but for the load of a register that their address needs, which is the last."""
    found = _ACCESS.fullmatch(text.strip())
    assert found is not None, text
    guard, at = found["guard"] or "", found["at"].strip()
    values = (found["to"] if instruction.opcode == "ld" else found["value"]).strip()
    names = [one.strip() for one in values.strip("{}").split(",")]
    if len(names) > 1:
        form = ".".join(one for one in found["form"].split(".") if one not in _VECTORS)
        accesses = list(enumerate(names))
        if instruction.opcode == "ld":
            accesses.sort(key=lambda one: one[1] == at.partition("+")[0].strip())
        step = _bytes(instruction)
        return "; ".join(f"{guard}{_access(instruction, form, at, n * step, name)}" for n, name in accesses)
    halves = f"%lower_{line}", f"%upper_{line}"
    form = re.sub(r"\.[busf]64$", ".b32", found["form"])
    both = [f"{guard}{_access(instruction, form, at, n * 4, name)}" for n, name in enumerate(halves)]
    pair = f"{{{halves[0]}, {halves[1]}}}"
    if instruction.opcode == "ld":
        both.append(f"{guard}mov.b64 {names[0]}, {pair}")
    else:
        both.insert(0, f"mov.b64 {pair}, {names[0]}")
    return "; ".join([f".reg .b32 {halves[0]}, {halves[1]}", *both])


def _access(instruction: Instruction, form: str, at: str, offset: int, name: str) -> str:
    address = f"[{at}+{offset}]" if offset and "+" not in at else f"[{_further(at, offset)}]"
    return f"{form} {name}, {address}" if instruction.opcode == "ld" else f"{form} {address}, {name}"


def _further(at: str, offset: int) -> str:
    base, _, own = at.partition("+")
    return f"{base}+{int(own, 0) + offset}" if own else at


def _bytes(instruction: Instruction) -> int:
    """Of one element."""
    return _BYTES.get(re.sub(r"\D", "", instruction.modifiers[-1]), 0) if instruction.modifiers else 0
