"""How often compare-nccl runs things on each kind of machine. Must not touch a machine."""

from __future__ import annotations

from dataclasses import dataclass

from pcietool.machines.base import Machine
from pcietool.probes.common.effort import effort_for
from pcietool.probes.compare.config import CompareConfig


@dataclass(frozen=True)
class Effort:
    """How often things run."""

    pairs: int
    rounds: int
    """Inside one kernel."""
    nodes: int
    replays: int
    """Of a graph, or of launches back to back, in one turn; one more is not counted."""

    @classmethod
    def of(cls, machine: Machine, config: CompareConfig) -> Effort:
        return effort_for(
            machine,
            cuda=cls(pairs=11, rounds=8000, nodes=100, replays=5),
            emulated=cls(pairs=1, rounds=30, nodes=20, replays=1),
            pairs=config.pairs,
            nodes=config.nodes,
        )
