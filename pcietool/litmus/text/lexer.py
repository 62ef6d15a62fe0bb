"""Litmus text -> tokens. Knows words, numbers and punctuation only."""

from __future__ import annotations

import re

from pcietool.errors import ConfigError
from pcietool.ptx.lexer import Cursor, Token

_TOKEN = re.compile(
    r"""
    (?: \s | //[^\n]* | \(\*[\s\S]*?\*\) )*+
    (?: (?P<title> (?<![^\n]) PTX [^\S\n]+ [^\s"{][^\n"{]* )
      | (?P<word> [A-Za-z_][\w.]* )
      | (?P<integer> -?(?: 0[xX][0-9a-fA-F]+ | \d+ ) (?!\w) )
      | (?P<string> "[^"]*" )
      | (?P<connective> /\\ | \\/ | == | != )
      | (?P<punctuation> [][{}(),;:|@=~+] )
      | (?P<end> \Z )
      | (?P<unknown> [\s\S] )
    )""",
    re.VERBOSE | re.ASCII,
)

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")


class LitmusCursor(Cursor):
    """Every error it makes is a ConfigError that names `source`, line and column."""

    PATTERN = _TOKEN
    ERROR = ConfigError

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        super().__init__(text)

    def refuse_control_characters(self) -> None:
        """Raises ConfigError at the first: titles and texts are shown in terminals."""
        found = _CONTROL.search(self.text)
        if found:
            at = Token("unknown", found[0], found.start())
            raise self.error(f"control character U+{ord(found[0]):04X}; remove it", at)

    @property
    def follower(self) -> Token:
        """The token after the next one."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these."""
        return self.peek().text in texts
