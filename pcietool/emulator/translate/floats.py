"""Float functions that generated code calls: bit patterns to Python floats and back, and what Python rounds otherwise.

A float of any width is a Python float while it is computed with: 32 bits and less fit exactly. Every result is rounded
once, to nearest even. Pure; must not know instructions.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction

CANONICAL_NAN = 0x7FFFFFFF
CANONICAL_NAN_16 = 0x7FFF
SOME_NAN_64 = 0xFFF8000000000000
"""PTX does not say which NaN 64-bit arithmetic makes."""


def bits_float(bits: int) -> float:
    """The float that a 32-bit pattern stands for."""
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def float_bits(value: float) -> int:
    """The 32-bit pattern of a float, rounded to nearest even."""
    if math.isnan(value):
        return CANONICAL_NAN
    try:
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000
    return bits


def bits_double(bits: int) -> float:
    """The float that a 64-bit pattern stands for."""
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def double_bits(value: float) -> int:
    """The 64-bit pattern of a float."""
    if math.isnan(value):
        return SOME_NAN_64
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


def narrowed(bits: int) -> int:
    """The 32-bit pattern of a 64-bit one. Unlike the results of arithmetic, a NaN keeps its sign and the upper part of
    its payload, as it does on an H200."""
    value = bits_double(bits)
    return bits >> 63 << 31 | 0x7FC00000 | bits >> 29 & 0x3FFFFF if math.isnan(value) else float_bits(value)


def bits_half(bits: int) -> float:
    """The float that a pattern of f16 stands for."""
    value: float = struct.unpack("<e", struct.pack("<H", bits))[0]
    return value


def half_bits(value: float) -> int:
    """The pattern of a float as f16."""
    if math.isnan(value):
        return CANONICAL_NAN_16
    try:
        bits: int = struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00
    return bits


def bits_brain(bits: int) -> float:
    """The float that a pattern of bf16 stands for."""
    return bits_float(bits << 16)


def brain_bits(value: float) -> int:
    """The pattern of a float as bf16: 32 bits that were rounded to odd on the way never lie half-way by mistake."""
    bits = float_bits(value)
    nearest = bits_float(bits)
    if nearest != value and not math.isnan(value):
        bits = bits - (abs(nearest) > abs(value)) | 1
    return bfloat_bits(bits)


def add_halves(a: int, b: int) -> int:
    """Of patterns of f16."""
    return half_bits(bits_half(a) + bits_half(b))


def add_brains(a: int, b: int) -> int:
    """Of patterns of bf16."""
    return brain_bits(bits_brain(a) + bits_brain(b))


def in_both(function: Callable[[int, int], int], a: int, b: int) -> int:
    """A function of 16 bits, of the lower and the upper halves of 32."""
    return function(a & 0xFFFF, b & 0xFFFF) | function(a >> 16, b >> 16) << 16


def bfloat_bits(bits: int) -> int:
    """The pattern of a 32-bit pattern as bf16, which is its upper half."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return CANONICAL_NAN_16
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


def fuse(a: float, b: float, c: float) -> float:
    """a * b + c of three 32-bit floats, such that rounding it to 32 bits is the only rounding.

    The product is exact in 64 bits. An inexact sum is rounded to odd, which never lies half-way between two floats.
    """
    product = a * b
    total = product + c
    if not math.isfinite(total):
        return total
    shadow = total - product
    error = (product - (total - shadow)) + (c - shadow)
    if error and struct.unpack("<Q", struct.pack("<d", total))[0] % 2 == 0:
        total = math.nextafter(total, math.copysign(math.inf, error))
    return total


def directed(kind: str, value: float, minus_zero: bool = False) -> int:
    """The 32-bit pattern of a number of 64 bits that is exact or was rounded to odd: toward zero (rz), down (rm) or up
    (rp). `minus_zero`: a zero that came of two signs, which is negative if rounded down."""
    bits = float_bits(value)
    if not value:
        return 0x80000000 if kind == "rm" and minus_zero else bits
    nearest = bits_float(bits)
    if nearest == value or math.isnan(value):
        return bits
    beyond = nearest > value if kind == "rm" else nearest < value if kind == "rp" else abs(nearest) > abs(value)
    if not beyond:
        return bits
    if not nearest:  # past zero, to the smallest of the other sign
        return 0x80000001 if kind == "rm" else 1
    grows = (kind == "rp" and nearest > 0) or (kind == "rm" and nearest < 0)
    return bits + 1 if grows else bits - 1


def directed_sum(kind: str, a: float, b: float, c: float) -> int:
    """a * b + c of 32-bit floats."""
    positive = math.copysign(1.0, a) * math.copysign(1.0, b) > 0 and math.copysign(1.0, c) > 0
    return directed(kind, fuse(a, b, c), not positive)


def fuse_double(a: float, b: float, c: float) -> float:
    """a * b + c of three 64-bit floats, rounded once."""
    product = a * b
    if not (math.isfinite(a) and math.isfinite(b)):
        return product + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:  # its sign is that of the sum of the signed zeros, or plus
        return product + c if not a or not b else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def divide(a: float, b: float) -> float:
    """Of 32-bit floats too: the quotient of two of them never lies so close to half-way that 64 bits hide it."""
    if b:
        return a / b
    if not a or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def divide_approximately(a: float, b: float) -> float:
    """Beyond 2^126 the reciprocal that it multiplies by is 0, as the PTX manual has it."""
    if 2.0**126 < abs(b) < math.inf and not math.isnan(a):
        return a * math.copysign(0.0, b)
    return divide(a, b)


def sine(a: float) -> float:
    """Hardware's approximation may differ from it by 2^-20.5, and more outside of -pi to pi; so may the cosine's."""
    return math.sin(a) if math.isfinite(a) else math.nan


def cosine(a: float) -> float:
    return math.cos(a) if math.isfinite(a) else math.nan


def tanh(a: float) -> float:
    """Hardware's approximation may differ from it by 2^-11 of the result."""
    return math.tanh(a)


def square_root(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


def power_of_two(a: float) -> float:
    """2 to the a; hardware's approximation may differ from it in the last bits."""
    return math.inf if a >= 1024 else math.exp2(a)


def logarithm(a: float) -> float:
    """To base 2; hardware's approximation may differ from it in the last bits."""
    if a > 0:
        return math.log2(a)
    return -math.inf if a == 0 else math.nan


def lesser(a: float, b: float) -> float:
    """The other one if one is NaN; -0 is less than 0."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b, key=_with_sign)


def greater(a: float, b: float) -> float:
    """The other one if one is NaN; 0 is greater than -0."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return max(a, b, key=_with_sign)


def _with_sign(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)


def saturate(a: float) -> float:
    """Into 0..1; NaN gives 0."""
    return min(a, 1.0) if a > 0 else 0.0


def to_whole(mode: str, value: float) -> float:
    """Rounded to a whole number, still a float: `mode` is rni, rzi, rmi or rpi."""
    if not math.isfinite(value):
        return value
    return math.copysign(float(_WHOLE[mode](value)), value)


def to_integer(mode: str, value: float, lowest: int, highest: int, invalid: int) -> int:
    """Rounded as `mode` says, and kept within the integer type; `invalid` is what NaN gives."""
    if math.isnan(value):
        return invalid
    if math.isinf(value):
        return highest if value > 0 else lowest
    return min(max(_WHOLE[mode](value), lowest), highest)


def integer_to_float(value: int) -> float:
    """Such that rounding it to 32 bits is the only rounding: bits beyond 32 leave no more than their trace."""
    excess = abs(value).bit_length() - 32
    if excess > 0:
        magnitude = abs(value)
        kept = magnitude >> excess << excess
        magnitude = kept | (magnitude != kept) << excess
        return float(math.copysign(magnitude, value))
    return float(value)


def flush(bits: int) -> int:
    """A 32-bit pattern with a subnormal made a zero of its sign."""
    return bits if bits & 0x7F800000 else bits & 0x80000000


_WHOLE: Mapping[str, Callable[[float], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}
