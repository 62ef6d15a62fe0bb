"""The example of docs/use-in-your-kernel.md compiles, runs emulated, and fails as the docs say."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pcietool.contract.outcomes import Outcome
from pcietool.data import kernel_source
from pcietool.machines.base import HOST, Launch, Machine, Place, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.protocol.slots import SLOT_STRIDE

DOCS = Path(__file__).parent.parent / "docs" / "use-in-your-kernel.md"
WORDS, ROUNDS = 100, 5
Sums = npt.NDArray[np.uint32]


def exchange(machine: Machine, place_of: Callable[[int], Place], ranks: Sequence[int] = (0, 1)) -> tuple[Outcome, Sums]:
    """Runs the example on GPUs 0 and 1; (outcome, sums [rank, round])."""
    kernel = machine.load("example_exchange.cu").kernel("exchange")
    slots = [machine.alloc(place_of(rank), 2 * SLOT_STRIDE, f"slots {rank}") for rank in (0, 1)]
    inboxes = [machine.alloc(place_of(rank), 4 * WORDS, f"inbox {rank}") for rank in (0, 1)]
    sums = [machine.alloc(on_device(rank), 4 * ROUNDS, f"sums {rank}") for rank in (0, 1)]
    launches = [
        Launch(
            rank,
            kernel,
            grid=1,
            block=64,
            args=(rank, slots[rank], inboxes[rank], slots[1 - rank], inboxes[1 - rank], WORDS, ROUNDS, sums[rank]),
        )
        for rank in ranks
    ]
    return machine.run(launches, 1.0), np.array([s.read(np.uint32) for s in sums])


@pytest.mark.parametrize("place_of", [on_device, lambda rank: HOST], ids=["peer", "host"])
def test_the_example_exchanges_every_word(place_of: Callable[[int], Place]) -> None:
    with EmulatedMachine.open("pcie5-switch4") as machine:
        outcome, sums = exchange(machine, place_of)
    assert outcome.finished
    index = np.arange(WORDS).sum()
    expected = [
        [((round_ << 16) + ((1 - rank) << 12)) * WORDS + index for round_ in range(1, ROUNDS + 1)] for rank in (0, 1)
    ]
    np.testing.assert_array_equal(sums, expected)


def test_a_dead_peer_is_named() -> None:
    with EmulatedMachine.open("pcie5-switch4") as machine:
        outcome, _ = exchange(machine, on_device, ranks=(0,))
    assert outcome.hang is not None
    record = outcome.hang.records[0]
    assert (record.rank, record.row, record.col, record.wanted, record.got) == (0, 0, 1, 1, 0)


def test_the_docs_show_the_example_as_it_is() -> None:
    assert kernel_source("example_exchange.cu").rstrip() in DOCS.read_text()
