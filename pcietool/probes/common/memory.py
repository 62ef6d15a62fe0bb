"""Memory beside the slots of a world, freed at once. Must not know what lies in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcietool.machines.base import Buffer, Place, on_device
from pcietool.probes.common.world import World


class Memory:
    """Buffers for the ranks of one world. What is allocated through it is freed with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._buffers: list[Buffer] = []

    def alloc(self, place: Place, nbytes: int, name: str) -> Buffer:
        self._buffers.append(self.world.machine.alloc(place, nbytes, name))
        return self._buffers[-1]

    def local(self, rank: int, nbytes: int, name: str) -> Buffer:
        """On the rank's own GPU."""
        return self.alloc(on_device(self.world.device_of[rank]), nbytes, f"{name} of rank {rank}")

    def reachable(self, rank: int, nbytes: int, name: str) -> Buffer:
        """Where the other ranks write to this one: where its slots are."""
        return self.alloc(self.world.place_of_slots(rank), nbytes, f"{name} of rank {rank}")

    def per_device(self, nbytes: int, name: str) -> dict[int, Buffer]:
        """On each device that carries a rank."""
        return {device: self.alloc(on_device(device), nbytes, name) for device in self.world.devices}

    def on_every_device(self, values: np.ndarray, name: str) -> dict[int, Buffer]:
        """The same table on each."""
        tables = self.per_device(values.nbytes, name)
        for table in tables.values():
            table.write(values)
        return tables

    def structs(self, layout: np.dtype[Any], name: str, **members: Any) -> dict[int, Buffer]:
        """One struct a rank, the same table on every device: of each member one value for all ranks, or a list, or a
        mapping by rank, of values or buffers."""
        table = np.zeros(self.world.size, layout)
        for member, values in members.items():
            if not isinstance(values, list | dict):
                table[member] = values
                continue
            for rank, value in values.items() if isinstance(values, dict) else enumerate(values):
                table[member][rank] = value.address if isinstance(value, Buffer) else value
        return self.on_every_device(table, name)

    def free(self) -> None:
        for buffer in self._buffers:
            buffer.free()
        self._buffers.clear()
