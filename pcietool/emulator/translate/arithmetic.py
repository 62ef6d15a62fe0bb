"""Integer functions that generated code calls where Python has no operator. Pure; `floats` has those of floats."""

from __future__ import annotations

from collections.abc import Mapping

PERMUTATIONS: Mapping[str, tuple[int, int, int, int]] = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""Modes of prmt by the lowest two bits of the selector: which byte each byte of the result is, the highest first."""


def divide_signed(a: int, b: int) -> int:
    """Towards zero, as the hardware divides; division by zero gives all ones."""
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder_signed(a: int, b: int) -> int:
    """With the sign of the dividend; division by zero gives all ones."""
    return -1 if b == 0 else a - b * divide_signed(a, b)


def extract_bits(a: int, position: int, length: int, width: int) -> int:
    position, length = position & 255, length & 255
    return (a >> position) & ((1 << min(length, width)) - 1)


def extract_signed_bits(a: int, position: int, length: int, width: int) -> int:
    """Of a signed number; the field's highest bit, or the number's if the field reaches beyond it, is its sign."""
    position, length = min(position & 255, width - 1), length & 255
    if not length:
        return 0
    length = min(length, width)
    field = a >> position & (1 << length) - 1
    return field - (field >> length - 1 << length)


def insert_bits(a: int, b: int, position: int, length: int, width: int) -> int:
    position, length = position & 255, length & 255
    mask = ((1 << min(length, max(width - position, 0))) - 1) << position
    return (b & ~mask) | (a << position & mask)


def dot_product(a: int, b: int, c: int, kind_a: str, kind_b: str, width: int) -> int:
    """c and the sum of the products of the numbers in a, each of `width` bits, and the bytes of b, lowest first.
    `kind_a` and `kind_b` are "u32" or "s32": are they signed?"""
    for n in range(32 // width):
        x, y = a >> n * width & (1 << width) - 1, b >> n * 8 & 255
        c += (x - (x >> width - 1 << width) * (kind_a == "s32")) * (y - (y >> 7 << 8) * (kind_b == "s32"))
    return c & 0xFFFFFFFF


def permutation(mode: str, selector: int) -> int:
    """The selector of prmt in its default mode that does what `selector` does in this one."""
    return PERMUTATIONS[mode][selector & 3]


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


def find_top_bit(a: int) -> int:
    """Position of the highest 1; all ones if there is none."""
    return a.bit_length() - 1 if a else 0xFFFFFFFF


def look_up_bits(a: int, b: int, c: int, table: int) -> int:
    """lop3: each bit of the result is bit 4a + 2b + c of the table, with the bits of a, b and c at its place."""
    result = 0
    for index in range(8):
        if table >> index & 1:
            result |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
    return result & 0xFFFFFFFF
