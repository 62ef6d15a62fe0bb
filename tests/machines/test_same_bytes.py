"""Every kernel leaves the same bytes on any machine: what it computes, not how long it took.

Each probe's own kernel runs with the same arguments on two machines: two modelled fabrics, or a fabric and real GPUs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest

from pcietool.errors import NothingToRunError
from pcietool.machines import open_machine
from pcietool.machines.base import Buffer, Machine, Place, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics.config import Grid, Operation
from pcietool.probes.atomics.counting import PLAIN, SLOTS, WITHOUT_RED, Counter, Form, Requesters
from pcietool.probes.barrier.config import BarrierConfig, Order
from pcietool.probes.barrier.kernel import ORDERS, Barrier
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import World
from pcietool.probes.compare.allreduce_kernel import AllReduce, Dtype
from pcietool.probes.signal.ping_pong import Bulk, PingPong, PingPongMemory, Variant, slot_rows
from pcietool.probes.signal.roles import Pair
from pcietool.probes.watermark.pushing import Pusher, StorePath
from pcietool.probes.watermark.streams import Shape
from pcietool.protocol.slots import GUARD_BYTES

DEADLINE_S = 2.0
Both = tuple[Machine, Machine]
Bytes = npt.NDArray[np.uint8]
BULK_COPIES_SINCE = (9, 0)
LEFT_OUT = {
    "time stamps": "times",
    "time spans": "times",
    "all-reduce time spans": "times",
    "times of release": "times",
    "poll times": "times",
    "results of blocks": "times, and how many polls they took",
    "polls": "how many there were",
    "old values": "which thread got which",
    "roles": "addresses",
    "roles of the blocks": "made by the host, as many as there are SMs",
    "endpoints": "addresses",
    "inbox tables": "addresses",
    "slot table": "addresses",
}
"""Buffers that may differ, and why."""


def contents(machine: Machine, kernel: Callable[..., World], arguments: Sequence[object]) -> list[tuple[str, Bytes]]:
    """(name, bytes) of everything that must be the same after `kernel`, in the order in which it was allocated. Slots
    lie where each machine polls them best."""
    kept: list[tuple[str, Buffer]] = []
    alloc = machine.alloc

    def keep(place: Place, nbytes: int, name: str) -> Buffer:
        kept.append((name, alloc(place, nbytes, name)))
        return kept[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "alloc", keep)
        world = kernel(machine, *arguments)
    slots = [
        (f"slots {rank}", one.read(count=world.slot_map.padded_nbytes)[GUARD_BYTES:-GUARD_BYTES])
        for rank, one in enumerate(world.slots)
    ]
    others = [
        (name, buffer.read()) for name, buffer in kept if name not in LEFT_OUT and not name.startswith("slots of rank ")
    ]
    for _, buffer in kept:
        buffer.free()
    return slots + others


@pytest.fixture(params=["two fabrics", pytest.param("fabric and GPUs", marks=pytest.mark.gpu)], scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    with ExitStack() as opened:
        try:
            other = (
                open_machine("cuda") if request.param == "fabric and GPUs" else EmulatedMachine.open("pcie5-switch4")
            )
        except NothingToRunError as error:
            pytest.skip(str(error))
        yield opened.enter_context(EmulatedMachine.open("h200-nvlink2")), opened.enter_context(other)


@pytest.fixture(params=["self", "peer"])
def transport(request: pytest.FixtureRequest, both: Both) -> Transport:
    """Both ranks on one GPU, or on one each where there are two."""
    if request.param == "peer" and min(len(machine.devices) for machine in both) < 2:
        pytest.skip("needs two GPUs")
    wanted: Transport = request.param
    return wanted


def barrier(machine: Machine, transport: Transport, order: Order) -> World:
    world = World.build(machine, transport, 2, rows=2)
    tested = Barrier(machine, world, order, BarrierConfig())
    assert machine.run(tested.rounds(7), DEADLINE_S).finished
    for _ in range(2 if order != "floor" else 0):
        assert machine.run(tested.once(), DEADLINE_S).finished
    return world


def atomics(machine: Machine, form: Form) -> World:
    world = World.build(machine, "self", 1, rows=2)
    counter = Counter(world, on_device(0), 64)
    count = counter.run(form, Requesters((0,)), Grid(2, 32), 10)
    assert count.made == count.wanted == 2 * 32 * 10
    if form != PLAIN:
        assert count.seen == count.expected, "one GPU loses nothing"
    return world


def signals(machine: Machine, transport: Transport) -> World:
    world = World.build(machine, transport, 2, slot_rows(2))
    memory = PingPongMemory(world, 64, Bulk(movers=1, threads=32, nbytes=1024, passes=2))
    for variant in (Variant(), Variant(payload=True, checked=True)):
        PingPong(memory, variant, memory.pair(Pair(0, 1), "local"), rounds=5, payload=64 if variant.payload else 0).run(
            "test"
        )
    return world


def rows(machine: Machine, transport: Transport, path: StorePath) -> World:
    shape = Shape(50, row_bytes=48, threads=64, groups=2, consumer_blocks=1)
    pusher = Pusher(machine, transport, "one-to-one", 2, shape, 50, seed=0)
    for chunk_rows in (8, 1, 50):
        assert pusher.push(path, shape.plan(chunk_rows, 1), 2).wrong is None
    return pusher.world


def all_reduce(machine: Machine, transport: Transport, dtype: Dtype, elements: int, iteration: int = 3) -> World:
    world = World.build(machine, transport, 2, rows=1)
    reduced = AllReduce(world, 4 * elements, nodes=2, dtype=dtype)
    reduced.write_inputs(iteration)
    assert machine.run(reduced.once(), DEADLINE_S).finished
    assert machine.run(reduced.rounds(3), DEADLINE_S).finished
    assert reduced.wrong_sums() is None
    return world


def differences(
    both: Both, kernel: Callable[..., World], *arguments: object, others: Sequence[object] | None = None
) -> list[str]:
    """Names of buffers that do not hold the same bytes after `kernel`; `others` are arguments on the second machine."""
    one, other = both
    first, second = contents(one, kernel, arguments), contents(other, kernel, others or arguments)
    assert [name for name, _ in first] == [name for name, _ in second]
    assert any(content.any() for _, content in first)
    return [name for (name, a), (_, b) in zip(first, second, strict=True) if not np.array_equal(a, b)]


@pytest.mark.parametrize("order", ORDERS)
def test_barriers(both: Both, transport: Transport, order: Order) -> None:
    assert differences(both, barrier, transport, order) == []


FORMS = [
    *(Form(operation, "atom", scope) for operation in get_args(Operation) for scope in ("gpu", "sys")),
    *(Form(operation, "red", "sys") for operation in get_args(Operation) if operation not in WITHOUT_RED),
    SLOTS,
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_atomics(both: Both, form: Form) -> None:
    may_differ = ["the word that is counted on"] if form.operation == "exch" else []  # whose number stays last
    assert set(differences(both, atomics, form)) <= set(may_differ)


def test_signals(both: Both, transport: Transport) -> None:
    assert differences(both, signals, transport) == []


@pytest.mark.parametrize("path", ["vector", "bulk"])
def test_rows(both: Both, transport: Transport, path: str) -> None:
    oldest = min(machine.devices[0].compute_capability for machine in both)
    if path == "bulk" and oldest < BULK_COPIES_SINCE:
        pytest.skip(f"compute capability {oldest}: no bulk copies")
    assert differences(both, rows, transport, path) == []


@pytest.mark.parametrize(("dtype", "elements"), [("float32", 33), ("uint32", 33), ("uint32", 2050)])
def test_all_reduces(both: Both, transport: Transport, dtype: str, elements: int) -> None:
    assert differences(both, all_reduce, transport, dtype, elements) == []


def test_other_inputs_are_other_bytes(both: Both) -> None:
    """Negative control."""
    found = differences(both, all_reduce, "self", "float32", 33, 3, others=("self", "float32", 33, 4))
    assert set(found) == {"all-reduce inputs", "all-reduce outputs"}
