"""The array of pointers that a launch call takes. Must not import CUDA."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from pcietool.machines.arguments import bit_patterns
from pcietool.machines.base import Argument, Kernel


class ArgumentBlock:
    """The values of one launch, behind the Watch pointer, and the pointers to them; it must outlive the launch call.

    Raises UsageError if `args` do not fit the kernel.
    """

    def __init__(self, kernel: Kernel, watch_address: int, args: Sequence[Argument]) -> None:
        patterns = bit_patterns(kernel, watch_address, args)
        self._values = [
            (ctypes.c_uint8 * parameter.bytes)(*bits.to_bytes(parameter.bytes, "little"))
            for parameter, bits in zip(kernel.parameters, patterns, strict=True)
        ]
        self._pointers = (ctypes.c_void_p * len(patterns))(*map(ctypes.addressof, self._values))

    @property
    def address(self) -> int:
        return ctypes.addressof(self._pointers)
