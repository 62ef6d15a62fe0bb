"""Parsed PTX as plain data: modules, functions, basic blocks, instructions, operands.

Must hold no behaviour beyond lookups: what an instruction does is the emulator's table.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field

TYPE_BYTES: Mapping[str, int] = {
    "u8": 1, "s8": 1, "b8": 1,
    "u16": 2, "s16": 2, "b16": 2, "f16": 2, "bf16": 2,
    "u32": 4, "s32": 4, "b32": 4, "f32": 4, "u16x2": 4, "s16x2": 4, "f16x2": 4, "bf16x2": 4,
    "u64": 8, "s64": 8, "b64": 8, "f64": 8,
    "b128": 16,
    "pred": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Register:
    """A register, or a special register such as %tid.x; the name includes the %."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer, or the bit pattern of a float written as 0f.. (32 bit) or 0d.. (64 bit)."""

    value: int
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter or function by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset]; base is a register or a symbol (or an immediate: an absolute address)."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: Vector | None = None
    """Of a tensor map, which `base` is the address of."""


@dataclass(frozen=True, slots=True)
class Vector:
    """{a, b, c, d}"""

    items: tuple[Register | Immediate, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """!p as an operand."""

    register: Register


@dataclass(frozen=True, slots=True)
class Pair:
    """a|p: two destinations, such as a shuffle's value and its predicate."""

    first: Register
    second: Register


@dataclass(frozen=True, slots=True)
class Label:
    """The target of a branch."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """(a, b): what a call returns into, or what it passes. A call's operands are results, callee, arguments
    (both lists always there, if empty), and for an indirect call the name of its prototype."""

    items: tuple[Register | Immediate | Symbol, ...]


Operand = Register | Immediate | Symbol | Address | Vector | Negated | Pair | Label | Arguments


@dataclass(frozen=True, slots=True)
class Guard:
    """@p or @!p before an instruction."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an instruction comes from in the CUDA source (.loc), inlined calls resolved to the inner line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """`opcode` is the first dotted word, `modifiers` the others in written order (their order means nothing)."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    """Line in the PTX text, from 1."""
    text: str
    source: SourceLine | None = None
    callers: tuple[SourceLine, ...] = ()
    """The calls that were inlined there, innermost first."""

    def has(self, *modifiers: str) -> bool:
        """Is any of these modifiers there?"""
        return any(modifier in self.modifiers for modifier in modifiers)

    @property
    def form(self) -> str:
        """As it is written: opcode and modifiers."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def type(self) -> str:
        """The last modifier, which is the operand type wherever there is one."""
        return self.modifiers[-1] if self.modifiers else ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel or function parameter. `type` without the dot; `offset` in the parameter block in bytes;
    `bytes` is larger than the type's size for a struct passed by value (.b8 name[N])."""

    name: str
    type: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A .shared, .local, .global or .const variable. `offset`: in the memory of that kind; global memory has none."""

    name: str
    space: str
    bytes: int
    align: int
    offset: int = 0
    initial: builtins.bytes | None = None


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Straight-line code: entered at the top only; a branch, ret or exit can only be its last instruction."""

    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Function:
    """A .entry (kernel) or .func. Falling off block i leads to block i + 1; `labels` names the blocks.

    Registers and labels of nested { } scopes are renamed apart, so that every name means one thing.
    """

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    registers: Mapping[str, str]
    """Type by name."""
    variables: Mapping[str, Variable]
    """.shared and .local variables declared in the body, and the module's."""
    blocks: tuple[BasicBlock, ...]
    labels: Mapping[str, int]
    shared_bytes: int
    """Static shared memory; a dynamic (extern) array starts there, rounded up to its alignment."""
    directives: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Such as maxntid, reqntid, minnctapersm."""


@dataclass(frozen=True)
class Module:
    """One PTX text."""

    version: str
    target: str
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    """Module-level .global and .const variables."""

    @property
    def entries(self) -> dict[str, Function]:
        return {name: function for name, function in self.functions.items() if function.is_entry}
