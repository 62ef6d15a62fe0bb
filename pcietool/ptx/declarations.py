"""Reads variable and parameter declarations: `.shared .align 4 .b8 name[16] = {1, 2};` and the like.

Must not know where a variable lives or which function it belongs to: the callers place it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pcietool.ptx.lexer import Cursor
from pcietool.ptx.model import TYPE_BYTES, Variable

LARGEST_VARIABLE = 1 << 30
LARGEST_ALIGNMENT = 1 << 16


@dataclass(frozen=True)
class Declaration:
    """One name of a declaration; `size` in bytes is 0 for an array without size, whose memory comes from outside."""

    name: str
    type: str
    size: int
    align: int
    initial: bytes | None = None


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def end_of(variables: Mapping[str, Variable], space: str) -> int:
    """Bytes that the variables of one space take; arrays without size have no place of their own and do not count."""
    return max((v.offset + v.bytes for v in variables.values() if v.space == space and v.bytes), default=0)


def read_variables(cursor: Cursor) -> list[Declaration]:
    """Everything from behind the state space word up to and including the semicolon."""
    type_name, align = _read_attributes(cursor)
    variables = [_read_declarator(cursor, type_name, align)]
    while cursor.accept(","):
        variables.append(_read_declarator(cursor, type_name, align))
    cursor.expect(";")
    return variables


def read_parameter(cursor: Cursor) -> Declaration:
    """One entry of a parameter list."""
    cursor.expect(".param")
    return _read_declarator(cursor, *_read_attributes(cursor))


def read_type(cursor: Cursor) -> str:
    """A fundamental type, without the dot."""
    token = cursor.next()
    if token.text[1:] not in TYPE_BYTES or token.text[0] != ".":
        raise cursor.unexpected(token, "a type")
    return token.text[1:]


def _read_attributes(cursor: Cursor) -> tuple[str, int]:
    """(type, alignment in bytes); what a .ptr parameter points to says nothing about its own alignment."""
    align = None
    while cursor.peek().text in (".align", ".attribute"):
        if cursor.next().text == ".align":
            align = _read_alignment(cursor)
        else:
            cursor.skip_past(")")
    type_name = read_type(cursor)
    if cursor.accept(".ptr"):
        while cursor.peek().kind == "directive":
            if cursor.next().text == ".align":
                _read_alignment(cursor)
    return type_name, align or TYPE_BYTES[type_name]


def _read_alignment(cursor: Cursor) -> int:
    token = cursor.peek()
    align = cursor.integer(1, LARGEST_ALIGNMENT)
    if align & (align - 1):
        raise cursor.error(f"alignment must be a power of two, not {align}", token)
    return align


def _read_declarator(cursor: Cursor, type_name: str, align: int) -> Declaration:
    token = cursor.expect_kind("word", "a name")
    size = TYPE_BYTES[type_name]
    while cursor.accept("["):
        if cursor.accept("]"):
            size = 0
            continue
        size *= cursor.integer(0, LARGEST_VARIABLE)
        cursor.expect("]")
    if size > LARGEST_VARIABLE:
        raise cursor.error(f"{token.text} is larger than {LARGEST_VARIABLE} bytes", token)
    initial = _read_initial(cursor, type_name, size) if cursor.accept("=") else None
    return Declaration(token.text, type_name, size, align, initial)


def _read_initial(cursor: Cursor, type_name: str, size: int) -> bytes:
    """The variable's bytes; elements that are not given are zero."""
    start = cursor.peek()
    width = TYPE_BYTES[type_name]
    if cursor.accept("{"):
        values = bytearray(_read_element(cursor, width))
        while cursor.accept(","):
            values += _read_element(cursor, width)
        cursor.expect("}")
    else:
        values = bytearray(_read_element(cursor, width))
    if len(values) > size:
        raise cursor.error(f"{len(values)} bytes of initial value for a variable of {size}", start)
    return bytes(values).ljust(size, b"\0")


def _read_element(cursor: Cursor, width: int) -> bytes:
    token = cursor.peek()
    if token.kind == "word":
        raise cursor.error(f"an address as initial value is not supported: {token.text!r}", token)
    if token.kind == "float":
        value = int(cursor.next().text[2:], 16)
        if value >> 8 * width:
            raise cursor.error(f"float is wider than {width} bytes", token)
    else:
        value = cursor.integer(-(1 << 8 * width - 1), (1 << 8 * width) - 1)
    return (value & (1 << 8 * width) - 1).to_bytes(width, "little")
