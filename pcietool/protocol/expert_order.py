"""Rows in the order of their experts, each expert's padded to whole blocks, and what seeds the gate of each block.

numpy only. `recount` computes the same by naive loops; the two must not share code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcietool.protocol.routing import Routing

ROW_BLOCK = 128
"""Rows of a gate, as in verify_gate.cuh."""
ARRIVAL = np.dtype([(name, "<u4") for name in ("source", "row", "slot", "position")])
"""Arrival of verify_gate.cuh: a row of `source`, its slot in expert order, its position in the stream."""


@dataclass(frozen=True)
class ExpertOrder:
    """Of one rank. `arrivals` has dtype ARRIVAL, sorted by slot."""

    arrivals: np.ndarray
    seeds: np.ndarray
    """[row blocks]: padding rows."""
    experts: np.ndarray
    """[row blocks]."""

    @property
    def row_blocks(self) -> int:
        return len(self.seeds)

    @property
    def slots(self) -> int:
        return self.row_blocks * ROW_BLOCK


def expert_order(routing: Routing, rank: int) -> ExpertOrder:
    """What arrives at a rank, sorted by expert, source and position."""
    sources, rows, choices = np.nonzero(routing.ranks == rank)
    experts = routing.experts[sources, rows, choices]
    came = np.bincount(sources, minlength=routing.world)
    positions = np.arange(len(sources)) - (np.cumsum(came) - came)[sources]
    order = np.argsort(experts, kind="stable")
    local = experts[order] - rank * routing.experts_a_rank
    counts = np.bincount(local, minlength=routing.experts_a_rank)
    blocks = -(-counts // ROW_BLOCK)
    within = np.arange(len(local)) - (np.cumsum(counts) - counts)[local]
    arrivals = np.zeros(len(local), ARRIVAL)
    arrivals["source"], arrivals["row"], arrivals["position"] = sources[order], rows[order], positions[order]
    arrivals["slot"] = (np.cumsum(blocks) - blocks)[local] * ROW_BLOCK + within
    seeds = np.zeros(blocks.sum(), np.uint32)
    last = (np.cumsum(blocks) - 1)[blocks > 0]
    seeds[last] = (blocks * ROW_BLOCK - counts)[blocks > 0]
    of_blocks = np.repeat(np.arange(routing.experts_a_rank), blocks) + rank * routing.experts_a_rank
    return ExpertOrder(arrivals, seeds, of_blocks.astype(np.uint32))
