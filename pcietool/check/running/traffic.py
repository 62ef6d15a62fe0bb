"""Copies that keep the links busy while a scenario runs on GPUs: there a flag may overtake its data.

Must not touch what the scenario uses.
"""

from __future__ import annotations

from typing import Self

from pcietool.machines.base import HOST, Buffer, CopyStream, Machine, StreamCopy, on_device

COPIES, BYTES = 8, 4 << 20
"""Of each GPU, in both directions by turns: some milliseconds on PCIe, longer than most rounds take."""


class Traffic:
    """Between each GPU and the next one, or the host where there is none that it reaches; none without copy engines."""

    def __init__(self, machine: Machine) -> None:
        self.streams: tuple[CopyStream, ...] = ()
        self._buffers: list[Buffer] = []
        if machine.missing("copy_engine") is None:
            self.streams = tuple(self._of(machine, device.index) for device in machine.devices)

    def _of(self, machine: Machine, device: int) -> CopyStream:
        following = (device + 1) % len(machine.devices)
        reaches = following != device and machine.link(device, following).access
        places = on_device(device), on_device(following) if reaches else HOST
        here, there = (machine.alloc(place, BYTES, "traffic") for place in places)
        self._buffers += here, there
        both = StreamCopy(there, here, BYTES), StreamCopy(here, there, BYTES)
        return CopyStream(device, both * (COPIES // 2))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for buffer in self._buffers:
            buffer.free()
