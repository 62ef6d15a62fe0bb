"""Where in a GPU's memory slots are polled fastest: the L2 has near and far parts, and one line can be a third dearer.

Measured on the spot by the block that will poll, since no driver says where a line lies. Must not know what the slots
are for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcietool.machines.base import Buffer, Launch, Machine, Part, on_device
from pcietool.probes.common.hangs import finished

STEP_BYTES = 4096
CANDIDATES = 64
LOOKS = 8


@dataclass(frozen=True)
class Placed:
    """Memory at the best of CANDIDATES places, and what a poll takes there and at the worst of them, in SM cycles."""

    memory: Buffer
    nearest_cycles: float
    farthest_cycles: float


def near(machine: Machine, device: int, nbytes: int, polled_offset: int, name: str, deadline_s: float) -> Placed:
    """`nbytes` of zeroed memory on a device, at most STEP_BYTES, of which the word at `polled_offset` is polled. Raises
    Hung."""
    whole = machine.alloc(on_device(device), (CANDIDATES - 1) * STEP_BYTES + nbytes, name)
    times = machine.alloc(on_device(device), 4 * CANDIDATES, "poll times")
    kernel = machine.load("placement.cu").kernel("poll_cycles")
    polled = Part(whole, polled_offset, whole.nbytes - polled_offset)
    arguments = (polled, STEP_BYTES // 4, CANDIDATES, LOOKS, times)
    launch = Launch(device, kernel, grid=1, block=32, args=arguments, spins=False)
    finished(machine.run([launch], deadline_s), f"the search for a near place for the {name}")
    cycles = times.read(np.uint32) / LOOKS
    times.free()
    best = int(cycles.argmin())
    return Placed(Part(whole, best * STEP_BYTES, nbytes), float(cycles.min()), float(cycles.max()))
