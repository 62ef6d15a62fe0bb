import ctypes

import numpy as np
import pytest

from pcietool.errors import UsageError
from pcietool.machines.base import HOST, Argument, Kernel, Program
from pcietool.machines.cuda.arguments import ArgumentBlock
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.ptx.model import TYPE_BYTES, Parameter

WATCH_ADDRESS = 0x7000_0000_0000
BUFFER = EmulatedMachine.open().alloc(HOST, 64, "any")


class FakeProgram(Program):
    source = "fake.cu"

    def kernel(self, name: str) -> Kernel:
        raise NotImplementedError


def kernel(*types: str) -> Kernel:
    """`types` as messages have them; a struct is b8[bytes]."""
    split = [kind.removesuffix("]").partition("[") for kind in ("u64", *types)]
    return Kernel(
        "k", tuple(Parameter("p", kind, 0, int(size or TYPE_BYTES[kind])) for kind, _, size in split), FakeProgram()
    )


def values(block: ArgumentBlock, *sizes: int) -> list[bytes]:
    """What a launch finds by following the array of pointers."""
    pointers = (ctypes.c_void_p * len(sizes)).from_address(block.address)
    return [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)]


def test_the_watch_comes_first_and_values_follow_the_pointers() -> None:
    block = ArgumentBlock(kernel("u32", "u64", "f32"), WATCH_ADDRESS, (7, BUFFER, 0.5))
    assert values(block, 8, 4, 8, 4) == [
        WATCH_ADDRESS.to_bytes(8, "little"),
        (7).to_bytes(4, "little"),
        BUFFER.address.to_bytes(8, "little"),
        bytes(ctypes.c_float(0.5)),
    ]


@pytest.mark.parametrize(
    ("ptx_type", "value", "raw"),
    [
        ("u32", 2**32 - 1, b"\xff" * 4),
        ("u32", -1, b"\xff" * 4),  # NVRTC declares an int as .u32
        ("s32", -(2**31), b"\0\0\0\x80"),
        ("b16", 0xABCD, b"\xcd\xab"),
        ("u8", True, b"\1"),
        ("u64", 2**64 - 1, b"\xff" * 8),
        ("f64", 1, bytes(ctypes.c_double(1))),
        ("b8[3]", b"abc", b"abc"),
        ("b8[8]", np.array([(1, 2)], "u4, u4")[0], b"\1\0\0\0\2\0\0\0"),
        ("b8[8]", np.array([1, 2], np.uint32), b"\1\0\0\0\2\0\0\0"),
        ("b8[1]", b"\7", b"\7"),
    ],
)
def test_values_at_the_edges(ptx_type: str, value: Argument, raw: bytes) -> None:
    block = ArgumentBlock(kernel(ptx_type), WATCH_ADDRESS, (value,))
    assert values(block, 8, len(raw))[1] == raw


@pytest.mark.parametrize(
    ("ptx_type", "value"),
    [("u32", 2**32), ("u32", -(2**31) - 1), ("s32", 2**31), ("u8", 256), ("u64", 2**64), ("s64", 2**63)],
)
def test_values_beyond_the_edges(ptx_type: str, value: int) -> None:
    with pytest.raises(UsageError, match=rf"k, argument 1 \(\.{ptx_type}\): {value} is not in"):
        ArgumentBlock(kernel(ptx_type), WATCH_ADDRESS, (value,))


@pytest.mark.parametrize(
    ("ptx_type", "value"),
    [
        ("u32", 1.5),
        ("u32", BUFFER),
        ("f32", BUFFER),
        ("b8[16]", 1),
        ("b8[16]", BUFFER),
        ("b8[1]", 1),
        ("pred", 1),
        ("u32", b"1234"),
        ("u64", np.zeros(1, "u8")),
        ("f32", np.zeros(1, "u4, u4")[0]),
    ],
)
def test_kinds_that_do_not_fit(ptx_type: str, value: Argument) -> None:
    with pytest.raises(UsageError, match="argument 1"):
        ArgumentBlock(kernel(ptx_type), WATCH_ADDRESS, (value,))


@pytest.mark.parametrize("argument", [b"1234567", b"123456789", np.zeros(2, "u8"), np.zeros(1, "u1, u4")[0]])
def test_structs_of_another_size(argument: Argument) -> None:
    with pytest.raises(UsageError, match=r"k, argument 1 \(\.b8\[8\]\): takes a struct of 8 bytes, not \d+; .*padding"):
        ArgumentBlock(kernel("b8[8]"), WATCH_ADDRESS, (argument,))


@pytest.mark.parametrize("args", [(), (1, 2)])
def test_the_number_of_arguments(args: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=rf"1 arguments \(u32\), not {len(args)}"):
        ArgumentBlock(kernel("u32"), WATCH_ADDRESS, args)
