"""The ranks of one run and their slots, for each transport: what every probe works with.

Must not know what a kernel does with its slots.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from pcietool.contract.outcomes import Outcome
from pcietool.errors import UsageError
from pcietool.machines.base import (
    HOST,
    Argument,
    Buffer,
    CopyStream,
    Kernel,
    Launch,
    Machine,
    Part,
    Place,
    on_device,
)
from pcietool.machines.host_agents import HostAgent
from pcietool.probes.common.hangs import finished
from pcietool.probes.common.options import TRANSPORTS, Transport
from pcietool.probes.common.placement import STEP_BYTES, near
from pcietool.protocol.slots import GUARD_BYTE, GUARD_BYTES, SlotMap

SELF_RANKS = 2
DEADLINE_S = 2.0
NOT_PLACED = f"slots are placed in GPU memory only, and where a rank's are no more than {STEP_BYTES} bytes"


@dataclass(frozen=True)
class Waived:
    """A transport that cannot run here, and why."""

    transport: Transport
    reason: str


def runnable(
    machine: Machine, wanted: str | None, alone: Container[Transport] = ("self",)
) -> Iterator[Transport | Waived]:
    """The transports to run, in order. One that is asked for by name and cannot run is a UsageError, before the first
    runs; any other is waived. Two GPUs or more run peer and host, one GPU runs what it can do `alone`; self besides
    others only if it is asked for."""
    named = [transport for transport in TRANSPORTS if wanted and transport in wanted.split(",")]
    for transport in named:
        reason = why_not(machine, transport, alone)
        if reason:
            raise UsageError(f"--transport {transport}: {reason}")
    if named:
        yield from named
        return
    for transport in TRANSPORTS:
        if transport == "self" and wanted is None and len(machine.devices) > 1:
            continue
        reason = why_not(machine, transport, alone)
        yield Waived(transport, reason) if reason else transport


def why_not(machine: Machine, transport: Transport, alone: Container[Transport] = ("self",)) -> str | None:
    """Why this machine cannot run a transport, or None. One GPU suffices for those in `alone`."""
    if len(machine.devices) < 2 and transport not in alone:
        return "needs two GPUs and there is one; --transport self runs both roles on one GPU"
    if transport == "peer" and (reason := no_access(machine, len(machine.devices))):
        return f"{reason}; --transport host works without"
    return None


def no_access(machine: Machine, gpus: int) -> str | None:
    """Why one of the first `gpus` GPUs cannot access another one's memory, or None."""
    for src, dst in permutations(range(gpus), 2):
        link = machine.link(src, dst)
        if not link.access:
            return f"GPU {src} cannot access memory of GPU {dst}: {link.reason}"
    return None


def changed_guards(buffer: Buffer, name: str) -> Iterator[str]:
    """Where something wrote beside what lies between the guards of a buffer: one line a side."""
    content = buffer.read(np.uint8)
    for side, guard in (("before", content[:GUARD_BYTES]), ("behind", content[-GUARD_BYTES:])):
        changed = np.flatnonzero(guard != GUARD_BYTE)
        if changed.size:
            yield f"{changed.size} guard bytes {side} the {name} were overwritten"


@dataclass(frozen=True)
class World:
    """`device_of[rank]`; ranks that share a device share one grid.

    `slots[rank]` holds that rank's slot array behind its guard; `tables[device]` is the device's copy of all slot
    addresses. `sequences[device][rank]` is how far the ranks on that device have counted: it belongs to the slots,
    because a kernel that counted anew on used slots would take old signals for its own.
    """

    machine: Machine
    transport: Transport
    device_of: tuple[int, ...]
    slot_map: SlotMap
    slots: tuple[Buffer, ...]
    tables: dict[int, Buffer]
    sequences: dict[int, Buffer]
    poll_cycles: dict[str, float] | None = None
    """What a poll takes where the slots lie, "nearest", and at the worst place that was tried, "farthest": SM cycles,
    worst rank. None where slots are not placed: NOT_PLACED."""
    deadline_s: float = DEADLINE_S
    """Of every round."""

    @classmethod
    def build(
        cls, machine: Machine, transport: Transport, world: int, rows: int, deadline_s: float = DEADLINE_S
    ) -> World:
        """`world` ranks with `rows` rows of slots each (one column a rank). Raises Hung."""
        device_of = (0,) * world if transport == "self" else tuple(range(world))
        slot_map = SlotMap(rows, world)
        slots: list[Buffer] = []
        placements = []
        for rank, device in enumerate(device_of):
            name, nbytes = f"slots of rank {rank}", slot_map.padded_nbytes
            if transport == "host" or nbytes > STEP_BYTES:
                slots.append(machine.alloc(HOST if transport == "host" else on_device(device), nbytes, name))
                continue
            placed = near(machine, device, nbytes, GUARD_BYTES + slot_map.offset(rows - 1, 0), name, deadline_s)
            slots.append(placed.memory)
            placements.append(placed)
        devices = sorted(set(device_of))
        tables = {device: machine.alloc(on_device(device), 8 * world, "slot table") for device in devices}
        sequences = {device: machine.alloc(on_device(device), 4 * world, "sequence numbers") for device in devices}
        poll_cycles = {
            "nearest": max(placed.nearest_cycles for placed in placements),
            "farthest": max(placed.farthest_cycles for placed in placements),
        } if placements else None  # fmt: skip
        built = cls(machine, transport, device_of, slot_map, tuple(slots), tables, sequences, poll_cycles, deadline_s)
        built.reset()
        for table in tables.values():
            table.write(built.slot_addresses)
        return built

    @property
    def size(self) -> int:
        return len(self.device_of)

    @property
    def devices(self) -> list[int]:
        """Those that carry a rank."""
        return sorted(set(self.device_of))

    @property
    def slot_addresses(self) -> np.ndarray:
        """[ranks] of uint64: where each rank's first slot lies, behind its guard."""
        return np.array([slots.address + GUARD_BYTES for slots in self.slots], np.uint64)

    def reset(self, value: int = 0) -> None:
        """Gives all slots a value of 32 bits, renews their guards, and starts all sequences anew."""
        for slots in self.slots:
            slots.fill(GUARD_BYTE)
            slots.write(np.full(self.slot_map.nbytes // 4, value, np.uint32), GUARD_BYTES)
        for sequence in self.sequences.values():
            sequence.fill(0)

    def slot(self, rank: int, row: int, col: int) -> Buffer:
        """Of `rank`, written by rank `col`."""
        return Part(self.slots[rank], GUARD_BYTES + self.slot_map.offset(row, col), self.slot_map.stride)

    def slot_values(self, rank: int) -> np.ndarray:
        """[rows, cols] of uint32: what a rank's slots hold."""
        raw = self.slots[rank].read(np.uint32, self.slot_map.nbytes // 4, GUARD_BYTES)
        values: np.ndarray = raw.reshape(self.slot_map.rows, self.slot_map.cols, -1)[:, :, 0]
        return values

    def damaged_guards(self) -> list[str]:
        """Where something wrote beside a slot array: one line a rank and side."""
        return [
            line for rank, slots in enumerate(self.slots) for line in changed_guards(slots, f"slots of rank {rank}")
        ]

    def run(
        self,
        launches: Sequence[Launch],
        during: str,
        host_agents: Sequence[HostAgent] = (),
        copy_streams: Sequence[CopyStream] = (),
    ) -> Outcome:
        """One round. Raises Hung, which says what it happened `during`."""
        return finished(self.machine.run(launches, self.deadline_s, host_agents, copy_streams=copy_streams), during)

    def replayer(self, launches: Sequence[Launch], nodes: int, *, graph: bool) -> Callable[[str], float]:
        """Runs `nodes` operations back to back, or as a graph, at each call, which says what it happens `during`. Gives
        us of one operation, on the GPU where all took shortest: the others also waited for the last one to start."""
        recorded = self.machine.graph(launches) if graph else None

        def replay_us(during: str) -> float:
            outcome = finished(recorded.run(self.deadline_s), during) if recorded else self.run(launches, during)
            return min(outcome.elapsed_ns.values()) / nodes / 1e3

        return replay_us

    def launches(
        self,
        kernel: Kernel,
        blocks: int,
        threads: int,
        arguments: Callable[[int, int], tuple[Argument, ...]],
        **options: Any,
    ) -> list[Launch]:
        """One grid a device, `blocks` blocks a rank; `arguments(device, its first rank)`, and `options` of Launch."""
        return [
            Launch(device, kernel, ranks * blocks, threads, arguments(device, first_rank), **options)
            for device, first_rank, ranks in self.grids()
        ]

    def grids(self) -> list[tuple[int, int, int]]:
        """(device, first rank, ranks) of each grid that a round consists of."""
        if self.transport == "self":
            return [(0, 0, self.size)]
        return [(device, rank, 1) for rank, device in enumerate(self.device_of)]

    def place_of_slots(self, rank: int) -> Place:
        return HOST if self.transport == "host" else on_device(self.device_of[rank])

    def free(self) -> None:
        for buffer in (*self.slots, *self.tables.values(), *self.sequences.values()):
            buffer.free()
