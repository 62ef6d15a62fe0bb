"""PTX text -> Module: version and target, module-level variables, and functions with the memory they lay out.

Reads what NVRTC writes, and inline assembly inside it; anything else is a PtxError with line and column. Must not
judge instructions: an unknown one parses, and the emulator refuses it by name.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pcietool.ptx.body import BodyReader
from pcietool.ptx.declarations import Declaration, end_of, read_parameter, read_variables, round_up
from pcietool.ptx.lexer import Cursor, Token
from pcietool.ptx.model import Function, Module, Parameter, Symbol, Variable
from pcietool.ptx.scopes import Name

_LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
_SPACES = frozenset({".global", ".const", ".shared"})
_FILE = re.compile(r'\.file\s+(\d{1,9})\s+"([^"]*)"')


def parse(text: str) -> Module:
    """Reads one PTX text. Raises PtxError naming line and column."""
    return _ModuleReader(Cursor(text)).read()


class _ModuleReader:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._files = _files(cursor)
        self._version = ""
        self._target = ""
        self._names: dict[str, Name] = {}
        self._functions: dict[str, Function] = {}
        self._variables: dict[str, Variable] = {}
        self._placed: dict[str, Variable] = {}
        """Shared and constant variables of the module, which functions see as their own."""

    def read(self) -> Module:
        while (token := self._cursor.next()).kind != "end":
            self._read_item(token)
        if not self._version or not self._target:
            raise self._cursor.unexpected(token, "'.version' and '.target'")
        return Module(self._version, self._target, self._functions, self._variables)

    def _read_item(self, token: Token) -> None:
        cursor = self._cursor
        if token.kind == "line" or token.text in _LINKAGE:
            return
        if token.text in (".entry", ".func"):
            self._read_function(is_entry=token.text == ".entry")
        elif token.text in _SPACES:
            for declaration in read_variables(cursor):
                self._add_variable(token, declaration)
        elif token.text == ".version":
            self._version = cursor.expect_kind("version", "a version such as 8.0").text
        elif token.text == ".target":
            self._target = cursor.word("a target such as sm_90")
            while cursor.accept(","):
                cursor.word("a target option")
        elif token.text == ".address_size":
            cursor.integer(64, 64)
        elif token.text in (".pragma", ".alias"):
            cursor.skip_past(";")
        else:
            raise cursor.unexpected(token, "a function or a variable")

    def _add_variable(self, token: Token, declaration: Declaration) -> None:
        space = token.text[1:]
        name = declaration.name
        self._names[name] = Symbol(name)
        offset = 0 if space == "global" else round_up(end_of(self._placed, space), declaration.align)
        variable = Variable(name, space, declaration.size, declaration.align, offset, declaration.initial)
        if space != "shared":
            self._variables[name] = variable
        self._placed[name] = variable

    def _read_function(self, is_entry: bool) -> None:
        cursor = self._cursor
        results = () if is_entry else self._read_parameters()
        name_token = cursor.expect_kind("word", "a function name")
        name = name_token.text
        parameters = self._read_parameters()
        directives = self._read_directives()
        self._names[name] = Symbol(name)
        if cursor.accept(";"):  # only declared
            return
        if name in self._functions:
            raise cursor.error(f"function {name} is defined twice", name_token)
        cursor.expect("{")
        names = self._names | {parameter.name: Symbol(parameter.name) for parameter in (*results, *parameters)}
        body = BodyReader(cursor, self._files, names, dict(self._placed))
        if not is_entry and any(v.space == "shared" for v in body.variables.values() if v.name not in self._placed):
            raise cursor.error(f"{name}: shared memory of its own is supported in kernels only", name_token)
        shared_bytes = end_of(body.variables, "shared")
        self._functions[name] = Function(
            name=name,
            is_entry=is_entry,
            parameters=parameters,
            results=results,
            registers=body.registers,
            variables=_with_dynamic_shared(body.variables, shared_bytes),
            blocks=body.blocks,
            labels=body.labels,
            shared_bytes=shared_bytes,
            directives=directives,
        )

    def _read_parameters(self) -> tuple[Parameter, ...]:
        """A list in parentheses, if there is one, with each parameter at its place in the parameter block."""
        parameters: list[Parameter] = []
        offset = 0
        if not self._cursor.accept("("):
            return ()
        while not self._cursor.accept(")"):
            declaration = read_parameter(self._cursor)
            offset = round_up(offset, declaration.align)
            parameters.append(Parameter(declaration.name, declaration.type, offset, declaration.size))
            offset += declaration.size
            if self._cursor.peek().text != ")":
                self._cursor.expect(",")
        return tuple(parameters)

    def _read_directives(self) -> dict[str, tuple[int, ...]]:
        """.maxntid 128, 1, 1 and the like, up to the body."""
        cursor = self._cursor
        directives = {}
        while cursor.peek().kind == "directive":
            name = cursor.next().text[1:]
            if name == "pragma":
                cursor.skip_past(";")
                continue
            values = []
            while cursor.peek().kind == "integer":
                values.append(cursor.integer())
                cursor.accept(",")
            directives[name] = tuple(values)
        return directives


def _files(cursor: Cursor) -> dict[int, str]:
    """Names of the source files by number; .file stands behind the functions whose .loc lines refer to it."""
    lines = (_FILE.match(token.text) for token in cursor.tokens if token.kind == "line")
    return {int(match[1]): match[2] for match in lines if match}


def _with_dynamic_shared(variables: dict[str, Variable], shared_bytes: int) -> dict[str, Variable]:
    """Places the arrays without size behind the static ones."""
    return {
        name: replace(variable, offset=round_up(shared_bytes, variable.align))
        if variable.space == "shared" and not variable.bytes
        else variable
        for name, variable in variables.items()
    }
