"""Bulk traffic on the same links while a protocol runs: copies by the copy engines, on every GPU at once.

Must not touch what the protocol uses.
"""

from __future__ import annotations

from pcietool.errors import UsageError
from pcietool.machines.base import HOST, Buffer, CopyStream, StreamCopy, on_device
from pcietool.probes.common.world import World
from pcietool.probes.verify.config import Direction

COPIES = 16
BYTES_ON_GPUS = 8 << 20
BYTES_EMULATED = 64 << 10


class Traffic:
    """`push`: each GPU copies to where its rank writes, `pull`: from there, `all`: both by turns."""

    def __init__(self, world: World, direction: Direction) -> None:
        self._buffers: list[Buffer] = []
        self._streams: tuple[CopyStream, ...] = ()
        if direction == "none":
            return
        machine = world.machine
        if reason := machine.missing("copy_engine"):
            raise UsageError(f"--load {direction}: {reason}")
        nbytes = BYTES_ON_GPUS if machine.backend == "cuda" else BYTES_EMULATED
        devices = sorted(set(world.device_of))
        near = {device: machine.alloc(on_device(device), nbytes, "load") for device in devices}
        far = {
            device: machine.alloc(
                HOST if world.transport == "host" else on_device(devices[(n + 1) % len(devices)]), nbytes, "load"
            )
            for n, device in enumerate(devices)
        }
        self._buffers = [*near.values(), *far.values()]
        self._streams = tuple(
            CopyStream(
                device,
                tuple(
                    StreamCopy(far[device], near[device], nbytes)
                    if direction == "push" or (direction == "all" and n % 2)
                    else StreamCopy(near[device], far[device], nbytes)
                    for n in range(COPIES)
                ),
            )
            for device in devices
        )

    def streams(self) -> tuple[CopyStream, ...]:
        return self._streams

    def free(self) -> None:
        for buffer in self._buffers:
            buffer.free()
