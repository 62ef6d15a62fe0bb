"""CPU threads that take part in a round, as a probe asks for them. Must not run one: that is a tenant's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

WORD_BYTES = 4
"""What they write."""
REPORT = np.dtype([(name, "<u4") for name in ("ended", "made", "undone")])
"""Report of kernels/undone.cu: what who stores leaves, `ended` at last."""


class Words(Protocol):
    """A buffer in host memory."""

    @property
    def address(self) -> int: ...

    def check(self, offset: int, nbytes: int) -> None: ...


@dataclass(frozen=True)
class Stores:
    """1, 2, ... up to `most`, by a word's only writer, who looks up to `watched_ns` after each whether it is still
    there. The REPORT lies at byte `report` of the word's buffer. Half of the round's deadline ends them, too."""

    most: int
    watched_ns: float
    report: int


@dataclass(frozen=True)
class HostAgent:
    """What a CPU thread does to the 32-bit word at `offset`: `adds` atomic increments, or `stores`."""

    buffer: Words
    offset: int
    adds: int = 0
    stores: Stores | None = None

    def check(self) -> None:
        self.buffer.check(self.offset, WORD_BYTES)
        if self.stores is not None:
            self.buffer.check(self.stores.report, REPORT.itemsize)
