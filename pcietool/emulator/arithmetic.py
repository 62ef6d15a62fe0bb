"""Functions that generated code calls for operations Python has no operator for. Pure; integers in, integers out."""

from __future__ import annotations

import math
import struct

CANONICAL_NAN = 0x7FFFFFFF


def divide_signed(a: int, b: int) -> int:
    """Towards zero, as the hardware divides; division by zero gives all ones."""
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder_signed(a: int, b: int) -> int:
    """With the sign of the dividend."""
    return a if b == 0 else a - b * divide_signed(a, b)


def extract_bits(a: int, position: int, length: int, width: int) -> int:
    position, length = position & 255, length & 255
    return (a >> position) & ((1 << min(length, width)) - 1)


def insert_bits(a: int, b: int, position: int, length: int, width: int) -> int:
    position, length = position & 255, length & 255
    if position >= width:
        return b
    mask = ((1 << min(length, width - position)) - 1) << position
    return (b & ~mask) | (a << position & mask)


def permute_bytes(a: int, b: int, selector: int) -> int:
    """prmt in its default mode: four bytes of b:a, each optionally replaced by its sign."""
    source = b << 32 | a
    result = 0
    for position in range(4):
        choice = selector >> 4 * position & 15
        byte = source >> 8 * (choice & 7) & 255
        if choice & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * position
    return result


def reverse_bits(a: int, width: int) -> int:
    return int(format(a, f"0{width}b")[::-1], 2)


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
