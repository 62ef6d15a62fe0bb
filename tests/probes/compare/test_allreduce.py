"""The inline-flag all-reduce on the emulator: right sums, and controls that must be found wrong."""

import re
from unittest.mock import Mock

import numpy as np
import pytest

from pcietool.compiler import compile_source
from pcietool.data import kernel_source
from pcietool.errors import UsageError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import World
from pcietool.probes.compare.allreduce_kernel import MAX_BLOCKS, MAX_THREADS, AllReduce, Control, Dtype, shape
from pcietool.protocol.payload import LARGEST, expected_sum, payload

DEADLINE_S = 0.01


def world(transport: Transport = "peer", ranks: int = 2, fabric: str = "h200-nvlink2") -> World:
    return World.build(EmulatedMachine.open(fabric), transport, ranks, rows=1)


@pytest.mark.parametrize("transport", ["peer", "host", "self"])
@pytest.mark.parametrize("dtype", ["float32", "uint32"])
def test_every_sum_of_every_round_is_right(transport: Transport, dtype: Dtype) -> None:
    allreduce = AllReduce(world(transport), 4 * 40, dtype=dtype)
    for _ in range(2):  # sequences go on
        outcome = allreduce.world.machine.run(allreduce.rounds(5), DEADLINE_S)
        assert outcome.finished
        assert allreduce.wrong_sums() is None
    assert allreduce.span_ns() > 0


def test_four_ranks_and_several_blocks_agree() -> None:
    allreduce = AllReduce(world(ranks=4, fabric="pcie5-switch4"), 4 * 2050)
    assert allreduce.blocks == 2
    assert allreduce.world.machine.run(allreduce.rounds(2), DEADLINE_S).finished
    assert allreduce.wrong_sums() is None


@pytest.mark.parametrize("transport", ["peer", "host", "self"])
def test_launches_of_one_round_reduce_their_inputs(transport: Transport) -> None:
    allreduce = AllReduce(world(transport), 4 * 33, nodes=3)
    graph = allreduce.world.machine.graph(allreduce.once())
    for iteration in (0, 3):
        allreduce.write_inputs(iteration)
        assert graph.run(DEADLINE_S).finished
        assert allreduce.wrong_outputs(iteration) is None
    assert "elements are wrong" in (allreduce.wrong_outputs(1) or "")


@pytest.mark.parametrize("control", ["torn", "corrupt"])
@pytest.mark.parametrize("transport", ["peer", "host"])
def test_a_broken_kernel_is_found(control: Control, transport: Transport) -> None:
    allreduce = AllReduce(world(transport), 4, control=control)
    assert allreduce.world.machine.run(allreduce.rounds(6), DEADLINE_S).finished
    assert "sums are wrong, the first is element 0" in (allreduce.wrong_sums() or "")
    assert allreduce.wrong_sums() is None, "each fault is told once"


def test_a_rank_that_never_sends_is_a_recorded_hang() -> None:
    allreduce = AllReduce(world(), 4)
    outcome = allreduce.world.machine.run(allreduce.rounds(1)[:1], DEADLINE_S)
    assert outcome.hang is not None
    (record, *_) = outcome.hang.records
    assert (record.rank, record.col, record.wanted, record.got) == (0, 1, 1, 0)
    assert outcome.hang.proof


@pytest.mark.parametrize("elements", [1, 31, 33, 2048, 2049, 1 << 18])
def test_every_element_has_a_thread_and_no_block_is_idle(elements: int) -> None:
    blocks, threads = shape(elements)
    assert 1 <= blocks <= MAX_BLOCKS
    assert threads % 32 == 0
    assert threads <= MAX_THREADS
    assert (blocks - 1) * threads < elements


def test_payloads_differ_and_their_sums_are_exact_floats() -> None:
    one = payload(1, 0, 4096)
    assert len(np.unique(one)) > 3500
    assert (one != payload(2, 0, 4096)).mean() > 0.99
    assert (one != payload(1, 1, 4096)).mean() > 0.99
    assert one.max() <= LARGEST
    total = expected_sum(5, 16, 4096)
    np.testing.assert_array_equal(total, total.astype(np.float32).astype(np.uint32))


def test_flag_and_value_travel_in_one_scalar_store() -> None:
    ptx = compile_source(kernel_source("allreduce.cu"), name="allreduce.cu", architecture="sm_90", defines={}).ptx
    assert set(re.findall(r"st\.relaxed\S*", ptx)) == {"st.relaxed.sys.global.u64"}


def test_more_ranks_than_sums_are_exact_for_are_refused() -> None:
    """Floats are exact up to 2^24."""
    assert 64 * LARGEST <= 2**24
    with pytest.raises(UsageError, match="65 ranks: sums of more than 64 are not exact"):
        AllReduce(Mock(size=65), 64)
