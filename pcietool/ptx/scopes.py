"""What the names written in a function body stand for.

Names of nested { } scopes get a suffix (`t` of the third scope becomes `t_s3`), so that every name means one thing.
Must not know instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pcietool.ptx.lexer import Cursor, Token
from pcietool.ptx.model import Label, Register, Symbol

DEEPEST_NESTING = 64

Name = Register | Symbol | Label


@dataclass
class _Scope:
    """What each name written here stands for, those of the enclosing scopes included."""

    names: dict[str, Name]
    suffix: str
    own: set[str] = field(default_factory=set)


class Scopes:
    """The scopes that are open at the cursor; the function's own is the outermost."""

    def __init__(self, cursor: Cursor, names: Mapping[str, Name]) -> None:
        self._cursor = cursor
        self._open: list[_Scope] = []
        self._entered = 0
        self._taken = set(names)
        self._enter(names)

    def __bool__(self) -> bool:
        """Is any scope still open?"""
        return bool(self._open)

    def enter(self) -> None:
        """Opens the scope whose brace the cursor has just passed."""
        self._enter(self._open[-1].names)

    def leave(self) -> None:
        self._open.pop()

    def declare_register(self, token: Token, name: str) -> str:
        """The name under which it goes from now on. Raises PtxError, as all of these do, if it is declared twice."""
        unique = self._declare(token, name)
        self._open[-1].names[name] = Register(unique)
        return unique

    def declare_symbol(self, token: Token, name: str) -> str:
        unique = self._declare(token, name)
        self._open[-1].names[name] = Symbol(unique)
        return unique

    def turn_into_symbol(self, token: Token) -> None:
        """For what looked like a label, but names a prototype."""
        self._open[-1].names[token.text] = Symbol(self.label(token).name)

    def look_up(self, token: Token) -> Register | Symbol:
        name = self._open[-1].names.get(token.text)
        if name is None and token.text[0] == "%":  # a special register, or one that the emulator does not know
            return Register(token.text)
        if name is None:
            raise self._cursor.error(f"{token.text} is not declared", token)
        if isinstance(name, Label):
            raise self._cursor.error(f"{token.text} is a label, not an operand", token)
        return name

    def label(self, token: Token) -> Label:
        name = self._open[-1].names.get(token.text)
        if not isinstance(name, Label):
            raise self._cursor.error(f"there is no label {token.text}", token)
        return name

    def _enter(self, names: Mapping[str, Name]) -> None:
        if len(self._open) == DEEPEST_NESTING:
            raise self._cursor.error(f"scopes are nested deeper than {DEEPEST_NESTING}", self._cursor.peek())
        suffix = f"_s{self._entered}" if self._entered else ""
        self._entered += 1
        self._open.append(_Scope(dict(names), suffix))
        for token in self._labels_ahead():  # a branch may come before its label
            self._open[-1].names[token.text] = Label(self._declare(token, token.text))

    def _labels_ahead(self) -> list[Token]:
        """The labels of the scope that starts here, without those of scopes inside."""
        labels = []
        depth = 0
        tokens = self._cursor.tokens
        for index in range(self._cursor.index, len(tokens)):
            text = tokens[index].text
            if text == "{":
                depth += 1
            elif text == "}":
                depth -= 1
                if depth < 0:
                    break
            elif text == ":" and not depth and tokens[index - 1].kind == "word":
                labels.append(tokens[index - 1])
        return labels

    def _declare(self, token: Token, name: str) -> str:
        scope = self._open[-1]
        if name in scope.own:
            raise self._cursor.error(f"{name} is declared twice", token)
        scope.own.add(name)
        unique = name + scope.suffix
        while unique in self._taken:
            unique += "_"
        self._taken.add(unique)
        return unique
