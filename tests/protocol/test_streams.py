"""The tables in closed form are those of naive loops, whatever is routed; and each distribution is what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcietool.protocol import recount
from pcietool.protocol.distributions import DISTRIBUTIONS, Distribution
from pcietool.protocol.expert_order import ROW_BLOCK, expert_order
from pcietool.protocol.routing import NOWHERE, Routing, Workload, route
from pcietool.protocol.streams import dispatched, returned

LOAD = Workload(world=4, rows=9, choices=2, experts_a_rank=3, seed=1)


@st.composite
def routings(draw: st.DrawFn) -> Routing:
    """Anything, and more often than by chance something lopsided."""
    if draw(st.booleans()):
        load = Workload(*(draw(st.integers(low, high)) for low, high in ((2, 5), (1, 12), (1, 3), (1, 3), (0, 99))))
        return route(draw(st.sampled_from(DISTRIBUTIONS)), load)
    world, rows, choices, experts_a_rank = (draw(st.integers(1, most)) for most in (4, 10, 3, 3))
    expert = st.integers(NOWHERE, world * experts_a_rank - 1)
    flat = draw(st.lists(expert, min_size=world * rows * choices, max_size=world * rows * choices))
    return Routing("uniform", np.array(flat).reshape(world, rows, choices), experts_a_rank)


@given(routings(), st.integers(1, 8), st.integers(1, 8))
def test_streams_are_as_recounted(routing: Routing, chunk_rows: int, piece_rows: int) -> None:
    piece_rows = min(piece_rows, chunk_rows)
    forth = dispatched(routing, chunk_rows, piece_rows)
    counted = recount.dispatch_routes(routing)
    for streams, routes in ((forth, counted), (returned(forth), recount.return_routes(counted))):
        assert [mine.tolist() for mine in streams.routes] == routes
        assert streams.counts.tolist() == recount.counts(routes)
        for rank in range(routing.world):
            chunks = recount.chunk_counts(routes[rank], routing.world, streams.chunk_rows, streams.most_chunks)
            assert streams.chunk_counts(rank).tolist() == chunks
            pieces = recount.pieces(routes[rank], streams.chunk_rows, streams.piece_rows)
            assert streams.pieces(rank).tolist() == pieces
        written = recount.written_slots(routes, streams.chunk_rows, first_row=2, ack_row=1)
        assert len(written) == len(set(written)) == streams.chunks.sum() + routing.world**2


@given(routings())
def test_expert_order_is_as_recounted(routing: Routing) -> None:
    for rank in range(routing.world):
        order = expert_order(routing, rank)
        arrivals, seeds, experts = recount.expert_order(routing, rank, ROW_BLOCK)
        assert order.arrivals.tolist() == arrivals
        assert order.seeds.tolist() == seeds
        assert order.experts.tolist() == experts
        assert sum(ROW_BLOCK - seed for seed in seeds) == len(arrivals)


def test_gates_of_more_than_a_block_of_rows() -> None:
    routing = route("one-hot", Workload(world=2, rows=100, choices=2, experts_a_rank=2, seed=0))
    order = expert_order(routing, 0)
    assert order.seeds.tolist() == [0, 0, 0, 4 * ROW_BLOCK - 400]
    assert order.arrivals["slot"].tolist() == list(range(400))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_distribution_is_what_it_says(distribution: Distribution) -> None:
    counts = dispatched(route(distribution, LOAD), 64, 16).counts
    remote = counts * (1 - np.eye(4, dtype=int))
    rows = 4 * LOAD.rows * LOAD.choices
    holds = {
        "uniform": counts.min() > 0,
        "zipf": counts[:, 0].sum() > counts[:, 3].sum(),
        "one-hot": np.unique(route(distribution, LOAD).experts).tolist() == [0],
        "all-to-one": counts[:, 0].sum() == rows,
        "none-to-one": counts[:, 0].sum() == 0 and counts.sum() == rows,
        "one-row": counts.sum() == remote.sum() == counts[0, 3] == 1,
        "self-only": remote.sum() == 0 and counts.sum() == rows,
        "all-remote": remote.sum() == rows,
        "chunk-edges": sorted(counts[counts > 0]) == [63, 64, 65],
        "duplicates": np.all(np.ptp(route(distribution, LOAD).experts, axis=2) == 0) and counts.sum() == rows,
    }
    assert holds[distribution]


def test_chunk_edges_in_a_small_world() -> None:
    counts = dispatched(route("chunk-edges", Workload(2, 1, 1, 2, 0)), 64, 16).counts
    assert counts.tolist() == [[65, 63], [64, 0]]


def test_a_routing_is_the_same_for_a_seed() -> None:
    one, again = (route("uniform", LOAD).experts for _ in range(2))
    other = route("uniform", Workload(4, 9, 2, 3, seed=2)).experts
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
