"""Herd-style PTX litmus text -> LitmusTest.

    PTX MP+release.sys+acquire.sys
    "Message passing between two GPUs. expect: forbidden. The acquire load reads from the release store."
    { x=0; y=0; }
     P0@cta 0,gpu 0      | P1@cta 0,gpu 1         ;
     st.weak x, 1        | ld.acquire.sys r0, y   ;
     st.release.sys y, 1 | ld.weak r1, x          ;
    exists (P1:r0 == 1 /\\ P1:r1 == 0)

Must not judge the test; what it means is the model's business.
"""

from __future__ import annotations

import re

from pcietool.litmus.text.condition import QUANTIFIERS, ConditionParser, thread_number
from pcietool.litmus.text.instructions import REGISTER, Column
from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.litmus.text.program import Expectation, LitmusTest, LitmusThread, Verdict
from pcietool.ptx.lexer import Token

_EXPECT = re.compile(r"\bexpect:\s*(?P<verdict>\w+)(?:\s*,\s*(?P<hangs>hangs)\b)?")


def parse_litmus(text: str, source: str = "litmus") -> LitmusTest:
    """`source` is what errors call the text. Raises ConfigError with line and column."""
    return _Parser(LitmusCursor(text, source)).read()


class _Parser:
    def __init__(self, cursor: LitmusCursor) -> None:
        self._cursor = cursor
        self._locations: dict[str, int] = {}
        self._memory: dict[str, int] = {}
        self._without_native_atomics: set[int] = set()
        self._initial: dict[tuple[int, str], tuple[int, Token]] = {}

    def read(self) -> LitmusTest:
        cursor = self._cursor
        cursor.refuse_control_characters()
        title = cursor.expect_kind("title", "the title line PTX NAME")
        description, expected = self._description()
        self._initial_state()
        places = self._header()
        columns = [Column(cursor, self._locations) for _ in places]
        self._bind_initial(columns)
        while not cursor.at("locations", *QUANTIFIERS):
            self._row(columns)
        codes = [column.finish() for column in columns]
        conditions = ConditionParser(cursor, [column.registers for column in columns], self._locations)
        quantifier, question = conditions.question()
        return LitmusTest(
            name=title.text.removeprefix("PTX").strip(),
            description=description,
            threads=tuple(
                LitmusThread(cta, gpu, code, tuple(column.registers), self._initial_registers(number, column))
                for number, ((cta, gpu), code, column) in enumerate(zip(places, codes, columns, strict=True))
            ),
            locations=tuple(self._locations),
            memory=tuple(self._memory.get(name, 0) for name in self._locations),
            question=question,
            # ~exists and forall say by themselves what must not happen.
            expectation=expected or Expectation(None if quantifier == "exists" else "forbidden"),
            without_native_atomics=frozenset(self._without_native_atomics),
        )

    def _description(self) -> tuple[str, Expectation | None]:
        """All quoted texts, and what they expect."""
        parts: list[str] = []
        expected = None
        while self._cursor.peek().kind == "string":
            token = self._cursor.next()
            parts.append(" ".join(token.text[1:-1].split()))
            for match in _EXPECT.finditer(token.text):
                if expected:
                    at = Token("word", "expect:", token.offset + match.start())
                    raise self._cursor.error("a second expectation; a test has one", at)
                expected = Expectation(self._expected_verdict(match, token), bool(match["hangs"]), stated=True)
        return " ".join(parts), expected

    def _expected_verdict(self, match: re.Match[str], token: Token) -> Verdict:
        if match["verdict"] == "allowed":
            return "allowed"
        if match["verdict"] == "forbidden":
            return "forbidden"
        at = Token("word", match["verdict"], token.offset + match.start("verdict"))
        raise self._cursor.unexpected(at, "allowed or forbidden")

    def _initial_state(self) -> None:
        """{ x=0; y=0 without native atomics; P1:r1=0; }"""
        cursor = self._cursor
        cursor.expect("{")
        while not cursor.accept("}"):
            if cursor.accept(";"):
                continue
            if cursor.follower.text == ":":
                thread = thread_number(cursor)
                cursor.expect(":")
                register = cursor.expect_kind("word", "a register")
                self._initial[thread, register.text] = self._initial_value(), register
            else:
                name = cursor.expect_kind("word", "a location or a register such as P0:r0")
                if REGISTER.fullmatch(name.text):
                    raise cursor.error(f"which thread's {name.text}? Write it as P0:{name.text}", name)
                if name.text in self._memory:
                    raise cursor.error(f"location {name.text} is initialised twice", name)
                self._locations[name.text] = len(self._locations)
                self._memory[name.text] = self._initial_value()
                if cursor.accept("without"):
                    for word in ("native", "atomics"):
                        cursor.expect(word)
                    self._without_native_atomics.add(self._locations[name.text])
            if not cursor.at("}", ";"):
                raise cursor.unexpected(cursor.peek(), "; or }")

    def _initial_value(self) -> int:
        self._cursor.expect("=")
        return self._cursor.integer()

    def _header(self) -> list[tuple[int, int]]:
        """(cta, gpu) of each column, from P0@cta 0,gpu 0 | P1@cta 1,gpu 0;"""
        cursor = self._cursor
        places: list[tuple[int, int]] = []
        while not places or cursor.accept("|"):
            token = cursor.peek()
            if thread_number(cursor) != len(places):
                raise cursor.unexpected(token, f"P{len(places)}: columns are numbered from the left")
            for text in ("@", "cta"):
                cursor.expect(text)
            cta = cursor.integer(low=0)
            for text in (",", "gpu"):
                cursor.expect(text)
            places.append((cta, cursor.integer(low=0)))
        cursor.expect(";")
        return places

    def _bind_initial(self, columns: list[Column]) -> None:
        for (thread, register), (_, token) in self._initial.items():
            if thread >= len(columns):
                raise self._cursor.error(f"there is no thread P{thread}; the last one is P{len(columns) - 1}", token)
            if not REGISTER.fullmatch(register):
                raise self._cursor.unexpected(token, "a register such as r0")
            columns[thread].bind(register)

    def _initial_registers(self, thread: int, column: Column) -> tuple[int, ...]:
        return tuple(self._initial.get((thread, name), (0,))[0] for name in column.registers)

    def _row(self, columns: list[Column]) -> None:
        cursor = self._cursor
        for number, column in enumerate(columns):
            if number and not cursor.accept("|"):
                break  # a row may end early
            column.read_cell()
        end = cursor.next()
        if end.text == "|":
            raise cursor.error(f"the row has more cells than the {len(columns)} columns of the header", end)
        if end.text != ";":
            raise cursor.unexpected(end, "| or ;")
