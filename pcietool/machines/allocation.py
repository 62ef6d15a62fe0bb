"""Memory as a tenant has it, behind the Buffer that everybody else uses.

Must check nothing: bounds and the end of its life are the Buffer's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Allocation(ABC):
    """Zero-initialised memory as a tenant has it. Only its Buffer calls it, within its bounds and before `free`."""

    address: int
    is_freed: bool = False

    @abstractmethod
    def read_into(self, values: np.ndarray, offset: int) -> None:
        """Copies from byte `offset` on; `values` is contiguous, uint8, and has at least one element."""

    @abstractmethod
    def write(self, values: np.ndarray, offset: int) -> None:
        """The other way."""

    @abstractmethod
    def fill(self, byte: int, offset: int, nbytes: int) -> None: ...

    @abstractmethod
    def free(self) -> None: ...
