"""Reads the operands of one instruction: registers, numbers, addresses, vectors, labels, call lists.

Must not know what the instruction does with them; only branches and calls are written differently from the rest.
"""

from __future__ import annotations

from pcietool.ptx.lexer import Cursor
from pcietool.ptx.model import (
    Address,
    Arguments,
    Immediate,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from pcietool.ptx.scopes import Scopes

_SINK = Register("_")


class OperandReader:
    """Reads at the cursor, with names meaning what they mean in the scopes open there."""

    def __init__(self, cursor: Cursor, scopes: Scopes) -> None:
        self._cursor = cursor
        self._scopes = scopes
        self._branch_tables: dict[str, tuple[Label, ...]] = {}

    def read(self, opcode: str) -> tuple[Operand, ...]:
        if opcode == "bra":
            return (self._label(),)
        if opcode == "brx":
            return self._indirect_branch()
        if opcode == "call":
            return self._call()
        if self._cursor.peek().text == ";":
            return ()
        operands = [self._operand()]
        while self._cursor.accept(","):
            operands.append(self._operand())
        return tuple(operands)

    def read_branch_table(self, name: str) -> None:
        """The labels behind .branchtargets, for the indirect branches that use this table."""
        labels = [self._label()]
        while self._cursor.accept(","):
            labels.append(self._label())
        self._cursor.expect(";")
        self._branch_tables[name] = tuple(labels)

    def _operand(self) -> Operand:
        cursor = self._cursor
        if cursor.accept("["):
            return self._address()
        if cursor.peek().text == "{":
            return self._vector()
        if cursor.accept("!"):
            return Negated(self.register())
        value = self._value()
        if isinstance(value, Register) and cursor.accept("|"):
            return Pair(value, self.register())
        return value

    def _vector(self) -> Vector:
        self._cursor.expect("{")
        items = [self._register_or_immediate()]
        while self._cursor.accept(","):
            items.append(self._register_or_immediate())
        self._cursor.expect("}")
        return Vector(tuple(items))

    def _value(self) -> Register | Immediate | Symbol:
        cursor = self._cursor
        token = cursor.peek()
        if token.kind == "integer":
            return Immediate(cursor.integer())
        cursor.next()
        if token.kind == "float":
            return Immediate(int(token.text[2:], 16), is_float=True)
        if token.kind != "word":
            raise cursor.unexpected(token, "an operand")
        if token.text == "_":
            return _SINK
        if token.text == "WARP_SZ":
            return Immediate(32)
        return self._scopes.look_up(token)

    def _register_or_immediate(self) -> Register | Immediate:
        token = self._cursor.peek()
        value = self._value()
        if isinstance(value, Symbol):
            raise self._cursor.unexpected(token, "a register or a number")
        return value

    def register(self) -> Register:
        token = self._cursor.peek()
        value = self._value()
        if not isinstance(value, Register):
            raise self._cursor.unexpected(token, "a register")
        return value

    def _label(self) -> Label:
        return self._scopes.label(self._cursor.expect_kind("word", "a label"))

    def _address(self) -> Address:
        """[base], [base+4], [base+-8], [base-8] or [map, {x, y}], from behind the opening bracket."""
        base = self._value()
        self._cursor.accept("+")
        offset = self._cursor.integer() if self._cursor.peek().kind == "integer" else 0
        coordinates = self._vector() if self._cursor.accept(",") else None
        self._cursor.expect("]")
        return Address(base, offset, coordinates)

    def _indirect_branch(self) -> tuple[Operand, ...]:
        """The index, then the labels of its table."""
        index = self._value()
        self._cursor.expect(",")
        token = self._cursor.peek()
        table = self._branch_tables.get(self._label().name)
        if table is None:
            raise self._cursor.error(f"{token.text} is no list of branch targets declared above", token)
        return (index, *table)

    def _call(self) -> tuple[Operand, ...]:
        results = self._arguments()
        if results.items:
            self._cursor.expect(",")
        callee = self._value()
        arguments = self._arguments() if self._cursor.accept(",") else Arguments(())
        prototype = (self._value(),) if self._cursor.accept(",") else ()
        return (results, callee, arguments, *prototype)

    def _arguments(self) -> Arguments:
        """A list in parentheses, if there is one."""
        if not self._cursor.accept("("):
            return Arguments(())
        items = []
        while not self._cursor.accept(")"):
            items.append(self._value())
            if self._cursor.peek().text != ")":
                self._cursor.expect(",")
        return Arguments(tuple(items))
