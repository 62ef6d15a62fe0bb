"""What the instructions of one function share while they become Python: names of registers, operands, constants.

Must not know any instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any

from pcietool.emulator.ops import Op, Poll
from pcietool.errors import PtxError
from pcietool.ptx.model import (
    TYPE_BYTES,
    Address,
    Function,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
)
from pcietool.ptx.registers import registers_in

TIMERS: Mapping[str, str] = {
    "%globaltimer": "MC.globaltimer(TH)",
    "%globaltimer_lo": "(MC.globaltimer(TH)&0xffffffff)",
    "%globaltimer_hi": "(MC.globaltimer(TH)>>32)",
    "%clock": "(MC.cycles(TH)&0xffffffff)",
    "%clock64": "MC.cycles(TH)",
}
SHAPED: Mapping[str, tuple[str, str]] = {
    "%tid.x": ("TX", "TX % D[3]"),
    "%tid.y": ("0", "TX // D[3] % D[4]"),
    "%tid.z": ("0", "TX // D[3] // D[4]"),
    "%ntid.x": ("NX", "D[3]"),
    "%ntid.y": ("1", "D[4]"),
    "%ntid.z": ("1", "D[5]"),
    "%ctaid.x": ("CX", "CX % D[0]"),
    "%ctaid.y": ("0", "CX // D[0] % D[1]"),
    "%ctaid.z": ("0", "CX // D[0] // D[1]"),
    "%nctaid.x": ("GX", "D[0]"),
    "%nctaid.y": ("1", "D[1]"),
    "%nctaid.z": ("1", "D[2]"),
}
"""What each is in one dimension, and in the shape D: blocks in x, y, z, then threads."""
GRID_BARRIER = Variable("grid barrier", "global", 8, 8)
"""What a cooperative launch hands its grid: whose address cooperative_groups reads in two halves."""
_HALVES = {"%envreg1": ">>32", "%envreg2": "&0xffffffff"}
_CLUSTERS = {
    "%cluster_ctarank": "(CX%TH.block.cluster_size)",
    "%cluster_nctarank": "TH.block.cluster_size",
    "%cluster_ctaid.x": "(CX%TH.block.cluster_size)",
    "%cluster_ctaid.y": "0",
    "%cluster_ctaid.z": "0",
    "%cluster_nctaid.x": "TH.block.cluster_size",
    "%cluster_nctaid.y": "1",
    "%cluster_nctaid.z": "1",
    "%clusterid.x": "(CX//TH.block.cluster_size)",
    "%nclusterid.x": "(GX//TH.block.cluster_size)",
    "%is_explicit_cluster": "(TH.block.cluster_size>1)",
}
"""Of clusters along x, in one dimension."""
SPECIAL_REGISTERS: Mapping[str, str] = {
    **{name: "S_" + name[1:].replace(".", "_") for name in SHAPED},
    "%laneid": "(TX&31)",
    "%lanemask_eq": "(1<<(TX&31))",
    "%lanemask_lt": "((1<<(TX&31))-1)",
    "%lanemask_le": "((2<<(TX&31))-1)",
    "%lanemask_gt": "(0xffffffff&-(2<<(TX&31)))",
    "%lanemask_ge": "(0xffffffff&-(1<<(TX&31)))",
    "%warpid": "(TX>>5)",
    "%smid": "MC.sm_of(TH)",
    **_HALVES,
    **_CLUSTERS,
    **TIMERS,
}
"""What generated code reads for each."""
SINK = "_"
"""Written as a register where a result is not wanted."""


class Translation:
    """One function. `polls`: what polls in a wait loop, by id(); `read`: registers that any instruction uses;
    `inline_weak`: weak accesses to memory of the thread's own device need no engine; `inline_shared`: nor do accesses
    to shared memory; `asks_often`: an instruction may ask several times, which explored states do not hold. `constants`
    are what the generated code refers to by name."""

    def __init__(
        self,
        function: Function,
        polls: Mapping[int, Poll],
        read: Set[str],
        inline_weak: bool,
        inline_shared: bool,
        asks_often: bool,
    ) -> None:
        self.function = function
        self.polls = polls
        self.read = read
        self.inline_weak = inline_weak
        self.inline_shared = inline_shared
        self.asks_often = asks_often
        self.non_coherent = any(
            i.opcode == "ld" and i.has("nc") for block in function.blocks for i in block.instructions
        )
        """Does it load through the non-coherent path?"""
        self.module_variables: dict[Variable, str] = {}
        """In global memory, those that are used; by Python variable."""
        self.constants: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        """Python variable by register."""

    def unknown(self, i: Instruction, what: str) -> PtxError:
        """`lower` adds what else the kernel has that is unknown, and what to do."""
        where = f"kernel {self.function.name}, PTX line {i.line}{f', {i.source}' if i.source else ''}"
        return PtxError(f"the emulator does not know {what} in '{i.text}' ({where})")

    def check_registers(self, i: Instruction) -> None:
        guard = (i.guard.register.name,) if i.guard else ()
        for name in (*guard, *(name for operand in i.operands for name in registers_in(operand))):
            if name not in self.function.registers and name not in SPECIAL_REGISTERS and name != SINK:
                raise self.unknown(i, f"register {name}, which is neither declared nor a special register it has,")

    def refuse_exploring(self, i: Instruction, what: str) -> None:
        """Raises PtxError where every execution is looked for."""
        if not self.asks_often:
            raise self.unknown(i, f"{what} here")

    def allow(self, i: Instruction, allowed: Iterable[str]) -> None:
        """Raises PtxError for a modifier that is not among these."""
        for modifier in i.modifiers:
            if modifier not in allowed:
                raise self.unknown(i, f"modifier .{modifier}")

    def one_of(self, i: Instruction, kinds: Iterable[str]) -> str:
        """The one modifier that says what the instruction does."""
        found = [modifier for modifier in i.modifiers if modifier in kinds]
        if len(found) != 1:
            raise self.unknown(i, f"{i.opcode} .{'.'.join(i.modifiers)}")
        return found[0]

    # -- registers and operands -----------------------------------------------------------------------------------

    def register(self, name: str) -> str:
        """The Python variable of a register; no two share one."""
        if name not in self.names:
            variable = "r_" + re.sub(r"\W", "_", name.lstrip("%"))
            while variable in self.names.values():
                variable += "_"
            self.names[name] = variable
        return self.names[name]

    def register_width(self, name: str) -> int:
        """In bits."""
        return TYPE_BYTES[self.function.registers[name]] * 8

    def is_predicate(self, operand: Operand) -> bool:
        name = operand.register.name if isinstance(operand, Negated) else getattr(operand, "name", "")
        return self.function.registers.get(name) == "pred"

    def destination(self, i: Instruction) -> str:
        first = i.operands[0]
        if isinstance(first, Register) and first.name not in SPECIAL_REGISTERS:
            return self.register(first.name)
        raise self.unknown(i, f"destination {first}")

    def value(self, i: Instruction, operand: Operand, width: int) -> str:
        """An operand as an unsigned integer of `width` bits (a predicate: as its truth)."""
        match operand:
            case Immediate(value):
                return str(value & ((1 << width) - 1))
            case Register(name) if name in _HALVES:
                return f"({self.module_variable(GRID_BARRIER)}{_HALVES[name]})"
            case Register(name) if name in SPECIAL_REGISTERS:
                if "TH." in SPECIAL_REGISTERS[name]:
                    self.refuse_exploring(i, "clusters")
                return SPECIAL_REGISTERS[name]
            case Register(name) if name in self.function.registers:
                wider = self.function.registers[name] != "pred" and self.register_width(name) > width
                return f"({self.register(name)}&{mask(width)})" if wider else self.register(name)
            case Negated(Register(name)):
                return f"(not {self.register(name)})"
            case Symbol(name) if name in self.function.variables:
                variable = self.function.variables[name]
                return self.module_variable(variable) if variable.space == "global" else str(variable.offset)
            case Symbol(name):
                raise self.unknown(i, f"{name}, a function,")
        raise self.unknown(i, f"operand {operand}")

    def module_variable(self, variable: Variable) -> str:
        """The Python variable that holds its address, which differs from GPU to GPU."""
        return self.module_variables.setdefault(variable, f"G_{len(self.module_variables)}")

    def signed(self, i: Instruction, operand: Operand, width: int) -> str:
        """An operand as a signed integer of `width` bits."""
        if isinstance(operand, Immediate):
            value = operand.value & ((1 << width) - 1)
            return f"({value - (value >> width - 1 << width)})"
        sign = hex(1 << width - 1)
        return f"(({self.value(i, operand, width)}^{sign})-{sign})"

    def address(self, i: Instruction, operand: Operand, width: int = 64) -> str:
        """[base + offset] as an unsigned integer of `width` bits."""
        if not isinstance(operand, Address) or operand.coordinates is not None:
            raise self.unknown(i, f"address {operand}")
        base = self.value(i, operand.base, 64)
        if operand.offset == 0:
            return base
        # A sum below zero would be an index from the end; one of 32 bits may wrap the other way too.
        wraps = operand.offset < 0 or width == 32
        return f"({base}{operand.offset:+d})&{mask(width)}" if wraps else f"{base}{operand.offset:+d}"

    # -- constants ------------------------------------------------------------------------------------------------

    def constant(self, prefix: str, value: Any) -> str:
        """A name by which the generated code finds `value`."""
        name = f"{prefix}{len(self.constants)}"
        self.constants[name] = value
        return name

    def op(self, i: Instruction, code: int, **fields: Any) -> str:
        """The name of a new Op."""
        return self.constant("OP", Op(code, i, **fields))


def mask(width: int) -> str:
    """All ones."""
    return hex((1 << width) - 1)
