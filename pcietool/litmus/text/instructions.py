"""The instructions of one column of a litmus test: opcodes, modifiers in any order, operands and labels.

What they stand for is in `operations`. Must not execute anything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.litmus.text.modifiers import Modifiers
from pcietool.litmus.text.operations import (
    ARITHMETIC,
    ATOMICS,
    BRANCHES,
    MEMBAR_SCOPES,
    RMW_TYPES,
    SCOPES,
    SEMANTICS,
    SEMANTICS_OF,
    TYPES,
    VECTORS,
    WIDE,
    WIDEST_VECTOR,
    Type,
    atomic,
)
from pcietool.litmus.text.program import (
    WORD,
    Arithmetic,
    Barrier,
    Branch,
    Commit,
    Copy,
    Fence,
    Instruction,
    Load,
    Operand,
    Part,
    ProxyFence,
    Rmw,
    Scope,
    Store,
    WaitForCopies,
)
from pcietool.litmus.text.widths import Widths
from pcietool.ptx.lexer import Token

REGISTER = re.compile(r"r\d+")
T = TypeVar("T")
ZERO = Operand(None, 0)
LARGEST_OFFSET = 64
"""Bytes: a location has a line of its own on machines."""
NOWHERE = -1
"""Target of a branch whose label has not been looked up yet."""


class Column:
    """Reads the instructions of one thread. Registers and locations get their numbers at first mention."""

    def __init__(self, cursor: LitmusCursor, locations: dict[str, int]) -> None:
        self.registers: dict[str, int] = {}
        self.code: list[Instruction] = []
        self.wide: set[int] = set()
        """Registers of 64 bits, all of them once the column is finished."""
        self._cursor = cursor
        self._locations = locations
        self._opcodes: list[Token] = []
        self._bound: set[str] = set()
        self._uses: list[Token] = []
        self._labels: dict[str, int] = {}
        self._jumps: list[tuple[int, Token]] = []

    def bind(self, register: str) -> int:
        """The number of a register that has a value from now on."""
        self._bound.add(register)
        return self.registers.setdefault(register, len(self.registers))

    def read_cell(self) -> None:
        """Labels and at most one instruction, up to | or ;."""
        cursor = self._cursor
        while cursor.peek().kind == "word" and cursor.follower.text == ":":
            label = cursor.next()
            if label.text in self._labels:
                raise cursor.error(f"label {label.text} stands twice in this column", label)
            self._labels[label.text] = len(self.code)
            cursor.expect(":")
        if not cursor.at("|", ";"):
            self.code.append(self._instruction())

    def finish(self) -> tuple[Instruction, ...]:
        """All instructions, their branches resolved and their constants wrapped. Raises for a label or register that
        nothing defines, and for a constant that does not fit."""
        for index, label in self._jumps:
            if label.text not in self._labels:
                raise self._cursor.error(f"there is no label {label.text} in this column", label)
            branch = self.code[index]
            assert isinstance(branch, Branch)
            self.code[index] = replace(branch, target=self._labels[label.text])
        for use in self._uses:
            if use.text not in self._bound:
                raise self._cursor.error(f"nothing sets register {use.text} in this thread", use)
        widths = Widths(self._cursor, self.wide)
        widths.widen(self.code)
        return tuple(widths.fitted(one, opcode) for one, opcode in zip(self.code, self._opcodes, strict=True))

    def _instruction(self) -> Instruction:
        cursor = self._cursor
        opcode = cursor.expect_kind("word", "an instruction")
        modifiers = Modifiers(cursor, opcode)
        reader = READERS.get(modifiers.base)
        if reader is None:
            raise cursor.error(f"unknown opcode {modifiers.base!r}; there are: {', '.join(READERS)}", opcode)
        instruction = reader(self, modifiers)
        modifiers.end()
        self._opcodes.append(opcode)
        text = " ".join(cursor.text[opcode.offset : cursor.peek().offset].split())
        return replace(instruction, text=text, line=cursor.line(opcode))

    # Accesses

    def _load(self, modifiers: Modifiers) -> Instruction:
        is_bare = not modifiers
        cursor = self._cursor
        count = self._count(modifiers)
        registers = self._several(self._target, count)
        cursor.expect(",")
        if is_bare and self._at_operand():  # `ld r0, 1` is how litmus tests write a move
            return Arithmetic("", 0, registers[0], operator.add, self._operand(), ZERO)
        location, part = self._place(modifiers, count)
        coherent = modifiers.take(("nc",)) is None
        semantics = self._semantics(modifiers) if coherent else (*SEMANTICS["weak"], Scope.SYS)
        self._note_width(part, *map(Operand, registers))
        return Load("", 0, location, part, *semantics, registers, coherent)

    def _store(self, modifiers: Modifiers) -> Instruction:
        location, part = self._place(modifiers, self._count(modifiers))
        self._cursor.expect(",")
        values = self._several(self._operand, part.scalars)
        self._note_width(part, *values)
        return Store("", 0, location, part, *self._semantics(modifiers), values)

    def _rmw(self, modifiers: Modifiers) -> Instruction:
        operation = modifiers.need(ATOMICS)
        register = None
        if modifiers.base == "atom":
            register = self._target()
            self._cursor.expect(",")
        location, part = self._place(modifiers, 1, RMW_TYPES, "s32" if operation in ("min", "max") else "b32")
        if operation in ("inc", "dec") and part.size != 4:
            raise modifiers.error(f"{operation} has 32 bits")
        expected = self._next_operand() if operation == "cas" else None
        value = self._next_operand()
        self._note_width(part, Operand(register), value, expected or ZERO)
        combine = atomic(operation, Type(part.size, part.signed))
        semantics = self._semantics(modifiers)
        return Rmw("", 0, location, part, *semantics, operation, register, combine, value, expected)

    def _place(
        self, modifiers: Modifiers, count: int, types: Iterable[str] = tuple(TYPES), default: str = "b32"
    ) -> tuple[int, Part]:
        """The location, and the part of it that scalars of the type in the modifiers take."""
        size, signed = TYPES[modifiers.take(types) or default]
        token = self._cursor.peek()
        location, offset = self._address()
        if size * count > WIDEST_VECTOR:
            raise modifiers.error(f"a vector has at most {WIDEST_VECTOR} bytes")
        if offset % (size * count):
            raise self._cursor.error(f"an access of {size * count} bytes stands at a multiple of that", token)
        return location, Part(offset, size, count, signed)

    def _note_width(self, part: Part, *operands: Operand) -> None:
        if part.size == 8:
            self.wide.update(operand.register for operand in operands if operand.register is not None)

    def _count(self, modifiers: Modifiers) -> int:
        """Scalars of a vector, or one."""
        vector = modifiers.take(VECTORS)
        return VECTORS[vector] if vector else 1

    def _several(self, one: Callable[[], T], count: int) -> tuple[T, ...]:
        """One, or as many as a vector has, in braces."""
        if count == 1:
            return (one(),)
        self._cursor.expect("{")
        found = [one()]
        while len(found) < count:
            self._cursor.expect(",")
            found.append(one())
        self._cursor.expect("}")
        return tuple(found)

    def _fence(self, modifiers: Modifiers) -> Instruction:
        if modifiers.take(("proxy",)):
            modifiers.need(("async",))
            return ProxyFence("", 0)
        sequential = modifiers.need(("acq_rel", "sc"), default="acq_rel") == "sc"
        return Fence("", 0, sequential, SCOPES[modifiers.need(SCOPES)])

    def _copy(self, modifiers: Modifiers) -> Instruction:
        for needed in ("async", "bulk"):
            modifiers.need((needed,))
        kind = modifiers.take(("commit_group", "wait_group"))
        if kind == "commit_group":
            return Commit("", 0)
        if kind == "wait_group":
            return WaitForCopies("", 0, self._cursor.integer(low=0), modifiers.take(("read",)) is not None)
        location = self._location()
        self._cursor.expect(",")
        return Copy("", 0, location, WORD, *SEMANTICS["weak"], Scope.SYS, self._location())

    def _membar(self, modifiers: Modifiers) -> Instruction:
        return Fence("", 0, True, MEMBAR_SCOPES[modifiers.need(MEMBAR_SCOPES)])

    def _barrier(self, modifiers: Modifiers) -> Instruction:
        modifiers.need(("cta",))
        waits = modifiers.need(("sync", "arrive")) == "sync"
        instance = self._cursor.integer(low=0)
        barrier = self._next_operand() if self._cursor.at(",") else Operand(None, instance)
        quorum = self._next_operand() if self._cursor.at(",") else None
        return Barrier("", 0, waits, instance, barrier, quorum)

    def _arithmetic(self, modifiers: Modifiers) -> Instruction:
        register = self._target()
        self._cursor.expect(",")
        if modifiers.take(WIDE):
            self.wide.add(register)
        else:
            modifiers.take(TYPES)
        return Arithmetic("", 0, register, ARITHMETIC[modifiers.base], self._operand(), self._next_operand())

    def _branch(self, modifiers: Modifiers) -> Instruction:
        left, right = self._operand(), self._next_operand()
        self._cursor.expect(",")
        return self._jump(BRANCHES[modifiers.base], left, right)

    def _goto(self, modifiers: Modifiers) -> Instruction:
        return self._jump(operator.eq, ZERO, ZERO)

    def _jump(self, compare: Callable[[int, int], bool], left: Operand, right: Operand) -> Instruction:
        self._jumps.append((len(self.code), self._cursor.expect_kind("word", "a label")))
        return Branch("", 0, NOWHERE, compare, left, right)

    def _semantics(self, modifiers: Modifiers) -> tuple[bool, bool, bool, Scope]:
        """(strong, acquire, release, scope)."""
        is_rmw = modifiers.base in ("atom", "red")
        possible = SEMANTICS_OF[modifiers.base]
        semantics = modifiers.need(possible, default=possible[0])
        if semantics in ("weak", "volatile"):
            return *SEMANTICS[semantics], Scope.SYS
        return *SEMANTICS[semantics], SCOPES[modifiers.need(SCOPES, default="gpu" if is_rmw else None)]

    def _target(self) -> int:
        token = self._cursor.expect_kind("word", "a register")
        if not REGISTER.fullmatch(token.text):
            raise self._cursor.unexpected(token, "a register such as r0")
        return self.bind(token.text)

    def _location(self) -> int:
        """Of a whole location."""
        location, offset = self._address()
        if offset:
            raise self._cursor.error("a bulk copy takes a whole location", self._cursor.peek())
        return location

    def _address(self) -> tuple[int, int]:
        """(location, offset in bytes)."""
        bracketed = self._cursor.accept("[")
        token = self._cursor.expect_kind("word", "a memory location")
        if REGISTER.fullmatch(token.text):
            raise self._cursor.error(f"{token.text} is a register; an address must be a location's name", token)
        offset = self._cursor.integer(0, LARGEST_OFFSET) if self._cursor.accept("+") else 0
        if bracketed:
            self._cursor.expect("]")
        return self._locations.setdefault(token.text, len(self._locations)), offset

    def _at_operand(self) -> bool:
        token = self._cursor.peek()
        return token.kind == "integer" or bool(REGISTER.fullmatch(token.text))

    def _operand(self) -> Operand:
        token = self._cursor.peek()
        if not self._at_operand():
            raise self._cursor.unexpected(token, "a register or a constant")
        if token.kind == "integer":
            return Operand(None, self._cursor.integer())
        self._uses.append(self._cursor.next())
        return Operand(self.registers.setdefault(token.text, len(self.registers)))

    def _next_operand(self) -> Operand:
        self._cursor.expect(",")
        return self._operand()


READERS: dict[str, Callable[[Column, Modifiers], Instruction]] = {
    "ld": Column._load,
    "st": Column._store,
    "atom": Column._rmw,
    "red": Column._rmw,
    "fence": Column._fence,
    "membar": Column._membar,
    "bar": Column._barrier,
    "cp": Column._copy,
    **dict.fromkeys(ARITHMETIC, Column._arithmetic),
    **dict.fromkeys(BRANCHES, Column._branch),
    "goto": Column._goto,
}
