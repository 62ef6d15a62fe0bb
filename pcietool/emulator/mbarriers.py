"""The 8 bytes of an mbarrier in shared memory: what they hold, and where they may be.

Opaque to kernels, which may not touch them but by mbarrier instructions. Must not know who waits.
"""

from __future__ import annotations

from pcietool.errors import EmulationError

BYTES = 8
FIELD = 20
"""Bits that count arrivals."""
MOST_ARRIVALS = (1 << FIELD) - 1


def word(phase: int, count: int, pending: int, transfer: int = 0) -> int:
    """`pending` of `count` arrivals and `transfer` bytes are missing in this phase. Never 0."""
    return phase << 3 * FIELD + 1 | count << 2 * FIELD + 1 | pending << FIELD + 1 | transfer & (2 << FIELD) - 1


def phase_of(content: int) -> int:
    return content >> 3 * FIELD + 1


def arrived(content: int, times: int) -> int:
    """After so many more arrivals. Raises EmulationError for what is no mbarrier."""
    phase, count = phase_of(content), content >> 2 * FIELD + 1 & MOST_ARRIVALS
    pending = content >> FIELD + 1 & MOST_ARRIVALS
    if not count or not pending:
        raise EmulationError("an mbarrier was overwritten; give it 8 bytes of its own, or invalidate it before")
    for _ in range(times):
        pending -= 1
        if not pending:
            phase, pending = phase ^ 1, count
    return word(phase, count, pending)


def check(address: int, shared_bytes: int, count: int = 1) -> str:
    """Where an mbarrier is, for messages. Raises EmulationError if it cannot be there, or take so many arrivals."""
    where = f"mbarrier at offset {address} of shared memory"
    if address % BYTES:
        raise EmulationError(f"{where}: misaligned; align it to {BYTES} bytes")
    if address + BYTES > shared_bytes:
        raise EmulationError(f"{where}, which has only {shared_bytes} bytes")
    if not 1 <= count <= MOST_ARRIVALS:
        raise EmulationError(f"{where}: initialised for {count} arrivals; it takes 1 to {MOST_ARRIVALS}")
    return where


def never_initialised(address: int) -> EmulationError:
    return EmulationError(f"mbarrier at offset {address} of shared memory was never initialised")
