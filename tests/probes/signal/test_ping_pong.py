"""Where signals and bulk data of a ping-pong lie: nobody shares a word with anybody else."""

from itertools import pairwise, permutations
from typing import get_args

import pytest

from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common.world import World
from pcietool.probes.signal.config import LARGEST_PAYLOAD, Poll, SignalConfig
from pcietool.probes.signal.effort import Effort
from pcietool.probes.signal.ping_pong import Bulk, PingPongMemory, slot_rows
from pcietool.probes.signal.roles import VECTOR, Pair

RANKS = 3


@pytest.fixture
def memory(emulated: EmulatedMachine) -> PingPongMemory:
    world = World.build(emulated, "peer", RANKS, slot_rows(RANKS))
    return PingPongMemory(world, 256, Bulk(movers=4, threads=32, nbytes=1024, passes=1))


def test_every_pair_has_slots_and_payloads_of_its_own_in_each_place(memory: PingPongMemory) -> None:
    roles = [
        role
        for pair in permutations(range(RANKS), 2)
        for poll in get_args(Poll)
        for role in memory.pair(Pair(*pair), poll)
    ]
    slots = [role.theirs for role in roles]
    assert len(set(slots)) == len(slots) == 2 * len(get_args(Poll)) * RANKS * (RANKS - 1)
    payloads = sorted({role.sends for role in roles})
    assert len(payloads) == 2 * RANKS * (RANKS - 1)
    assert min(after - before for before, after in pairwise(payloads)) >= 256
    for starts, answers in zip(roles[::2], roles[1::2], strict=True):
        assert (starts.theirs, starts.sends) == (answers.mine, answers.receives)
        assert (answers.theirs, answers.sends) == (starts.mine, starts.receives)


def test_there_are_as_many_rows_of_slots_as_pairs_use(memory: PingPongMemory) -> None:
    pairs = [Pair(*pair) for pair in permutations(range(RANKS), 2)]
    rows = {role.row for pair in pairs for poll in get_args(Poll) for role in memory.pair(pair, poll)}
    assert rows == set(range(1, slot_rows(RANKS)))


def test_movers_share_no_byte(memory: PingPongMemory) -> None:
    roles = [
        role for rank, partner in permutations(range(RANKS), 2) for role in memory.movers(rank, partner, "push", 4)
    ]
    for address in ("sends", "receives"):
        starts = sorted(getattr(role, address) for role in roles)
        assert len(starts) == 4 * RANKS * (RANKS - 1)
        assert all(after - before >= 1024 for before, after in pairwise(starts))


@pytest.mark.parametrize("backend", ["cuda", "emulated"])
def test_movers_move_whole_vectors_of_all_their_threads(
    emulated: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(emulated, "backend", backend)
    effort = Effort.of(emulated, SignalConfig())
    assert effort.bulk.nbytes % (VECTOR * effort.bulk.threads) == 0
    assert effort.bulk.threads % 32 == 0
    assert effort.largest_payload <= LARGEST_PAYLOAD
