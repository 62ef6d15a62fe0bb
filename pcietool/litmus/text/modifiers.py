"""What stands behind the dots of a litmus opcode, taken piece by piece, in any order. Must not know what it means."""

from __future__ import annotations

from collections.abc import Iterable

from pcietool.errors import PcietoolError
from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.ptx.lexer import Token


class Modifiers:
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
