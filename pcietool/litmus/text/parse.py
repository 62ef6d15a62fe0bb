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

from collections.abc import Sequence

from pcietool.litmus.text.condition import QUANTIFIERS, ConditionParser, thread_number
from pcietool.litmus.text.expectation import expectation
from pcietool.litmus.text.instructions import LARGEST_OFFSET, REGISTER, Column
from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.litmus.text.operations import ATOMICS
from pcietool.litmus.text.program import Access, Expectation, LitmusTest, LitmusThread, Part
from pcietool.litmus.text.widths import fitting
from pcietool.ptx.lexer import Token

MOST_THREADS = 64
MOST_INSTRUCTIONS = 1_000
"""Of all threads."""


def parse_litmus(text: str, source: str = "litmus") -> LitmusTest:
    """`source` is what errors call the text. Raises ConfigError with line and column."""
    return _Parser(LitmusCursor(text, source)).read()


class _Parser:
    def __init__(self, cursor: LitmusCursor) -> None:
        self._cursor = cursor
        self._locations: dict[str, int] = {}
        self._contents: dict[int, dict[int, int]] = {}
        """Initial bytes of each location, by offset."""
        self._not_native: set[tuple[int, str]] = set()
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
            start = cursor.peek()
            self._row(columns)
            if sum(len(column.code) for column in columns) > MOST_INSTRUCTIONS:
                raise cursor.error(f"more than {MOST_INSTRUCTIONS:,} instructions; nobody could explore them", start)
        threads = tuple(
            LitmusThread(*place, column.finish(), tuple(column.registers), *self._initial_registers(number, column))
            for number, (place, column) in enumerate(zip(places, columns, strict=True))
        )
        accesses = [one for thread in threads for one in thread.code if isinstance(one, Access)]
        quantifier, question = ConditionParser(cursor, threads, self._locations, accesses).question()
        touched = [(one.location, one.part) for one in accesses]
        touched += [(item.number, item.part) for item in question.items if item.thread is None]
        return LitmusTest(
            name=title.text.removeprefix("PTX").strip(),
            description=description,
            threads=threads,
            locations=tuple(self._locations),
            contents=tuple(self._content(number, touched) for number in range(len(self._locations))),
            question=question,
            # ~exists and forall say by themselves what must not happen.
            expectation=expected or Expectation(None if quantifier == "exists" else "forbidden"),
            not_native=frozenset(self._not_native),
        )

    def _content(self, location: int, touched: Sequence[tuple[int, Part]]) -> bytes:
        """As long as what is touched; what is not initialised is 0."""
        initialised = self._contents.get(location, {})
        ends = [4, *(part.end for place, part in touched if place == location), *(at + 1 for at in initialised)]
        return bytes(initialised.get(at, 0) for at in range(max(ends)))

    def _description(self) -> tuple[str, Expectation | None]:
        """All quoted texts, and what they expect."""
        texts: list[Token] = []
        while self._cursor.peek().kind == "string":
            texts.append(self._cursor.next())
        description = " ".join(" ".join(token.text[1:-1].split()) for token in texts)
        return description, expectation(self._cursor, texts)

    def _initial_state(self) -> None:
        """{ x=0; y=0 without native atomics; z=0; z+4=1 without native min; P1:r1=0; }"""
        cursor = self._cursor
        cursor.expect("{")
        while not cursor.accept("}"):
            if cursor.accept(";"):
                continue
            if cursor.follower.text == ":":
                thread = thread_number(cursor)
                cursor.expect(":")
                register = cursor.expect_kind("word", "a register")
                self._initial[thread, register.text] = self._initial_value(64)[0], register
            else:
                self._initial_memory()
            if not cursor.at("}", ";"):
                raise cursor.unexpected(cursor.peek(), "; or }")

    def _initial_memory(self) -> None:
        cursor = self._cursor
        name = cursor.expect_kind("word", "a location or a register such as P0:r0")
        if REGISTER.fullmatch(name.text):
            raise cursor.error(f"which thread's {name.text}? Write it as P0:{name.text}", name)
        location = self._locations.setdefault(name.text, len(self._locations))
        offset = cursor.integer(0, LARGEST_OFFSET) if cursor.accept("+") else 0
        value, bits = self._initial_value()
        content = value.to_bytes(bits // 8, "little", signed=True)
        initialised = self._contents.setdefault(location, {})
        if any(offset + at in initialised for at in range(len(content))):
            raise cursor.error(f"location {name.text} is initialised twice", name)
        initialised |= {offset + at: byte for at, byte in enumerate(content)}
        if cursor.accept("without"):
            cursor.expect("native")
            self._not_native |= {(location, operation) for operation in self._operations()}

    def _operations(self) -> list[str]:
        """After "without native": "atomics" for all, or some by name."""
        if self._cursor.accept("atomics"):
            return list(ATOMICS)
        named = [self._operation()]
        while self._cursor.accept(","):
            named.append(self._operation())
        return named

    def _operation(self) -> str:
        token = self._cursor.expect_kind("word", "atomics")
        if token.text not in ATOMICS:
            raise self._cursor.unexpected(token, f"atomics, or some of {', '.join(ATOMICS)}")
        return token.text

    def _initial_value(self, bits: int = 0) -> tuple[int, int]:
        """(value, its bits): 32 unless it needs 64, or `bits`."""
        self._cursor.expect("=")
        token = self._cursor.peek()
        value = self._cursor.integer()
        bits = bits or (32 if -(1 << 31) <= value < 1 << 32 else 64)
        return fitting(self._cursor, value, bits, token), bits

    def _header(self) -> list[tuple[int, int]]:
        """(cta, gpu) of each column, from P0@cta 0,gpu 0 | P1@cta 1,gpu 0;"""
        cursor = self._cursor
        places: list[tuple[int, int]] = []
        while not places or cursor.accept("|"):
            token = cursor.peek()
            if len(places) == MOST_THREADS:
                raise cursor.error(f"more than {MOST_THREADS} threads; nobody could explore them", token)
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
        for (thread, register), (value, token) in self._initial.items():
            if thread >= len(columns):
                raise self._cursor.error(f"there is no thread P{thread}; the last one is P{len(columns) - 1}", token)
            if not REGISTER.fullmatch(register):
                raise self._cursor.unexpected(token, "a register such as r0")
            number = columns[thread].bind(register)
            if not -(1 << 31) <= value < 1 << 32:
                columns[thread].wide.add(number)

    def _initial_registers(self, thread: int, column: Column) -> tuple[tuple[int, ...], frozenset[int]]:
        """(values, which registers are wide)."""
        values = []
        for name, number in column.registers.items():
            value, token = self._initial.get((thread, name), (0, None))
            if token:
                value = fitting(self._cursor, value, 64 if number in column.wide else 32, token)
            values.append(value)
        return tuple(values), frozenset(column.wide)

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
