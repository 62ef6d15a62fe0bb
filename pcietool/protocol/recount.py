"""The tables of `streams` and `expert_order` once more, by naive loops, to compare element by element.

Plain Python on purpose: what is obvious here proves what is fast there. Must not use any function of the two.
"""

from __future__ import annotations

from pcietool.protocol.routing import NOWHERE, Routing

Row = tuple[int, int, int]
"""(consumer, name of its payload, position in its stream)"""
Piece = tuple[int, int, int, int, int]
"""(consumer, chunk, first route, rows, pieces of the chunk)"""
Arrival = tuple[int, int, int, int]
"""(source, row, slot in expert order, position in its stream)"""


def dispatch_routes(routing: Routing) -> list[list[Row]]:
    """By rank."""
    routes = []
    for rank in range(routing.world):
        mine = []
        for consumer in range(routing.world):
            position = 0
            for row in range(routing.experts.shape[1]):
                for choice in range(routing.experts.shape[2]):
                    expert = int(routing.experts[rank, row, choice])
                    if expert != NOWHERE and expert // routing.experts_a_rank == consumer:
                        mine.append((consumer, row, position))
                        position += 1
        routes.append(mine)
    return routes


def return_routes(forth: list[list[Row]]) -> list[list[Row]]:
    """By rank: what `forth` brought it, back to where that came from."""
    routes = []
    for rank in range(len(forth)):
        mine = []
        for source in range(len(forth)):
            for consumer, _, position in forth[source]:
                if consumer == rank:
                    mine.append((source, source * 65536 + position, position))
        routes.append(mine)
    return routes


def counts(routes: list[list[Row]]) -> list[list[int]]:
    """[producer][consumer] rows."""
    table = [[0] * len(routes) for _ in routes]
    for producer, mine in enumerate(routes):
        for consumer, _, _ in mine:
            table[producer][consumer] += 1
    return table


def chunk_counts(mine: list[Row], world: int, chunk_rows: int, chunks: int) -> list[list[int]]:
    """[consumer][chunk] rows of one producer."""
    table = [[0] * chunks for _ in range(world)]
    for consumer, _, position in mine:
        table[consumer][position // chunk_rows] += 1
    return table


def pieces(mine: list[Row], chunk_rows: int, piece_rows: int) -> list[Piece]:
    """Of one producer."""
    found: list[list[int]] = []
    for number, (consumer, _, position) in enumerate(mine):
        chunk = position // chunk_rows
        in_chunk = position % chunk_rows
        if in_chunk % piece_rows == 0:
            found.append([consumer, chunk, number, 0])
        found[-1][3] += 1
    whole = []
    for consumer, chunk, first, rows in found:
        expected = 0
        for other_consumer, other_chunk, _, _ in found:
            if (other_consumer, other_chunk) == (consumer, chunk):
                expected += 1
        whole.append((consumer, chunk, first, rows, expected))
    return whole


def written_slots(routes: list[list[Row]], chunk_rows: int, first_row: int, ack_row: int) -> list[tuple[int, int, int]]:
    """(owner, row, writer) of every slot that streams of these routes store to, once a store's code in the kernel."""
    written = []
    for producer, mine in enumerate(routes):
        for consumer in range(len(routes)):
            written.append((producer, ack_row, consumer))
            chunks = {0}
            for to, _, position in mine:
                if to == consumer:
                    chunks.add(position // chunk_rows)
            written += [(consumer, first_row + chunk, producer) for chunk in sorted(chunks)]
    return written


def expert_order(routing: Routing, rank: int, row_block: int) -> tuple[list[Arrival], list[int], list[int]]:
    """(arrivals, padding rows of each block, expert of each block) of one rank; an arrival is (source, row, slot,
    position in its stream)."""
    arrivals: list[Arrival] = []
    seeds: list[int] = []
    experts: list[int] = []
    slot = 0
    for expert in range(rank * routing.experts_a_rank, (rank + 1) * routing.experts_a_rank):
        for source in range(routing.world):
            position = 0
            for row in range(routing.experts.shape[1]):
                for choice in range(routing.experts.shape[2]):
                    chosen = int(routing.experts[source, row, choice])
                    if chosen == expert:
                        arrivals.append((source, row, slot, position))
                        slot += 1
                    if chosen != NOWHERE and chosen // routing.experts_a_rank == rank:
                        position += 1
        while len(seeds) * row_block < slot:
            seeds.append(max(0, (len(seeds) + 1) * row_block - slot))
            experts.append(expert)
        slot = len(seeds) * row_block
    return arrivals, seeds, experts


def slots_of(arrivals: list[Arrival], world: int, capacity: int) -> list[list[int]]:
    """[source][position]: the slot in expert order of each row that arrives at one rank; 0 where there is no row."""
    table = [[0] * capacity for _ in range(world)]
    for source, _, slot, position in arrivals:
        table[source][position] = slot
    return table


def results(routing: Routing, rank: int, nothing: int) -> list[tuple[int, int]]:
    """(rank, position) that each choice of each row comes back from, `nothing` twice where there is no choice."""
    found = []
    sent = [0] * routing.world
    for row in range(routing.experts.shape[1]):
        for choice in range(routing.experts.shape[2]):
            expert = int(routing.experts[rank, row, choice])
            if expert == NOWHERE:
                found.append((nothing, nothing))
            else:
                to = expert // routing.experts_a_rank
                found.append((to, sent[to]))
                sent[to] += 1
    return found
