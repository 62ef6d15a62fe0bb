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
      | (?P<punctuation> [][{}(),;:|@=~] )
      | (?P<end> \Z )
      | (?P<unknown> [\s\S] )
    )""",
    re.VERBOSE | re.ASCII,
)


class LitmusCursor(Cursor):
    """Every error it makes is a ConfigError that names `source`, line and column."""

    PATTERN = _TOKEN
    ERROR = ConfigError

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        super().__init__(text)

    @property
    def follower(self) -> Token:
        """The token after the next one."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these."""
        return self.peek().text in texts
