"""One push of rows in chunks: its memory, its launches, and whether every byte arrived.

Must not decide which pushes are worth making, nor what a rate means; `watermark` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pcietool.errors import DriverError, UsageError
from pcietool.machines.base import Buffer, Kernel, Launch, Machine, on_device
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import DEADLINE_S, World
from pcietool.probes.watermark.config import Path, Pattern
from pcietool.probes.watermark.copies import FIRST_ROW, SHIFTS_A_CONSUMER, EngineCopies, Injection, source_shift
from pcietool.probes.watermark.streams import VECTOR_BYTES, RankRole, Shape, rank_roles
from pcietool.protocol.checksum import LANES, added_lanes, row_sums
from pcietool.protocol.chunks import LARGEST_COUNT, ChunkPlan

StorePath = Literal["vector", "bulk"]
"""How a kernel copies."""

INJECTIONS: Mapping[Injection, int] = {"none": 0, "swap": 1, "early": 2, "drop": 3}
BULK_SHARED_BYTES_A_GROUP = 4 * 8192
"""STAGES * TILE_BYTES of kernels/watermark.cu."""
ROLE = np.dtype([(name, "<u4") for name in ("rank", "produces", "block", "blocks", "first_peer", "peers")])
ENDPOINT = np.dtype([(name, "<u8") for name in ("slots", "data", "source", "sums")])


@dataclass(frozen=True)
class WrongRow:
    """A row that did not arrive as it was sent."""

    consumer: int
    producer: int
    row: int
    chunk: int
    wrong_rows: int
    """Of the same stream, this one included."""

    def __str__(self) -> str:
        others = f" and {self.wrong_rows - 1} more rows of that stream" if self.wrong_rows > 1 else ""
        return f"row {self.row} (chunk {self.chunk}) from rank {self.producer} is wrong at rank {self.consumer}{others}"


@dataclass(frozen=True)
class Pushed:
    """What came of one push."""

    producer_ns: float
    """From the first block's start until all that was stored has arrived, globaltimer of the slowest producer. By the
    copy engine: from the start of the first copy to the end of the last signal, by events on their stream."""
    first_release_ns: float | None
    """From the consumer's start, on its own timer, slowest consumer; None without signals."""
    polls: int | None
    wrong: WrongRow | None


class Pusher:
    """All memory of one pattern on one transport. Sequence numbers only grow, whatever is pushed."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        pattern: Pattern,
        world: int,
        shape: Shape,
        most_chunks: int,
        seed: int,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """`most_chunks`: of a stream in any push. Raises UsageError where there is too little memory, and Hung."""
        self.machine = machine
        self.shape = shape
        self.rank_roles = rank_roles(pattern, world)
        self.producers = [role for role in self.rank_roles if role.produces]
        self.consumers = [role for role in self.rank_roles if not role.produces]
        self.streams = sum(role.peers for role in self.producers)
        if self.streams * max(shape.rows, most_chunks) > LARGEST_COUNT:
            raise UsageError(
                f"{self.streams} streams of {shape.rows} rows are more than 2^31 - 1 rows; use fewer --rows"
            )
        self._sequence = 0
        self.world = world_ = World.build(machine, transport, world, FIRST_ROW + most_chunks, deadline_s)
        self.devices = world_.devices
        self._memory = memory = Memory(world_)
        got_bytes, sum_bytes = world * max(shape.nbytes, VECTOR_BYTES), max(1, world * shape.rows) * LANES * 8
        consumers = [role.rank for role in self.consumers]
        places = {rank: on_device(device) for rank, device in enumerate(world_.device_of)}
        self._data = {
            rank: memory.alloc(world_.place_of_slots(rank), got_bytes, f"rows that rank {rank} gets")
            for rank in consumers
        }
        self._sums = {rank: memory.alloc(places[rank], sum_bytes, "checksums") for rank in consumers}
        source_rows = shape.rows + SHIFTS_A_CONSUMER * world
        self._sources = {
            role.rank: memory.local(role.rank, source_rows * shape.row_bytes, "rows") for role in self.producers
        }
        producer, consumer = self.producers[0].rank, self.producers[0].first_peer
        self._copies = EngineCopies(
            world_, producer, consumer, shape.row_bytes, self._sources[producer], self._data[consumer]
        )
        blocks = max(self._most_blocks(device) for device in self.devices)
        warps = shape.threads // 32
        self._roles = memory.per_device(ROLE.itemsize * blocks, "roles of the blocks")
        self._stamps = memory.per_device(16 * blocks, "time stamps")
        self._polls = memory.per_device(4 * warps * blocks, "polls")
        self._released = memory.per_device(8 * warps * blocks, "times of release")
        self._elections = memory.per_device(4 * world * world * most_chunks, "finished pieces")
        self._claims = memory.per_device(4 * world, "claimed parts")
        self._endpoints = memory.structs(
            ENDPOINT,
            "endpoints",
            slots=world_.slot_addresses.tolist(),
            data=self._data,
            source=self._sources,
            sums=self._sums,
        )
        self._source_sums = {role.rank: self._fill_source(role.rank, source_rows, seed) for role in self.producers}

    # -- how many blocks ----------------------------------------------------------------------------------------------

    def most_sms(self) -> int:
        """For the producing blocks of one rank, so that everything on its GPU is resident, one block a SM."""
        return min(
            (self.machine.devices[device].sms - self._consumer_blocks(device)) // producers
            for device in self.devices
            if (producers := sum(role.produces for role in self._rank_roles_on(device)))
        )

    def groups_of_stream(self, sms: int) -> int:
        """Groups that push one stream together (in turns with their rank's other streams)."""
        return max(1, sms * self.shape.groups // max(role.peers for role in self.producers))

    # -- pushing ------------------------------------------------------------------------------------------------------

    def load(self, path: StorePath, *, signals: bool, inject: bool = False) -> Kernel:
        """Raises CompileError or PtxError where this machine cannot run that path."""
        defines = {
            "THREADS": self.shape.threads,
            "GROUPS": self.shape.groups,
            "SIGNALS": int(signals),
            "BULK": int(path == "bulk"),
            "INJECT": int(inject),
        }
        return self.machine.load("watermark.cu", defines).kernel("watermark")

    def push(
        self,
        path: StorePath,
        plan: ChunkPlan,
        sms: int,
        *,
        signals: bool = True,
        injection: Injection = "none",
        injected: int = 0,
    ) -> Pushed:
        """All streams once, each rank's by `sms` blocks. Raises Hung.

        After a hang this object must not be used again: local counters are left in the middle.
        """
        self._sequence += 1
        kernel = self.load(path, signals=signals, inject=injection != "none")
        roles = {device: self._roles_on(device, sms, signals) for device in self.devices}
        launches = [
            self._launch(device, kernel, roles[device], path, plan, INJECTIONS[injection], injected)
            for device in self._consumers_first()
            if len(roles[device])
        ]
        what = f"{plan.chunk_rows}-row chunks, {path}, {sms} SMs" if signals else f"copy without signals, {path}"
        self.world.run(launches, what)
        return Pushed(
            producer_ns=max(self._span_ns(role, roles) for role in self.producers),
            first_release_ns=max(self._first_release_ns(role, roles) for role in self.consumers) if signals else None,
            polls=self._count_polls(roles) if signals else None,
            wrong=self._wrong_row(plan) if signals else None,
        )

    def push_by_engine(self, plan: ChunkPlan, *, injection: Injection = "none", injected: int = 0) -> Pushed:
        """The one stream of "one-to-one", each chunk one copy by the copy engine with its signal as a stream write
        behind it; the kernel only consumes. `injection`: as `push`, but not "swap". Raises Hung, and DriverError for a
        copy or a write that the driver refuses."""
        self._sequence += 1
        kernel = self.load("vector", signals=True)
        roles = {device: self._roles_on(device, 0, signals=True) for device in self.devices}
        launches = [
            self._launch(device, kernel, roles[device], "vector", plan, INJECTIONS["none"], 0)
            for device in self.devices
            if len(roles[device])
        ]
        copies = self._copies.of(plan, self._sequence, injection, injected)
        outcome = self.world.run(launches, f"{plan.chunk_rows}-row chunks, copy engine", copy_streams=[copies])
        return Pushed(
            producer_ns=outcome.copy_streams_ns[0],
            first_release_ns=max(self._first_release_ns(role, roles) for role in self.consumers),
            polls=self._count_polls(roles),
            wrong=self._wrong_row(plan),
        )

    def engine_refusal(self) -> str | None:
        """Why the driver does not copy or store as `push_by_engine` asks, or None. Tried without any kernel: one that
        waits for a signal that was refused would hang. The trial's signals are old ones. Raises Hung."""
        plan = ChunkPlan(min(1, self.shape.rows), 1, 1)
        try:
            self.world.run((), "one copy by the copy engine", copy_streams=[self._copies.of(plan, self._sequence)])
        except DriverError as error:
            return str(error)
        return None

    def copy_by_engine(self) -> float:
        """The bytes of one stream by the copy engine; ns of GPU time."""
        source, target = self._sources[self.producers[0].rank], self._data[self.producers[0].first_peer]
        return self.machine.copy(target, source, self.shape.nbytes, "copy engine")

    def free(self) -> None:
        self._memory.free()
        self.world.free()

    # -- memory -------------------------------------------------------------------------------------------------------

    def _fill_source(self, rank: int, rows: int, seed: int) -> np.ndarray:
        """Random rows; returns their checksums, so that nothing is ever compared with what the fabric carried."""
        words = np.random.default_rng((seed, rank)).integers(
            0, 2**32, (rows, self.shape.row_bytes // 4), dtype=np.uint32
        )
        self._sources[rank].write(words)
        return row_sums(words)

    # -- launching ----------------------------------------------------------------------------------------------------

    def _rank_roles_on(self, device: int) -> list[RankRole]:
        return [role for role in self.rank_roles if self.world.device_of[role.rank] == device]

    def _consumer_blocks(self, device: int) -> int:
        return self.shape.consumer_blocks * sum(not role.produces for role in self._rank_roles_on(device))

    def _most_blocks(self, device: int) -> int:
        return self._consumer_blocks(device) + len(self._rank_roles_on(device)) * self.machine.devices[device].sms

    def _consumers_first(self) -> list[int]:
        return sorted(self.devices, key=lambda device: all(role.produces for role in self._rank_roles_on(device)))

    def _roles_on(self, device: int, sms: int, signals: bool) -> np.ndarray:
        """One a block, consumers first; dtype ROLE. Without signals there is nothing to consume."""
        roles = [
            (role.rank, role.produces, block, blocks, role.first_peer, role.peers)
            for role in self._rank_roles_on(device)
            if role.produces or signals
            for blocks in [sms if role.produces else self.shape.consumer_blocks]
            for block in range(blocks)
        ]
        return np.array(roles, ROLE)

    def _launch(
        self,
        device: int,
        kernel: Kernel,
        roles: np.ndarray,
        path: Path,
        plan: ChunkPlan,
        injection: int,
        injected: int,
    ) -> Launch:
        self._roles[device].write(roles)
        pushes = bool(roles["produces"].any())
        return Launch(
            device,
            kernel,
            grid=len(roles),
            block=self.shape.threads,
            args=(
                self._roles[device],
                self._endpoints[device],
                self.world.size,
                plan.rows,
                self.shape.row_bytes // VECTOR_BYTES,
                plan.chunk_rows,
                plan.piece_rows,
                self._sequence,
                self._stamps[device],
                self._elections[device],
                self._split(plan),
                self._claims[device],
                self._polls[device],
                self._released[device],
                injection,
                injected,
            ),
            shared=BULK_SHARED_BYTES_A_GROUP * self.shape.groups if path == "bulk" and pushes else 0,
            spins=not roles["produces"].all(),
        )

    def _split(self, plan: ChunkPlan) -> int:
        """Into how many parts a chunk is read, so that no consuming warp stays idle."""
        warps = self.shape.consumer_blocks * self.shape.threads // 32
        return max(1, warps // (plan.chunks * max(role.peers for role in self.consumers)))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _blocks_of(self, role: RankRole, roles: Mapping[int, np.ndarray]) -> tuple[int, np.ndarray]:
        """Its device, and which of the blocks there play this role, [blocks] of bool."""
        device = self.world.device_of[role.rank]
        return device, (roles[device]["rank"] == role.rank) & (roles[device]["produces"] == role.produces)

    def _stamps_of(self, role: RankRole, roles: Mapping[int, np.ndarray]) -> np.ndarray:
        """[blocks, 2] of the launch that ended last: start and end, ns on the device's globaltimer."""
        device, mine = self._blocks_of(role, roles)
        stamps: np.ndarray = self._stamps[device].read(np.uint64, 2 * len(mine)).reshape(-1, 2)[mine]
        return stamps

    def _of_warps(
        self,
        buffers: Mapping[int, Buffer],
        dtype: type[np.unsignedinteger],
        role: RankRole,
        roles: Mapping[int, np.ndarray],
    ) -> np.ndarray:
        """[blocks, warps] of what the warps of a role's blocks left in one of `buffers`."""
        device, mine = self._blocks_of(role, roles)
        warps = self.shape.threads // 32
        left: np.ndarray = buffers[device].read(dtype, len(mine) * warps).reshape(-1, warps)[mine]
        return left

    def _span_ns(self, role: RankRole, roles: Mapping[int, np.ndarray]) -> float:
        stamps = self._stamps_of(role, roles)
        return float(stamps[:, 1].max() - stamps[:, 0].min())

    def _first_release_ns(self, role: RankRole, roles: Mapping[int, np.ndarray]) -> float:
        released = self._of_warps(self._released, np.uint64, role, roles)
        return float(released[released > 0].min() - self._stamps_of(role, roles)[:, 0].min())

    def _count_polls(self, roles: Mapping[int, np.ndarray]) -> int:
        polls = [self._of_warps(self._polls, np.uint32, role, roles) for role in self.consumers]
        return sum(int(count.sum(dtype=np.uint64)) for count in polls)

    def _wrong_row(self, plan: ChunkPlan) -> WrongRow | None:
        """Compares every row's checksum with the one of what was sent in the launch that ended last."""
        rows = plan.rows
        for role in self.consumers:
            sums = self._sums[role.rank].read(np.uint64).reshape(-1, LANES)
            for producer in role.peers_in(self.world.size):
                shift = source_shift(role.rank, self._sequence)
                sent = self._source_sums[producer][shift : shift + rows]
                wrong = np.flatnonzero(added_lanes(sums[producer * rows : (producer + 1) * rows]) != sent)
                if wrong.size:
                    first = int(wrong[0])
                    return WrongRow(role.rank, producer, first, plan.chunk_of(first), int(wrong.size))
        return None
