"""The switches of verify_switches.cuh by name: how a kernel of `verify` can be compiled to break one link.

Must hold names and values only; which of them are mutants, and what must find those, is the probe's business.
"""

from __future__ import annotations

from collections.abc import Mapping

CHOICES: Mapping[str, tuple[str, ...]] = {
    "SIGNAL": (
        "RELEASE_SYS",
        "FENCE_SYS_RELEASE_SYS",
        "FENCE_SYS_RELAXED_SYS",
        "RELAXED_SYS",
        "RELEASE_GPU",
        "FENCE_GPU_RELAXED_SYS",
        "WEAK",
        "FENCE_SYS_WEAK",
        "WITH_DATA",
    ),
    "ELECTION": ("ACQ_REL", "FENCE_GPU_RELAXED", "RELEASE", "ACQUIRE", "RELAXED"),
    "WAIT": ("ACQUIRE_SYS", "RELAXED_SYS", "RELAXED_SYS_FENCE_GPU", "ACQUIRE_GPU"),
    "COUNT": ("RELEASE_GPU", "RELAXED_GPU"),
    "SEQUENCE": ("GROWS", "CLEARED_BY_WAITER", "RESET_BETWEEN_ROUNDS"),
    "ARRIVED_BY": ("SLOTS", "REMOTE_COUNTER"),
    "COMPARE": ("DIFFERENCE", "PLAIN", "UNSIGNED"),
    "BLOCK_SYNC": ("ALL", "NOT_BEFORE_COUNT", "NOT_AFTER_WAIT"),
    "BULK_WAIT": ("WRITTEN", "READ"),
}
"""Values in order, from 0; the first is the protocol as it is meant."""
NUMBERS = (
    "BULK",
    "NO_PROXY_FENCE",
    "ONE_SLOT_FOR_ALL",
    "PUBLISH_FIRST",
    "CHUNK_BEFORE",
    "NO_ACK_WAIT",
    "OWN_SLOT",
    "EXPECTED_EXTRA",
    "SEED_EXTRA",
)
"""Switches that are numbers, usually 0."""


def switched(**choices: str | int) -> dict[str, int]:
    """What to define for these choices, such as SIGNAL="RELAXED_SYS", OWN_SLOT=1. Raises KeyError or ValueError for
    what does not exist."""
    defines = {}
    for name, choice in choices.items():
        if isinstance(choice, str):
            defines[name] = CHOICES[name].index(choice)
        elif name in NUMBERS:
            defines[name] = choice
        else:
            raise KeyError(name)
    return defines
