"""The barrier kernel on one world: how it is compiled and launched, and what its time stamps say.

The host's mirror of kernels/barrier.cu; must not decide what to measure (`barrier` does).
"""

from __future__ import annotations

import numpy as np

from pcietool.errors import UsageError
from pcietool.machines.base import Launch, Machine
from pcietool.probes.barrier.config import BarrierConfig, Order
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.options import MAX_ROUNDS
from pcietool.probes.common.structs import struct_of
from pcietool.probes.common.world import World

ORDERS: dict[Order, int] = {"publishing": 0, "relaxed": 1, "article": 2, "floor": 3}
"""The values of ORDER in kernels/barrier.cu."""
ARTICLE_NANOSLEEP_NS = 64
NO_INJECTION, DIE, DROP, DELAY = range(4)
"""The injections of kernels/barrier.cu."""
INJECTION_SHARED_BYTES = 96 * 1024
"""Makes few blocks resident, so that a grid beyond residency stays small."""
RANKS = np.dtype([(name, "<u8") for name in ("slots", "base", "local")] + [("first_rank", "<u4"), ("world", "<u4")])
INJECTION = np.dtype([("delay_ns", "<u8")] + [(name, "<u4") for name in ("kind", "rank", "round")], align=True)
"""Ranks and Injection of kernels/barrier.cu."""


class Barrier:
    """The barrier kernel of one order on one world."""

    def __init__(
        self,
        machine: Machine,
        world: World,
        order: Order,
        config: BarrierConfig,
        *,
        no_wait: bool = False,
        inject: bool = False,
    ) -> None:
        self.world = world
        self.order = order
        self.config = config
        self.nanosleep_ns = ARTICLE_NANOSLEEP_NS if order == "article" else config.nanosleep_ns
        self.blocks = 1 if order == "floor" else config.blocks
        self.threads = 32 if order == "floor" else config.threads
        if self.threads < world.size:
            raise UsageError(f"--order {order}: {self.threads} threads cannot serve {world.size} ranks, one each")
        defines = {
            "ORDER": ORDERS[order],
            "BLOCKS": self.blocks,
            "THREADS": self.threads,
            "NANOSLEEP": self.nanosleep_ns,
            "NO_WAIT": int(no_wait),
            "INJECT": int(inject),
        }
        program = machine.load("barrier.cu", defines)
        self.rounds_kernel, self.once_kernel = program.kernel("barrier_rounds"), program.kernel("barrier_once")
        ranks = world.size
        self._memory = Memory(world)
        self.local = self._memory.per_device(8 * ranks, "arrival counters")
        self.stamps = self._memory.per_device(4 * ranks * (MAX_ROUNDS + 1), "time stamps")
        self.spans = self._memory.per_device(16 * ranks * self.blocks, "time spans")

    def rounds(
        self, rounds: int, injection: int = NO_INJECTION, rank: int = 0, round_: int = 0, delay_ns: int = 0
    ) -> list[Launch]:
        """One grid a device, `rounds` barriers each."""
        beyond = self.config.inject == "beyond-residency"
        injected = struct_of(INJECTION, kind=injection, rank=rank, round=round_, delay_ns=delay_ns)
        return self.world.launches(
            self.rounds_kernel,
            self.blocks,
            self.threads,
            lambda *grid: (self._ranks(*grid), rounds, self.stamps[grid[0]], self.spans[grid[0]], injected),
            shared=INJECTION_SHARED_BYTES if beyond else 4 * (rounds + 1),
            beyond_residency=beyond,
        )

    def once(self) -> list[Launch]:
        """One grid a device, one barrier."""
        return self.world.launches(
            self.once_kernel, self.blocks, self.threads, lambda *grid: (self._ranks(*grid),), overlaps=True
        )

    def _ranks(self, device: int, first_rank: int) -> np.ndarray:
        world, local = self.world, self.local[device]
        return struct_of(
            RANKS,
            slots=world.tables[device],
            base=world.sequences[device],
            local=local,
            first_rank=first_rank,
            world=world.size,
        )

    def read_spans_ns(self) -> np.ndarray:
        """How long each rank's rounds took together in the launch that ended last; [ranks], globaltimer."""
        spans = [self.spans[device].read(np.uint64, 2, 16 * rank) for rank, device in enumerate(self.world.device_of)]
        return np.array([float(ended - began) for began, ended in spans])

    def read_block_spans_ns(self) -> np.ndarray:
        """The same of every block of a kernel that injects; [ranks, blocks]."""
        of_rank = 2 * self.blocks
        spans = [
            self.spans[device].read(np.uint64, of_rank, 8 * of_rank * rank).reshape(-1, 2)
            for rank, device in enumerate(self.world.device_of)
        ]
        return np.array([np.diff(blocks)[:, 0] for blocks in spans]).astype(np.float64)

    def read_periods_ns(self, rounds: int) -> np.ndarray:
        """Each round of the launch that ended last, [ranks, rounds], SM clock scaled to globaltimer."""
        periods = []
        for rank, (device, span_ns) in enumerate(zip(self.world.device_of, self.read_spans_ns(), strict=True)):
            stamps = self.stamps[device].read(np.uint32, rounds + 1, 4 * rank * (rounds + 1))
            cycles = np.diff(stamps).astype(np.float64)  # unsigned differences survive the clock's wrap
            periods.append(cycles * (span_ns / cycles.sum()))
        return np.array(periods)

    def free(self) -> None:
        self._memory.free()
