"""The ping-pong kernel on one world: which roles its blocks get, and their launches.

Must not decide what is compared (`trials`), or what is right (`checks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pcietool.machines.base import Buffer, Kernel, Launch, on_device
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.world import World
from pcietool.probes.signal.config import WORD, Load, Poll, Wait
from pcietool.probes.signal.roles import FAULT, RESULT, ROLE, VECTOR, Kind, LaunchRecord, Pair, Role

WAITS: dict[Wait, int] = {"acquire": 0, "relaxed-fence": 1, "acquire-polls": 2}

MIN_PAYLOAD = 128
"""Payloads of a world's pairs lie at least so far apart."""


def slot_rows(world: int) -> int:
    """Row 1 there, row 2 back; then the same two, in the writer's own array, for each rank that polls from afar. Row 0
    stays free: records use it for words of one GPU."""
    return 3 + 2 * world


@dataclass(frozen=True)
class Variant:
    """One compile of kernels/signal.cu."""

    wait: Wait = "acquire"
    nanosleep_ns: int = 0
    payload: bool = False
    checked: bool = False
    inject: bool = False

    def defines(self) -> dict[str, int]:
        return {
            "WAIT": WAITS[self.wait],
            "NANOSLEEP": self.nanosleep_ns,
            "PAYLOAD": int(self.payload),
            "CHECKED": int(self.checked),
            "INJECT": int(self.inject),
        }


@dataclass(frozen=True)
class Bulk:
    """How the blocks that move data work: how many of each rank, which its partners share, and how much each moves a
    pass."""

    movers: int
    threads: int
    nbytes: int
    passes: int
    """How often a mover does it where it is not told to go on until those that take turns have ended."""


class PingPongMemory(Memory):
    """The slots, payloads and bulk memory of one world, that all its variants share.

    `reached` is how far its slots have counted: whoever runs next continues there, never anew.
    """

    def __init__(self, world: World, most_payload: int, bulk: Bulk) -> None:
        super().__init__(world)
        self.bulk = bulk
        self.most_payload = max(most_payload, MIN_PAYLOAD)
        self.reached = 0
        nbytes = 2 * world.size * self.most_payload
        self._payloads = [self.reachable(rank, nbytes, "payloads") for rank in range(world.size)]
        self._bulk_memory: dict[tuple[int, bool], Buffer] = {}

    def _bulk_address(self, rank: int, partner: int, index: int, near: bool) -> int:
        """Where mover `index` finds its part of a rank's bulk data for one partner: near, on the rank's own GPU, or
        where partners reach it. Allocated when first asked for."""
        if (rank, near) not in self._bulk_memory:
            alloc = self.local if near else self.reachable
            nbytes = self.bulk.movers * self.bulk.nbytes * self.world.size
            self._bulk_memory[rank, near] = alloc(rank, nbytes, "bulk data")
        return self._bulk_memory[rank, near].address + (partner * self.bulk.movers + index) * self.bulk.nbytes

    # -- roles ------------------------------------------------------------------------------------------------------

    def pair(self, pair: Pair, poll: Poll) -> list[Role]:
        """The two blocks of a pair."""
        there, back = self._signal(*pair, 0, poll), self._signal(pair.owner, pair.writer, 1, poll)
        return [
            _player(Kind.STARTS, pair.writer, sends=there, waits_for=back),
            _player(Kind.ANSWERS, pair.owner, sends=back, waits_for=there),
        ]

    def _signal(self, writer: int, owner: int, way: int, poll: Poll) -> _Signal:
        """The slot and payload by which `writer` tells `owner`; `way`: 0 there, 1 back."""
        home, row = (owner, 1 + way) if poll == "local" else (writer, 3 + 2 * owner + way)
        slot = self.world.slot(home, row, writer).address
        payload = self._payloads[owner].address + (way * self.world.size + writer) * self.most_payload
        return _Signal(writer, row, slot, payload)

    def movers(self, rank: int, partner: int, load: Load, count: int, passes: int = 0, signals: int = 0) -> list[Role]:
        """Blocks of `rank` that push to `partner` or pull from it. The last to end signals the slot `signals`."""
        roles = []
        for index in range(count):
            mine = self._bulk_address(rank, partner, index, near=True)
            theirs = self._bulk_address(partner, rank, index, near=False)
            role = Role(Kind.MOVES, rank, signals, passes=passes, amount=self.bulk.nbytes // VECTOR)
            if load in ("push", "both"):
                roles.append(replace(role, sends=theirs, receives=mine))
            if load in ("pull", "both"):
                roles.append(replace(role, sends=mine, receives=theirs))
        return roles

    def polled_push(self, pair: Pair, pollers: int) -> list[Role]:
        """The writer pushes bulk data to the owner; so many blocks of the owner poll the writer's memory meanwhile."""
        end = self._signal(*pair, 0, "remote")
        poller = Role(Kind.POLLS, pair.owner, mine=end.slot, row=end.row, col=end.writer)
        movers = self.movers(*pair, "push", self.bulk.movers, self.bulk.passes, signals=end.slot)
        return movers + [poller] * pollers


class _Signal(NamedTuple):
    writer: int
    row: int
    slot: int
    payload: int


def _player(kind: Kind, rank: int, sends: _Signal, waits_for: _Signal) -> Role:
    return Role(
        kind,
        rank,
        theirs=sends.slot,
        mine=waits_for.slot,
        sends=sends.payload,
        receives=waits_for.payload,
        row=waits_for.row,
        col=waits_for.writer,
        writer=sends.writer,
    )


class _DeviceBlocks(Memory):
    """What one device carries of a ping-pong: its roles, and the memory in which they leave what they saw."""

    def __init__(self, world: World, device: int, roles: Sequence[Role], rounds: int) -> None:
        super().__init__(world)
        self.device = device
        self.roles = roles
        blocks = len(roles)

        here = on_device(device)
        self.given = self.alloc(here, blocks * ROLE.itemsize, "roles")
        self.given.write(np.array([role.fields() for role in roles], ROLE))
        self.tally = self.alloc(here, 8, "tally")
        self.stamps = self.alloc(here, 4 * blocks * (rounds + 1), "time stamps")
        self.results = self.alloc(here, blocks * RESULT.itemsize, "results of blocks")
        self.faults = self.alloc(here, blocks * FAULT.itemsize, "faults found")

    def launch(self, kernel: Kernel, threads: int, before: int, rounds: int, words: int) -> Launch:
        self.tally.fill(0)
        self.faults.fill(0)
        movers = sum(role.kind is Kind.MOVES for role in self.roles)
        counts = (len(self.roles) - movers, movers, before, rounds, words)
        args = (self.given, *counts, self.tally, self.stamps, self.results, self.faults)
        return Launch(self.device, kernel, len(self.roles), threads, args, shared=4 * (rounds + 1))

    def read_into(self, record: LaunchRecord, rounds: int) -> None:
        record.results += list(self.results.read(RESULT))
        record.faults += list(self.faults.read(FAULT))
        record.stamps += list(self.stamps.read(np.uint32).reshape(-1, rounds + 1))


class PingPong:
    """Roles that can run again and again, in one launch on every device that has one."""

    def __init__(
        self, memory: PingPongMemory, variant: Variant, roles: Sequence[Role], rounds: int, payload: int = 0
    ) -> None:
        """`payload`: bytes with each signal, whole words."""
        self.memory = memory
        self.rounds = rounds
        self.words = payload // WORD
        self.kernel = memory.world.machine.load("signal.cu", variant.defines()).kernel("ping_pong")
        moving = memory.bulk.threads if any(role.kind is Kind.MOVES for role in roles) else 1
        self.threads = max(moving, min(-(-self.words // 32) * 32, memory.bulk.threads))
        device_of = memory.world.device_of
        self._blocks = [
            _DeviceBlocks(memory.world, device, [role for role in roles if device_of[role.rank] == device], rounds)
            for device in sorted({device_of[role.rank] for role in roles})
        ]

    def run(self, during: str) -> LaunchRecord:
        """One launch. Raises Hung, which says what it happened `during`."""
        memory = self.memory
        launches = [
            blocks.launch(self.kernel, self.threads, memory.reached, self.rounds, self.words) for blocks in self._blocks
        ]
        memory.world.run(launches, during)
        memory.reached += max(self.rounds, 1)
        record = LaunchRecord([role for blocks in self._blocks for role in blocks.roles])
        for blocks in self._blocks:
            blocks.read_into(record, self.rounds)
        return record

    def free(self) -> None:
        for blocks in self._blocks:
            blocks.free()


def loaded(memory: PingPongMemory, pairs: Iterable[Pair], load: Load) -> list[Role]:
    """Bulk traffic in both directions of each of these pairs."""
    if load == "none":
        return []
    directions = sorted({way for a, b in pairs for way in ((a, b), (b, a))})
    partners = Counter(rank for rank, _ in directions)
    counts = {rank: max(1, memory.bulk.movers // number) for rank, number in partners.items()}
    return [role for rank, partner in directions for role in memory.movers(rank, partner, load, counts[rank])]
