"""How much signal-latency measures on each kind of machine. Must not touch a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pcietool.machines.base import Machine
from pcietool.probes.common.effort import effort_for, split_rounds
from pcietool.probes.common.options import MAX_ROUNDS
from pcietool.probes.signal.config import LARGEST_PAYLOAD, SignalConfig
from pcietool.probes.signal.ping_pong import Bulk


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int
    warmup: int
    launches: int
    largest_payload: int
    pollers: tuple[int, ...]
    """How many blocks poll across the link while bulk data is pushed over it."""
    bulk: Bulk
    most_loaded_rounds: int
    """Of one launch under load: every byte of the load is emulated too."""

    @classmethod
    def of(cls, machine: Machine, config: SignalConfig) -> Effort:
        usual = effort_for(
            machine,
            cuda=cls(1000, 20, 9, LARGEST_PAYLOAD, (0, 1, 64), Bulk(32, 512, 65536, 128), MAX_ROUNDS),
            emulated=cls(10, 2, 2, 1024, (0, 1, 64), Bulk(4, 64, 4096, 8), 3),
            warmup=config.warmup,
            launches=config.launches,
        )
        total = config.iterations or usual.rounds
        rounds, launches = split_rounds(total, MAX_ROUNDS - usual.warmup, usual.launches)
        largest = config.max_bytes or max(usual.largest_payload, config.min_bytes)
        return replace(usual, rounds=rounds, launches=launches, largest_payload=largest)

    def under_load(self) -> Effort:
        if self.rounds <= self.most_loaded_rounds:
            return self
        return replace(self, rounds=self.most_loaded_rounds, warmup=1, launches=1)

    def payloads(self, config: SignalConfig) -> list[int]:
        """Bytes: the smallest times powers of the factor, and always the largest."""
        sizes, nbytes = {self.largest_payload}, config.min_bytes
        while nbytes < self.largest_payload:
            sizes.add(nbytes)
            nbytes *= config.factor
        return sorted(sizes)
