"""Bulk traffic on the same links while a protocol runs: copies by the copy engines, on every GPU at once.

Must not touch what the protocol uses.
"""

from __future__ import annotations

from pcietool.errors import UsageError
from pcietool.machines.base import HOST, CopyStream, StreamCopy, on_device
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.world import World
from pcietool.probes.verify.config import Direction

COPIES = 16
BYTES_ON_GPUS = 8 << 20
BYTES_EMULATED = 64 << 10


class Traffic(Memory):
    """`push`: each GPU copies to where its rank writes, `pull`: from there, `all`: both by turns."""

    def __init__(self, world: World, direction: Direction) -> None:
        super().__init__(world)
        self.streams: tuple[CopyStream, ...] = ()
        if direction == "none":
            return
        machine, devices = world.machine, world.devices
        if reason := machine.missing("copy_engine"):
            raise UsageError(f"--load {direction}: {reason}")
        nbytes = BYTES_ON_GPUS if machine.backend == "cuda" else BYTES_EMULATED
        near = list(self.per_device(nbytes, "load").values())
        places = [HOST if world.transport == "host" else on_device(device) for device in (*devices[1:], devices[0])]
        far = [self.alloc(place, nbytes, "load") for place in places]
        pushes = [direction == "push" or (direction == "all" and n % 2 == 1) for n in range(COPIES)]
        self.streams = tuple(
            CopyStream(
                device, tuple(StreamCopy(*((there, here) if push else (here, there)), nbytes) for push in pushes)
            )
            for device, here, there in zip(devices, near, far, strict=True)
        )
