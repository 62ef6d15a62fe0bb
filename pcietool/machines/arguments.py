"""Kernel arguments as bit patterns, checked against the PTX parameters before anything is launched.

Shared by both tenants; must not import CUDA.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from pcietool.errors import UsageError
from pcietool.machines.base import Argument, Buffer, Kernel
from pcietool.ptx.model import TYPE_BYTES, Parameter


def bit_patterns(kernel: Kernel, watch_address: int, args: Sequence[Argument]) -> tuple[int, ...]:
    """`args`, behind the Watch pointer where the kernel takes it first, each as an unsigned integer of its parameter's
    width.

    Raises UsageError if their number, kind, size or range does not fit the kernel.
    """
    types = [_type(parameter) for parameter in kernel.parameters]
    watch = (watch_address,) if kernel.takes_watch else ()
    if len(types) != len(watch) + len(args):
        own = types[len(watch) :]
        what = "the Watch and " if watch else "no Watch, and "
        raise UsageError(f"{kernel.name} takes {what}{len(own)} arguments ({', '.join(own)}), not {len(args)}")
    given = zip(kernel.parameters, types, (*watch, *args), strict=True)
    return tuple(
        _bits(f"{kernel.name}, argument {position} (.{kind})", parameter, argument)
        for position, (parameter, kind, argument) in enumerate(given)
    )


def _type(parameter: Parameter) -> str:
    """The PTX type, with the size in bytes of a struct: b8[24]."""
    return f"{parameter.type}[{parameter.bytes}]" if _is_struct(parameter) else parameter.type


def _is_struct(parameter: Parameter) -> bool:
    """Nothing but a struct passed by value is an array of bytes."""
    return parameter.type == "b8" or parameter.bytes != TYPE_BYTES[parameter.type]


def _bits(where: str, parameter: Parameter, argument: Argument) -> int:
    ptx_type, width = parameter.type, parameter.bytes * 8
    if isinstance(argument, bytes | np.void | np.ndarray):
        return _struct_bits(where, parameter, argument if isinstance(argument, bytes) else argument.tobytes())
    if _is_struct(parameter):
        raise UsageError(
            f"{where}: takes a struct, as bytes or an element of a numpy array, not {type(argument).__name__}"
        )
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
    return int(argument) & (1 << width) - 1


def _struct_bits(where: str, parameter: Parameter, raw: bytes) -> int:
    if not _is_struct(parameter):
        raise UsageError(f"{where}: takes a number or a buffer, not a struct of {len(raw)} bytes")
    if len(raw) != parameter.bytes:
        raise UsageError(
            f"{where}: takes a struct of {parameter.bytes} bytes, not {len(raw)}; give every member, and the padding as"
            " C++ has it (numpy: dtype(..., align=True))"
        )
    return int.from_bytes(raw, "little")
