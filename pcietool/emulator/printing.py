"""What a kernel's printf prints: the text of a format and of the arguments as they stand in memory.

The driver's printf on GPUs is the model. Must not print anything.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

MOST_LINES = 1000
"""Kept of a round."""
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?(?P<length>hh|h|ll|l|j|z|t|L)?"
    r"(?P<kind>[diouxXcsfFeEgGaAp%])"
)
_WIDE = frozenset({"l", "ll", "j", "z", "t"})


def printed(text: str, arguments: bytes, string_at: Callable[[int], str]) -> str:
    """`arguments`: one after the other, aligned as C aligns them. What is missing of them is read as 0."""
    place = 0

    def take(nbytes: int) -> bytes:
        nonlocal place
        place = -(-place // nbytes) * nbytes
        raw = arguments[place : place + nbytes].ljust(nbytes, b"\0")
        place += nbytes
        return raw

    def converted(found: re.Match[str]) -> str:
        kind = found["kind"]
        if kind == "%":
            return "%"
        width, precision = (
            str(int.from_bytes(take(4), "little", signed=True)) if part == "*" else part
            for part in (found["width"], found["precision"])
        )
        form = f"%{found['flags']}{width or ''}{'' if precision is None else '.' + precision}"
        if kind == "c":
            return (form + "s") % chr(take(4)[0])
        if kind == "s":
            return (form + "s") % string_at(int.from_bytes(take(8), "little"))
        if kind == "p":
            return f"{int.from_bytes(take(8), 'little'):#x}"
        if kind in "fFeEgGaA":
            (number,) = struct.unpack("<d", take(8))
            return float(number).hex() if kind in "aA" else (form + kind) % number
        value = int.from_bytes(take(8 if found["length"] in _WIDE else 4), "little", signed=kind in "di")
        return (form + ("d" if kind == "u" else kind)) % value

    return _CONVERSION.sub(converted, text)
