"""How quantities are written and read: sizes in powers of 1024, rates in decimal GB/s, times in microseconds.

Text in, text out; must not import anything but the standard library, since `--help` needs it.
"""

from __future__ import annotations

import re

from pcietool.errors import UsageError

MISSING = "-"
"""What a table shows for a value that is None."""

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_COUNT = re.compile(r"(\d{1,18})\s*([KMG]?)", re.IGNORECASE | re.ASCII)
_SIZE = re.compile(r"(\d{1,18})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """Bytes of "4096", "64K", "64KiB" or "1G"; every suffix is a power of 1024. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size; write a whole number of bytes, or one with K, M or G such as 64K")
    number, suffix = match.groups()
    return int(number) << 10 * _POWERS[suffix.upper()]


def parse_count(text: str) -> int:
    """Of "4096", "64K" or "1M"; every suffix is a power of 1024, as in sizes. Raises UsageError."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a number; write a whole one, or one with K, M or G such as 64K")
    number, suffix = match.groups()
    return int(number) << 10 * _POWERS[suffix.upper()]


def size(nbytes: int) -> str:
    """1536 -> "1.5 KiB"."""
    value = float(nbytes)
    for suffix in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {suffix}"
        value /= 1024
    return f"{value:.4g} TiB"


def micros(us: float) -> str:
    """Microseconds with the digits that mean something: 0.182, 1.43, 28.6, 1,250."""
    if abs(us) >= 100:
        return f"{us:,.0f}"
    if abs(us) >= 10:
        return f"{us:.1f}"
    return f"{us:.2f}" if abs(us) >= 1 else f"{us:.3f}"


def count(number: float) -> str:
    """1234567 -> "1,234,567"."""
    return f"{number:,.0f}"


def percent(fraction: float) -> str:
    """0.4712 -> "47.1 %"; a fraction that is not zero never reads as zero."""
    if 0 < abs(fraction) < 0.001:
        return f"{fraction * 100:.1g} %"
    return f"{fraction * 100:.1f} %"


def gb_per_s(rate: float) -> str:
    """Decimal gigabytes a second: 52.3."""
    return f"{rate:.3g}"
