"""What the words of a litmus test stand for: semantics, scopes and types, and what arithmetic, atomics and branches do.

Tables and the functions in them; must not know how text is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

from pcietool.litmus.text.program import Scope

SCOPES = {"cta": Scope.CTA, "cluster": Scope.CTA, "gpu": Scope.GPU, "sys": Scope.SYS}
MEMBAR_SCOPES = {"cta": Scope.CTA, "gl": Scope.GPU, "sys": Scope.SYS}


class Semantics(NamedTuple):
    strong: bool
    acquire: bool
    release: bool


SEMANTICS = {
    "weak": Semantics(strong=False, acquire=False, release=False),
    "volatile": Semantics(strong=True, acquire=False, release=False),
    "relaxed": Semantics(strong=True, acquire=False, release=False),
    "acquire": Semantics(strong=True, acquire=True, release=False),
    "release": Semantics(strong=True, acquire=False, release=True),
    "acq_rel": Semantics(strong=True, acquire=True, release=True),
}
"""Volatile is relaxed.sys (rule 15)."""
SEMANTICS_OF = {
    "ld": ("weak", "volatile", "relaxed", "acquire"),
    "st": ("weak", "volatile", "relaxed", "release"),
    "atom": ("relaxed", "acquire", "release", "acq_rel"),
    "red": ("relaxed", "release"),
}
"""The first is the default, except that one which takes a scope must be given one; RMWs default to gpu."""


class Type(NamedTuple):
    """`size` in bytes."""

    size: int
    signed: bool


TYPES = {f"{letter}{8 * size}": Type(size, signed=letter == "s") for size in (1, 2, 4, 8) for letter in ("u", "s", "b")}
WIDE = tuple(name for name, type_ in TYPES.items() if type_.size == 8)
RMW_TYPES = tuple(name for name, type_ in TYPES.items() if type_.size >= 4)
VECTORS = {"v2": 2, "v4": 4}
WIDEST_VECTOR = 16
"""Bytes."""

Combine = Callable[[int, int], int]
"""(what was read, the operand) -> what is written."""


def _divide(left: int, right: int) -> int:
    """Towards zero, as C and PTX do."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _second(_: int, new: int) -> int:
    return new


def _increment(old: int, limit: int) -> int:
    """As if both were unsigned, like `_decrement`."""
    return 0 if old % 2**32 >= limit % 2**32 else old + 1


def _decrement(old: int, limit: int) -> int:
    return limit if old == 0 or old % 2**32 > limit % 2**32 else old - 1


ARITHMETIC: dict[str, Combine] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _divide}
ATOMICS: dict[str, Combine] = {
    "add": operator.add,
    "sub": operator.sub,
    "inc": _increment,
    "dec": _decrement,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "exch": _second,
    "cas": _second,
}
"""For signed numbers."""
BRANCHES: dict[str, Callable[[int, int], bool]] = {
    "beq": operator.eq,
    "bne": operator.ne,
    "blt": operator.lt,
    "bgt": operator.gt,
    "ble": operator.le,
    "bge": operator.ge,
}


def atomic(name: str, type_: Type) -> Combine:
    """What an atomic of this name writes, for values that are signed numbers whatever the type is."""
    if type_.signed or name not in ("min", "max"):
        return ATOMICS[name]
    pick = min if name == "min" else max
    return lambda old, new: pick(old, new, key=lambda value: value % (1 << 8 * type_.size))
