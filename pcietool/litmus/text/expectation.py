"""What a litmus test says about itself: `expect: allowed`, `expect: forbidden`, with `, hangs` behind.

Whatever looks like it and is not is an error: an expectation that nobody reads would be taken for one that holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pcietool.errors import PcietoolError
from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.litmus.text.program import Expectation, Verdict
from pcietool.ptx.lexer import Token

_STATED = re.compile(r"\bexpect:\s*(?P<verdict>\w+)(?:\s*,\s*(?P<hangs>hangs)\b)?")
_MEANT = re.compile(
    r"\bexpect\w*\s*[:=]|\bexpect\w*\s+(?:\w+\s+)?(?:allowed|forbidden|undecided|hangs)\b|\bverdict\s*[:=]\s*(?:allowed|forbidden)\b",
    re.IGNORECASE,
)
_HANGS_MEANT = re.compile(r"\s*[,;]?\s*(?:and\s+)?(?:hangs?|hung|may\s+hang)\b", re.IGNORECASE)
_COMMENT = re.compile(r"//[^\n]*|\(\*[\s\S]*?\*\)")
VERDICTS: dict[str, Verdict] = {"allowed": "allowed", "forbidden": "forbidden"}


def expectation(cursor: LitmusCursor, texts: Sequence[Token]) -> Expectation | None:
    """What the quoted texts expect. Raises ConfigError for a second one, and for what only looks like one."""
    found: Expectation | None = None
    for token in texts:
        for meant in _MEANT.finditer(token.text):
            stated = _STATED.match(token.text, meant.start())
            at = _at(token, meant)
            if stated is None:
                raise _mistaken(cursor, at)
            verdict = stated["verdict"]
            if verdict not in VERDICTS:
                at = Token("word", verdict, token.offset + stated.start("verdict"))
                raise cursor.unexpected(at, "allowed or forbidden")
            if found:
                raise cursor.error("a second expectation; a test has one", at)
            if not stated["hangs"] and (hangs := _HANGS_MEANT.match(token.text, stated.end())):
                raise cursor.error(f"write {verdict}, hangs", _at(token, hangs))
            found = Expectation(VERDICTS[verdict], bool(stated["hangs"]), stated=True)
    for comment in _COMMENT.finditer(cursor.text):
        is_quoted = any(token.offset < comment.start() < token.offset + len(token.text) for token in texts)
        meant_there = None if is_quoted else _MEANT.search(comment[0])
        if meant_there:
            raise _mistaken(cursor, _at(Token("comment", comment[0], comment.start()), meant_there))
    return found


def _at(token: Token, match: re.Match[str]) -> Token:
    return Token("word", match[0], token.offset + match.start())


def _mistaken(cursor: LitmusCursor, at: Token) -> PcietoolError:
    wanted = "expect: allowed or expect: forbidden, in the quoted description"
    return cursor.error(f"{at.text.strip()!r} is no expectation; write {wanted}", at)
