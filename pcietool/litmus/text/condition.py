"""The end of a litmus test: `exists`, `~exists` or `forall` over registers and memory, and the `locations` to show.

Reads the text into a function of final values. Must not know how executions are found.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcietool.litmus.text.instructions import LARGEST_OFFSET, REGISTER
from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.litmus.text.program import (
    Access,
    Item,
    LitmusThread,
    Part,
    Proposition,
    Question,
    Values,
)
from pcietool.litmus.text.widths import fitting
from pcietool.ptx.lexer import Token

QUANTIFIERS = ("exists", "~", "forall")
DEEPEST = 50


class ConditionParser:
    """`locations` are numbers by name, and a name that is not there is an error. A question about memory is about the
    widest scalar of the `accesses` that starts there, or about a word."""

    def __init__(
        self,
        cursor: LitmusCursor,
        threads: Sequence[LitmusThread],
        locations: dict[str, int],
        accesses: Sequence[Access],
    ) -> None:
        self._cursor = cursor
        self._threads = threads
        self._locations = locations
        self._sizes: dict[tuple[int, int], int] = {}
        for one in accesses:
            for offset in one.part.offsets:
                place = one.location, offset
                self._sizes[place] = max(one.part.size, self._sizes.get(place, 0))
        self._items: dict[Item, None] = {}
        self._depth = 0

    def question(self) -> tuple[str, Question]:
        """(quantifier, question) from here to the end of the text."""
        cursor = self._cursor
        if cursor.at("locations"):
            self._read_locations()
        start = cursor.peek()
        if not cursor.at(*QUANTIFIERS):
            raise cursor.unexpected(start, "exists, ~exists or forall")
        quantifier = cursor.next().text
        if quantifier == "~":
            quantifier += cursor.expect("exists").text
        stated = self._disjunction()
        text = " ".join(cursor.text[start.offset : cursor.peek().offset].split())
        cursor.accept(";")
        end = cursor.next()
        if end.kind != "end":
            raise cursor.unexpected(end, "/\\, \\/ or the end of the text")
        sought = _negation(stated) if quantifier == "forall" else stated
        return quantifier, Question(text, sought, tuple(self._items))

    def _read_locations(self) -> None:
        cursor = self._cursor
        cursor.expect("locations")
        cursor.expect("[")
        while not cursor.accept("]"):
            self._item()
            cursor.accept(";")

    def _disjunction(self) -> Proposition:
        parts = [self._conjunction()]
        while self._cursor.accept("\\/"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else lambda values: any(part(values) for part in parts)

    def _conjunction(self) -> Proposition:
        parts = [self._factor()]
        while self._cursor.accept("/\\"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else lambda values: all(part(values) for part in parts)

    def _factor(self) -> Proposition:
        if not self._cursor.at("~", "("):
            return self._comparison()
        opening = self._cursor.next()
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._cursor.error(f"more than {DEEPEST} parentheses and ~ inside each other", opening)
        if opening.text == "~":
            inner = _negation(self._factor())
        else:
            inner = self._disjunction()
            self._cursor.expect(")")
        self._depth -= 1
        return inner

    def _comparison(self) -> Proposition:
        at = self._cursor.peek()
        left = self._term()
        relation = self._cursor.next()
        if relation.text not in ("=", "==", "!="):
            raise self._cursor.unexpected(relation, "=, == or !=")
        right = self._term()
        left, right = self._comparable(left, right, at), self._comparable(right, left, at)

        def equal(values: Values) -> bool:
            return _value(left, values) == _value(right, values)

        return _negation(equal) if relation.text == "!=" else equal

    def _term(self) -> Item | int:
        is_constant = self._cursor.peek().kind == "integer" and self._cursor.follower.text != ":"
        return self._cursor.integer() if is_constant else self._item()

    def _comparable(self, term: Item | int, other: Item | int, at: Token) -> Item | int:
        """A constant as the other's bits hold it."""
        if isinstance(term, Item) or not isinstance(other, Item):
            return term
        bits = 8 * other.part.size if other.thread is None else self._threads[other.thread].bits(other.number)
        return fitting(self._cursor, term, bits, at) if bits >= 32 else term

    def _item(self) -> Item:
        """A register such as P1:r0 or 1:r0, or memory such as x, x+4 or [x]."""
        cursor = self._cursor
        item = self._register() if cursor.follower.text == ":" else self._memory()
        self._items[item] = None
        return item

    def _register(self) -> Item:
        thread = thread_number(self._cursor, len(self._threads))
        self._cursor.expect(":")
        name = self._cursor.expect_kind("word", "a register")
        registers = self._threads[thread].registers
        if name.text not in registers:
            raise self._cursor.error(f"P{thread} has no register {name.text}", name)
        return Item(thread, registers.index(name.text), f"P{thread}:{name.text}")

    def _memory(self) -> Item:
        cursor = self._cursor
        bracketed = cursor.accept("[")
        name = cursor.expect_kind("word", "a register such as P0:r0 or a memory location")
        if REGISTER.fullmatch(name.text):
            raise cursor.error(f"which thread's {name.text}? Write it as P0:{name.text}", name)
        if name.text not in self._locations:
            raise cursor.error(f"no thread uses a location {name.text}, and nothing initialises it", name)
        offset = cursor.integer(0, LARGEST_OFFSET) if cursor.accept("+") else 0
        if bracketed:
            cursor.expect("]")
        location = self._locations[name.text]
        size = self._sizes.get((location, offset), 4)
        if offset % size:
            raise cursor.error(f"{size} bytes stand at a multiple of that", name)
        text = f"{name.text}+{offset}" if offset else name.text
        return Item(None, location, text, Part(offset, size))


def thread_number(cursor: LitmusCursor, threads: int | None = None) -> int:
    """Of P1, or of 1 alone; `threads`: how many there are."""
    token = cursor.next()
    digits = token.text.removeprefix("P")
    if not digits.isdecimal() or len(digits) > 4:
        raise cursor.unexpected(token, "a thread such as P0")
    if threads is not None and int(digits) >= threads:
        raise cursor.error(f"there is no thread P{int(digits)}; the last one is P{threads - 1}", token)
    return int(digits)


def _value(term: Item | int, values: Values) -> int:
    return values[term] if isinstance(term, Item) else term


def _negation(proposition: Proposition) -> Proposition:
    return lambda values: not proposition(values)
