"""Arithmetic of 16 bits against numpy (f16), and against exact fractions (bf16)."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pcietool.emulator.translate import floats

PATTERNS = st.integers(0, 0xFFFF)
OPERATIONS = ("add", "subtract", "multiply")
EXACT = {"add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b}


@given(PATTERNS, PATTERNS, st.sampled_from(OPERATIONS))
def test_halves_are_those_of_numpy(a: int, b: int, operation: str) -> None:
    x, y = np.array([a, b], np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        wanted = getattr(np, operation)(x, y)
    seen = floats.half_bits(EXACT[operation](floats.bits_half(a), floats.bits_half(b)))
    assert seen == (0x7FFF if np.isnan(wanted) else int(wanted.view(np.uint16)))


def nearest_brain(value: Fraction) -> int:
    """The pattern of bf16 nearest to a number, found by halving; ties to even."""
    low, high = 0, 0x7F80
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(floats.bits_brain(middle)) <= abs(value) else (low, middle)
    above = Fraction(2) ** 128 if high == 0x7F80 else Fraction(floats.bits_brain(high))
    down, up = abs(value) - Fraction(floats.bits_brain(low)), above - abs(value)
    return (high if up < down or (up == down and low & 1) else low) | (value < 0) << 15


@given(PATTERNS, PATTERNS, PATTERNS)
@example(0x40E0, 0x4214, 0x8001)
@example(0x4110, 0x41E8, 0x0001)
@example(0x7F7F, 0x3F80, 0x7B00)
def test_a_fused_sum_of_brain_floats_is_rounded_once(a: int, b: int, c: int) -> None:
    x, y, z = map(floats.bits_brain, (a, b, c))
    if not all(map(math.isfinite, (x, y, z))):
        return
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    seen = floats.brain_bits(floats.fuse(x, y, z))
    assert seen == nearest_brain(exact) or (not exact and not seen & 0x7FFF)
