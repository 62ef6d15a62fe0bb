"""A buffer's memory as the emulator has it: one segment.

Must not run anything.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from pcietool.emulator.memory import Memory
from pcietool.machines.allocation import Allocation


class EmulatedAllocation(Allocation):
    """`home` is the fabric's GPU, or HOST; `used` counts the bytes of each."""

    def __init__(self, memory: Memory, used: Counter[int], home: int, nbytes: int, name: str) -> None:
        self._memory = memory
        self._used = used
        used[home] += nbytes
        self._segment = memory.alloc(home, nbytes, name)
        self.address = self._segment.address

    def read_into(self, values: np.ndarray, offset: int) -> None:
        values[:] = self._segment.array()[offset : offset + values.size]

    def write(self, values: np.ndarray, offset: int) -> None:
        self._segment.array()[offset : offset + values.size] = values

    def fill(self, byte: int, offset: int, nbytes: int) -> None:
        self._segment.array()[offset : offset + nbytes] = byte

    def free(self) -> None:
        self._used[self._segment.device] -= self._segment.nbytes
        self._memory.free(self._segment)
        del self._segment
