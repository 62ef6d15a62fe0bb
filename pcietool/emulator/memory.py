"""Emulated memory: one address range an allocation, with every access checked.

An address is `number << 32 | offset`, so an access outside its allocation, to freed memory or to nowhere is found by
construction: the number is unknown or the offset lies beyond the end. Must not know about time or order.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from pcietool.errors import EmulationError

HOST = -1
"""The `device` of pinned host memory."""
OFFSET_MASK = 0xFFFFFFFF
Writer = tuple[int, int, int]
"""(device, block, thread). Blocks of stream n are counted from n << STREAM_SHIFT, so that none is another."""
STREAM_SHIFT = 32
LANE_SHIFT = 48
"""The same for launches that may run beside the launch before them in their stream."""
RANK_SHIFT = 24
"""In an address of shared memory: above stands 1 more than the rank of a block of the cluster, or 0 for the own one."""
CLUSTER_OFFSET = (1 << RANK_SHIFT) - 1
Place: TypeAlias = "tuple[Segment, int]"
"""An allocation, and an offset in it."""


def shown(writer: Writer) -> Writer:
    """As a person counts blocks."""
    device, block, thread = writer
    return device, block if block < 0 else block & (1 << STREAM_SHIFT) - 1, thread


def views_of(raw: bytearray) -> dict[int, memoryview]:
    """The memory as unsigned elements, by element size; an element that does not fit at the end is not there."""
    whole = memoryview(raw)
    return {
        1: whole,
        2: whole[: len(raw) // 2 * 2].cast("H"),
        4: whole[: len(raw) // 4 * 4].cast("I"),
        8: whole[: len(raw) // 8 * 8].cast("Q"),
    }


class Segment:
    """One allocation. `views[size]` is its memory as unsigned elements of that size."""

    __slots__ = ("address", "device", "name", "nbytes", "number", "raw", "views", "writers")

    def __init__(self, number: int, device: int, nbytes: int, name: str) -> None:
        self.number = number
        self.device = device
        self.nbytes = nbytes
        self.name = name
        self.address = number << 32
        self.raw = bytearray(nbytes)
        self.views = views_of(self.raw)
        self.writers: dict[int, Writer] = {}
        """Last engine-visible writer by byte offset: what a deadlock's proof quotes."""

    def array(self) -> np.ndarray:
        """The bytes as a writable array, shape (nbytes,), uint8; shares memory."""
        return np.frombuffer(self.raw, np.uint8)

    def place(self) -> str:
        return "host memory" if self.device == HOST else f"GPU {self.device}"


class Memory:
    """All allocations of one machine. `local[device]` maps segment numbers to views, by element size, for the
    memory that a device may access directly."""

    def __init__(self, devices: int) -> None:
        self.segments: dict[int, Segment] = {}
        self.freed: dict[int, str] = {}
        self.local: list[dict[int, dict[int, memoryview]]] = [
            {size: {} for size in (1, 2, 4, 8)} for _ in range(devices)
        ]
        self._next = 1

    def alloc(self, device: int, nbytes: int, name: str) -> Segment:
        segment = Segment(self._next, device, nbytes, name)
        self._next += 1
        self.segments[segment.number] = segment
        if device != HOST:
            for size, views in self.local[device].items():
                views[segment.number] = segment.views[size]
        return segment

    def add_alias(self, segment: Segment, name: str, content: bytearray) -> Segment:
        """Another address, at the same place, whose memory is `content`."""
        alias = self.alloc(segment.device, 0, name)
        alias.nbytes, alias.raw, alias.views = segment.nbytes, content, views_of(content)
        return alias

    def free(self, segment: Segment) -> None:
        del self.segments[segment.number]
        self.freed[segment.number] = segment.name
        if segment.device != HOST:
            for views in self.local[segment.device].values():
                del views[segment.number]

    def find(self, address: int, nbytes: int) -> Place:
        """The allocation and offset of an access. Raises EmulationError saying what is wrong with the address."""
        segment = self.segments.get(address >> 32)
        offset = address & OFFSET_MASK
        if segment is not None and offset + nbytes <= segment.nbytes and not offset % nbytes:
            return segment, offset
        following = self.segments.get((address >> 32) + 1)
        if following is not None and offset > OFFSET_MASK // 2:
            raise EmulationError(
                f"{nbytes} byte access {OFFSET_MASK + 1 - offset} bytes before the start of '{following.name}'"
                f" ({following.place()}): a negative index?"
            )
        if segment is None:
            name = self.freed.get(address >> 32)
            what = f"of '{name}', which was freed" if name else "that belongs to no allocation"
            raise EmulationError(f"{nbytes} byte access at address {address:#x} {what}")
        if offset % nbytes:
            raise EmulationError(
                f"misaligned {nbytes} byte access at offset {offset} of '{segment.name}' ({segment.place()});"
                f" align it to {nbytes} bytes"
            )
        raise EmulationError(
            f"{nbytes} byte access at offset {offset} of '{segment.name}' ({segment.place()}), which is only"
            f" {segment.nbytes} bytes long: {offset + nbytes - segment.nbytes} bytes beyond its end"
        )

    def string(self, address: int) -> str:
        """Up to the first zero; of what is no address, the address."""
        segment = self.segments.get(address >> 32)
        if segment is None:
            return f"{address:#x}"
        return bytes(segment.raw[address & OFFSET_MASK :]).partition(b"\0")[0].decode(errors="replace")

    def describe(self, address: int) -> str:
        """An address as a person reads it: allocation, offset, where it lives."""
        segment = self.segments.get(address >> 32)
        if segment is None:
            return f"{address:#x}"
        return f"'{segment.name}'+{address & OFFSET_MASK} on {segment.place()}"
