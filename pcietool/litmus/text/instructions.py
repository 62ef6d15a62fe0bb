"""The instructions of one column of a litmus test: opcodes, modifiers in any order, operands and labels.

Which opcodes and modifiers there are stands in the tables at the top. Must not execute anything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from pcietool.errors import PcietoolError
from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.litmus.text.program import (
    Arithmetic,
    Barrier,
    Branch,
    Commit,
    Copy,
    Fence,
    Instruction,
    Load,
    Operand,
    ProxyFence,
    Rmw,
    Scope,
    Store,
    WaitForCopies,
)
from pcietool.ptx.lexer import Token

REGISTER = re.compile(r"r\d+")
SCOPES = {"cta": Scope.CTA, "cluster": Scope.CTA, "gpu": Scope.GPU, "sys": Scope.SYS}
MEMBAR_SCOPES = {"cta": Scope.CTA, "gl": Scope.GPU, "sys": Scope.SYS}


class Semantics(NamedTuple):
    strong: bool
    acquire: bool
    release: bool


SEMANTICS = {
    "weak": Semantics(strong=False, acquire=False, release=False),
    "volatile": Semantics(strong=True, acquire=False, release=False),
    "relaxed": Semantics(strong=True, acquire=False, release=False),
    "acquire": Semantics(strong=True, acquire=True, release=False),
    "release": Semantics(strong=True, acquire=False, release=True),
    "acq_rel": Semantics(strong=True, acquire=True, release=True),
}
"""Volatile is relaxed.sys (rule 15)."""
SEMANTICS_OF = {
    "ld": ("weak", "volatile", "relaxed", "acquire"),
    "st": ("weak", "volatile", "relaxed", "release"),
    "atom": ("relaxed", "acquire", "release", "acq_rel"),
    "red": ("relaxed", "release"),
}
"""The first is the default, except that one which takes a scope must be given one; RMWs default to gpu."""


def _divide(left: int, right: int) -> int:
    """Towards zero, as C and PTX do."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
}
ATOMICS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "exch": lambda old, new: new,
    "cas": lambda old, new: new,
}
"""(what was read, the operand) -> what is written."""
BRANCHES: dict[str, Callable[[int, int], bool]] = {
    "beq": operator.eq,
    "bne": operator.ne,
    "blt": operator.lt,
    "bgt": operator.gt,
    "ble": operator.le,
    "bge": operator.ge,
}
ZERO = Operand(None, 0)
NOWHERE = -1
"""Target of a branch whose label has not been looked up yet."""


class Modifiers:
    """What stands behind an opcode's dots, taken piece by piece in any order."""

    def __init__(self, cursor: LitmusCursor, opcode: Token) -> None:
        self.base, *self._left = opcode.text.split(".")
        self._cursor = cursor
        self._opcode = opcode

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, choices: Iterable[str]) -> str | None:
        """The one modifier of these, if it is there."""
        found = next((name for name in choices if name in self._left), None)
        if found is not None:
            self._left.remove(found)
        return found

    def need(self, choices: Iterable[str], default: str | None = None) -> str:
        choices = list(choices)
        found = self.take(choices) or default
        if found is None:
            raise self.error(f"{self._opcode.text} needs one of .{', .'.join(choices)}")
        return found

    def end(self) -> None:
        """Raises if something was not taken."""
        if self._left:
            raise self.error(f"{self.base} takes no .{self._left[0]}, or not together with the rest")

    def error(self, message: str) -> PcietoolError:
        return self._cursor.error(message, self._opcode)


class Column:
    """Reads the instructions of one thread. Registers and locations get their numbers at first mention."""

    def __init__(self, cursor: LitmusCursor, locations: dict[str, int]) -> None:
        self.registers: dict[str, int] = {}
        self.code: list[Instruction] = []
        self._cursor = cursor
        self._locations = locations
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
        """All instructions, their branches resolved. Raises for a label or register that nothing defines."""
        for index, label in self._jumps:
            if label.text not in self._labels:
                raise self._cursor.error(f"there is no label {label.text} in this column", label)
            branch = self.code[index]
            assert isinstance(branch, Branch)
            self.code[index] = replace(branch, target=self._labels[label.text])
        for use in self._uses:
            if use.text not in self._bound:
                raise self._cursor.error(f"nothing sets register {use.text} in this thread", use)
        return tuple(self.code)

    def _instruction(self) -> Instruction:
        cursor = self._cursor
        opcode = cursor.expect_kind("word", "an instruction")
        modifiers = Modifiers(cursor, opcode)
        reader = READERS.get(modifiers.base)
        if reader is None:
            raise cursor.error(f"unknown opcode {modifiers.base!r}; there are: {', '.join(READERS)}", opcode)
        instruction = reader(self, modifiers)
        modifiers.end()
        text = " ".join(cursor.text[opcode.offset : cursor.peek().offset].split())
        return replace(instruction, text=text, line=cursor.line(opcode))

    def _load(self, modifiers: Modifiers) -> Instruction:
        is_bare = not modifiers
        register = self._target()
        if is_bare and self._at_operand():  # `ld r0, 1` is how litmus tests write a move
            return Arithmetic("", 0, register, operator.add, self._operand(), ZERO)
        location = self._location()
        return Load("", 0, location, *self._semantics(modifiers), register)

    def _store(self, modifiers: Modifiers) -> Instruction:
        location = self._location()
        self._cursor.expect(",")
        return Store("", 0, location, *self._semantics(modifiers), self._operand())

    def _rmw(self, modifiers: Modifiers) -> Instruction:
        operation = modifiers.need(ATOMICS)
        register = self._target() if modifiers.base == "atom" else None
        location = self._location()
        expected = self._next_operand() if operation == "cas" else None
        value = self._next_operand()
        return Rmw("", 0, location, *self._semantics(modifiers), register, ATOMICS[operation], value, expected)

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
        return Copy("", 0, location, *SEMANTICS["weak"], Scope.SYS, self._location())

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
        self._cursor.expect(",")
        return self.bind(token.text)

    def _location(self) -> int:
        bracketed = self._cursor.accept("[")
        token = self._cursor.expect_kind("word", "a memory location")
        if REGISTER.fullmatch(token.text):
            raise self._cursor.error(f"{token.text} is a register; an address must be a location's name", token)
        if bracketed:
            self._cursor.expect("]")
        return self._locations.setdefault(token.text, len(self._locations))

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
