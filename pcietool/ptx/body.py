"""Reads the body of one function: declarations, labels and instructions into basic blocks.

Must not know what an instruction does, beyond which ones end a block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pcietool.ptx.declarations import Declaration, end_of, read_type, read_variables, round_up
from pcietool.ptx.lexer import Cursor, Token
from pcietool.ptx.model import BasicBlock, Guard, Instruction, SourceLine, Variable
from pcietool.ptx.operands import OperandReader
from pcietool.ptx.scopes import Name, Scopes

BLOCK_ENDS = frozenset({"bra", "brx", "ret", "exit", "trap"})
LARGEST_REGISTER_RANGE = 1 << 16

_LOCATION = re.compile(
    r"\.loc\s+(\d{1,9})\s+(\d{1,9})(?:\s+(\d{1,9}).*?(?:inlined_at\s+(\d{1,9}\s+\d{1,9}\s+\d{1,9}))?\s*$)?"
)
_VARIABLE_SPACES = frozenset({".shared", ".local", ".param"})


class BodyReader:
    """Reads one body, from behind its opening brace to behind the closing one, into public attributes.

    `variables` starts as the shared and constant variables of the module; those declared in the body join them.
    """

    def __init__(
        self, cursor: Cursor, files: Mapping[int, str], names: Mapping[str, Name], variables: dict[str, Variable]
    ) -> None:
        self._cursor = cursor
        self._files = files
        self._source: SourceLine | None = None
        self._callers: tuple[SourceLine, ...] = ()
        self._called_at: dict[tuple[int, ...], tuple[SourceLine, ...]] = {}
        """Each place with its callers, as it was named last: where something inlined there says it was called."""
        self._scopes = Scopes(cursor, names)
        self._operands = OperandReader(cursor, self._scopes)
        self._block: list[Instruction] = []
        self._blocks: list[BasicBlock] = []
        self.registers: dict[str, str] = {}
        self.variables = variables
        self.labels: dict[str, int] = {}
        while self._scopes:
            self._read_statement()
        self._end_block()
        if len(self._blocks) in self.labels.values():  # a label right before the closing brace
            self._blocks.append(BasicBlock(()))

    @property
    def blocks(self) -> tuple[BasicBlock, ...]:
        return tuple(self._blocks)

    def _read_statement(self) -> None:
        cursor = self._cursor
        token = cursor.next()
        if token.kind == "word":
            if cursor.accept(":"):
                self._read_label(token)
            else:
                self._read_instruction(token, token, None)
        elif token.kind == "line":
            self._read_location(token)
        elif token.kind == "directive":
            self._read_directive(token)
        elif token.text == "@":
            negated = cursor.accept("!")
            guard = Guard(self._operands.register(), negated)
            self._read_instruction(token, cursor.expect_kind("word", "an instruction"), guard)
        elif token.text == "{":
            self._scopes.enter()
        elif token.text == "}":
            self._scopes.leave()
        elif token.text != ";":
            raise cursor.unexpected(token, "an instruction")

    def _read_label(self, token: Token) -> None:
        cursor = self._cursor
        label = self._scopes.label(token)
        if cursor.accept(".branchtargets"):
            self._operands.read_branch_table(label.name)
        elif cursor.peek().text in (".callprototype", ".calltargets"):
            cursor.skip_past(";")
            self._scopes.turn_into_symbol(token)
        else:
            self._end_block()
            self.labels[label.name] = len(self._blocks)

    def _end_block(self) -> None:
        if self._block:
            self._blocks.append(BasicBlock(tuple(self._block)))
            self._block = []

    def _read_directive(self, token: Token) -> None:
        if token.text == ".reg":
            self._read_registers()
        elif token.text in _VARIABLE_SPACES:
            for declaration in read_variables(self._cursor):
                self._add_variable(token, declaration)
        elif token.text == ".pragma":
            self._cursor.skip_past(";")
        else:
            raise self._cursor.error(f"{token.text} is not supported in a function body", token)

    def _read_location(self, token: Token) -> None:
        """.loc file line column [, function_name ..., inlined_at ...]: the first three are the inner place."""
        match = _LOCATION.match(token.text)
        if match is None:
            raise self._cursor.unexpected(token, "a .loc with file and line")
        file, line = int(match[1]), int(match[2])
        if file not in self._files:
            raise self._cursor.error(f"there is no .file {file}", token)
        self._source = SourceLine(self._files[file], line) if line else None  # 0: of no line in particular
        caller = tuple(map(int, match[4].split())) if match[4] else ()
        self._callers = self._called_at.get(caller, ())
        if self._source and match[3]:
            self._called_at[file, line, int(match[3])] = (self._source, *self._callers)

    def _read_registers(self) -> None:
        cursor = self._cursor
        type_name = read_type(cursor)
        while True:
            token = cursor.expect_kind("word", "a register name")
            if cursor.accept("<"):
                count = cursor.integer(1, LARGEST_REGISTER_RANGE)
                cursor.expect(">")
                names = [f"{token.text}{number}" for number in range(count)]
            else:
                names = [token.text]
            for name in names:
                self.registers[self._scopes.declare_register(token, name)] = type_name
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _add_variable(self, token: Token, declaration: Declaration) -> None:
        space = token.text[1:]
        unique = self._scopes.declare_symbol(token, declaration.name)
        offset = round_up(end_of(self.variables, space), declaration.align)
        self.variables[unique] = Variable(unique, space, declaration.size, declaration.align, offset)

    def _read_instruction(self, start: Token, opcode_token: Token, guard: Guard | None) -> None:
        cursor = self._cursor
        opcode, *modifiers = opcode_token.text.split(".")
        if not opcode.isalnum():
            raise cursor.unexpected(opcode_token, "an instruction")
        while cursor.peek().kind == "directive":  # `ld.global .u32` is as good as `ld.global.u32`
            modifiers.append(cursor.next().text[1:])
        operands = self._operands.read(opcode)
        end = cursor.expect(";")
        text = " ".join(cursor.text[start.offset : end.offset].split())
        self._block.append(
            Instruction(
                opcode, tuple(modifiers), operands, guard, cursor.line(start), text, self._source, self._callers
            )
        )
        if opcode in BLOCK_ENDS:
            self._end_block()
