"""Load distributions: which expert, hence which rank, each row of each rank goes to.

numpy only; must not know chunks, slots or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pcietool.protocol.distributions import DISTRIBUTIONS, Distribution

NOWHERE = -1
EDGES = (63, 64, 65)
"""Rows of a stream that nearly fill a chunk, fill it, and begin a second."""
BUSY = 0
"""The rank, or expert, that gets everything, or nothing."""


@dataclass(frozen=True)
class Routing:
    """`experts[rank, row, choice]` is the expert that a copy of that row goes to, or NOWHERE."""

    distribution: Distribution
    experts: np.ndarray
    experts_a_rank: int

    @property
    def world(self) -> int:
        return len(self.experts)

    @property
    def ranks(self) -> np.ndarray:
        """The rank of each copy, or NOWHERE; shaped as `experts`."""
        ranks: np.ndarray = np.where(self.experts == NOWHERE, NOWHERE, self.experts // self.experts_a_rank)
        return ranks


@dataclass(frozen=True)
class Workload:
    """How much is routed: every rank has `rows` rows, each for `choices` experts."""

    world: int
    rows: int
    choices: int
    experts_a_rank: int
    seed: int

    @property
    def experts(self) -> int:
        return self.world * self.experts_a_rank


def _uniform(load: Workload, rng: np.random.Generator) -> np.ndarray:
    return _of(load, rng, range(load.experts))


def _zipf(load: Workload, rng: np.random.Generator) -> np.ndarray:
    shares = 1 / np.arange(1, load.experts + 1)
    experts: np.ndarray = rng.choice(load.experts, (load.world, load.rows, load.choices), p=shares / shares.sum())
    return experts


def _one_hot(load: Workload, rng: np.random.Generator) -> np.ndarray:
    return _of(load, rng, [BUSY])


def _all_to_one(load: Workload, rng: np.random.Generator) -> np.ndarray:
    return _of(load, rng, range(load.experts_a_rank))


def _none_to_one(load: Workload, rng: np.random.Generator) -> np.ndarray:
    return _of(load, rng, range(load.experts_a_rank, load.experts))


def _one_row(load: Workload, rng: np.random.Generator) -> np.ndarray:
    experts = np.full((load.world, load.rows, load.choices), NOWHERE)
    experts[0, 0, 0] = load.experts - 1
    return experts


def _self_only(load: Workload, rng: np.random.Generator) -> np.ndarray:
    experts: np.ndarray = _of(load, rng, range(load.experts_a_rank)) + _first_experts(load)
    return experts


def _all_remote(load: Workload, rng: np.random.Generator) -> np.ndarray:
    beyond = _of(load, rng, range(load.experts_a_rank, load.experts))
    experts: np.ndarray = (beyond + _first_experts(load)) % load.experts
    return experts


def _chunk_edges(load: Workload, rng: np.random.Generator) -> np.ndarray:
    """One stream of each length in EDGES, from rank to rank; where ranks run out, to the rank itself."""
    experts = np.full((load.world, max(EDGES), -(-len(EDGES) // load.world)), NOWHERE)
    for number, rows in enumerate(EDGES):
        choice, source = divmod(number, load.world)
        target = source if choice else (source + 1) % load.world
        experts[source, :rows, choice] = target * load.experts_a_rank
    return experts


def _duplicates(load: Workload, rng: np.random.Generator) -> np.ndarray:
    """All choices of a row are the same expert: equal rows, one behind the other."""
    experts: np.ndarray = np.repeat(_uniform(load, rng)[:, :, :1], max(2, load.choices), axis=2)
    return experts


def _of(load: Workload, rng: np.random.Generator, experts: range | list[int]) -> np.ndarray:
    chosen: np.ndarray = rng.choice(list(experts), (load.world, load.rows, load.choices))
    return chosen


def _first_experts(load: Workload) -> np.ndarray:
    """Of each rank, [world, 1, 1]."""
    first: np.ndarray = np.arange(load.world)[:, None, None] * load.experts_a_rank
    return first


_MAKERS: Mapping[Distribution, Callable[[Workload, np.random.Generator], np.ndarray]] = {
    "uniform": _uniform,
    "zipf": _zipf,
    "one-hot": _one_hot,
    "all-to-one": _all_to_one,
    "none-to-one": _none_to_one,
    "one-row": _one_row,
    "self-only": _self_only,
    "all-remote": _all_remote,
    "chunk-edges": _chunk_edges,
    "duplicates": _duplicates,
}


def route(distribution: Distribution, load: Workload) -> Routing:
    """The same for the same load and seed."""
    rng = np.random.default_rng((load.seed, DISTRIBUTIONS.index(distribution)))
    return Routing(distribution, _MAKERS[distribution](load, rng).astype(np.int64), load.experts_a_rank)
