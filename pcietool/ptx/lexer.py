"""PTX text -> tokens, and a cursor over them that the parser reads with.

Knows words, numbers and punctuation only; must not know what any of them means. The cursor serves another language
(litmus tests) as a subclass with its own token pattern.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from pcietool.errors import PcietoolError, PtxError

# Debug sections count as blank space: nothing in them concerns the program, and there is more of them than of it.
# .loc and .file are one token with the rest of their line, since it is the newline that ends them.
# The blank prefix is possessive, so that it can never be extended over text that is no token.
_TOKEN = re.compile(
    r"""
    (?: \s | //[^\n]* | /\*[\s\S]*?\*/ | \.section\s+\.\w+\s*\{[^}]*\} )*+
    (?: (?P<word> [%$A-Za-z_][\w$%]* (?: (?:\.|::) \w+ )* )
      | (?P<line> \.(?:loc|file)\b [^\n]* )
      | (?P<directive> \.[A-Za-z_]\w* (?: :: \w+ )* )
      | (?P<float> 0[fF][0-9a-fA-F]{8} (?![\w$]) | 0[dD][0-9a-fA-F]{16} (?![\w$]) )
      | (?P<version> \d+\.\d+ (?![\w$.]) )
      | (?P<integer> -?(?: 0[xX][0-9a-fA-F]+ | 0[bB][01]+ | \d+ )U? (?![\w$.]) )
      | (?P<punctuation> [][{}(),;:@!|+<>=] )
      | (?P<string> "(?: [^"\\\n] | \\. )*" )
      | (?P<end> \Z )
      | (?P<unknown> [\s\S] )
    )""",
    re.VERBOSE | re.ASCII,
)
_LONGEST_INTEGER = 2 + 64 + 1
"""Characters of 0b, 64 binary digits, U."""


class Token(NamedTuple):
    """`kind` is the name of a group of the token pattern; `offset` is in characters from the start of the text."""

    kind: str
    text: str
    offset: int


class Cursor:
    """Walks over the tokens of one text. Every error it makes is a PtxError that names line and column."""

    PATTERN = _TOKEN
    ERROR: type[PcietoolError] = PtxError
    source = "PTX"
    """What an error calls the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.tokens = self._tokenize()
        self.index = 0

    def _tokenize(self) -> list[Token]:
        tokens = []
        for match in self.PATTERN.finditer(self.text):
            kind = match.lastgroup or ""
            token = Token(kind, match[kind], match.start(kind))
            if kind == "unknown":
                raise self.error(f"unexpected character {token.text!r}", token)
            tokens.append(token)
            if kind == "end":  # which would match once more, emptily, right after trailing blanks
                break
        return tokens

    def line(self, token: Token) -> int:
        """The token's line, from 1."""
        return bisect_right(self._line_starts, token.offset)

    def error(self, message: str, token: Token) -> PcietoolError:
        """To be raised by the caller."""
        line = self.line(token)
        column = token.offset - self._line_starts[line - 1] + 1
        return self.ERROR(f"{self.source} line {line}, column {column}: {message}")

    def unexpected(self, token: Token, wanted: str) -> PcietoolError:
        """To be raised by the caller."""
        found = repr(token.text[:40]) if token.text else "the end of the text"
        return self.error(f"expected {wanted}, found {found}", token)

    def peek(self) -> Token:
        return self.tokens[self.index]

    def next(self) -> Token:
        """The next token; at the end of the text always the end token."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def accept(self, text: str) -> bool:
        """Steps over the next token if it is this one."""
        if self.tokens[self.index].text == text:
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.next()
        if token.text != text:
            raise self.unexpected(token, repr(text))
        return token

    def expect_kind(self, kind: str, wanted: str) -> Token:
        """The next token, which must be of this kind; `wanted` says in the error what it should have been."""
        token = self.next()
        if token.kind != kind:
            raise self.unexpected(token, wanted)
        return token

    def word(self, wanted: str = "a name") -> str:
        return self.expect_kind("word", wanted).text

    def integer(self, low: int = -(1 << 63), high: int = (1 << 64) - 1) -> int:
        """The value of an integer literal, which must lie in low..high."""
        token = self.expect_kind("integer", "an integer")
        digits = token.text.removesuffix("U")
        if len(digits) > _LONGEST_INTEGER:  # int() of thousands of digits is an error of its own
            raise self.error("integer is out of range", token)
        sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits)
        is_octal = len(digits) > 1 and digits.isdecimal() and digits[0] == "0"
        try:
            value = sign * int(digits, 8 if is_octal else 0)
        except ValueError:
            raise self.unexpected(token, "an integer") from None
        if not low <= value <= high:
            raise self.error(f"integer is out of range, {value} is not in {low}..{high}", token)
        return value

    def skip_past(self, text: str) -> None:
        """Steps over everything up to and including this token."""
        while (token := self.next()).text != text:
            if token.kind == "end":
                raise self.unexpected(token, repr(text))
