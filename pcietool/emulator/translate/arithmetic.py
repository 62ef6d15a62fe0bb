"""Integer functions that generated code calls where Python has no operator. Pure; `floats` has those of floats."""

from __future__ import annotations


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
