"""Kernel arguments as bit patterns, checked against the PTX parameter types before anything is launched.

Shared by both tenants; must not import CUDA.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pcietool.errors import UsageError
from pcietool.machines.base import Argument, Buffer, Kernel
from pcietool.ptx.model import TYPE_BYTES


def bit_patterns(kernel: Kernel, watch_address: int, args: Sequence[Argument]) -> tuple[int, ...]:
    """`args` behind the Watch pointer, which every kernel takes first, each as an unsigned integer of its
    parameter's width.

    Raises UsageError if their number, kind or range does not fit the kernel.
    """
    types = kernel.parameters
    if len(types) != len(args) + 1:
        raise UsageError(
            f"{kernel.name} takes the Watch and {len(types) - 1} arguments ({', '.join(types[1:])}), not {len(args)}"
        )
    return tuple(
        _bits(f"{kernel.name}, argument {position} (.{types[position]})", types[position], argument)
        for position, argument in enumerate((watch_address, *args))
    )


def _bits(where: str, ptx_type: str, argument: Argument) -> int:
    width = TYPE_BYTES.get(ptx_type, 16) * 8  # a struct passed by value is no PTX type
    if ptx_type in ("f32", "f64"):
        if isinstance(argument, Buffer):
            raise UsageError(f"{where}: takes a number, not a buffer")
        return int.from_bytes(struct.pack("<f" if width == 32 else "<d", argument), "little")
    if ptx_type[0] not in "usb" or width > 64:
        raise UsageError(f"{where}: cannot pass arguments of this type")
    if isinstance(argument, Buffer):
        if width != 64:
            raise UsageError(f"{where}: a buffer needs a 64-bit parameter")
        return argument.address
    if isinstance(argument, float):
        raise UsageError(f"{where}: takes an integer, not {argument}")
    # NVRTC declares an int as .u32 too, so only .s32 says what is really meant.
    low, high = -(1 << width - 1), (1 << (width - 1 if ptx_type[0] == "s" else width)) - 1
    if not low <= argument <= high:
        raise UsageError(f"{where}: {argument} is not in {low}..{high}")
    return argument & (1 << width) - 1
