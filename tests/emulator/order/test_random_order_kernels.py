"""Every kernel that is shipped, in random memory order: nothing in them is unordered, but for controls that are racy on
purpose."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pcietool import data
from pcietool.contract.outcomes import Outcome, UnorderedAccess
from pcietool.data import kernel_source
from pcietool.machines.base import HOST, Place, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics.config import Grid
from pcietool.probes.atomics.counting import PLAIN, SLOTS, Counter, Requesters
from pcietool.probes.atomics.counting import Form as CountForm
from pcietool.probes.barrier.config import BarrierConfig, Order
from pcietool.probes.barrier.kernel import ORDERS, Barrier
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import World
from pcietool.probes.compare.allreduce_kernel import AllReduce
from pcietool.probes.signal.ping_pong import Bulk, PingPong, PingPongMemory, Variant, slot_rows
from pcietool.probes.signal.roles import Pair
from pcietool.probes.watermark.pushing import Pusher, StorePath
from pcietool.probes.watermark.streams import Shape

DEADLINE_S = 0.1
Unordered = list[UnorderedAccess]
TRANSPORTS = ("peer", "host", "self")
SMALL = Shape(rows=37, row_bytes=48, threads=64, groups=2, consumer_blocks=1)


@pytest.fixture
def unordered(monkeypatch: pytest.MonkeyPatch) -> Unordered:
    """What all rounds of all machines have reported."""
    found: Unordered = []
    run = EmulatedMachine.run_with_gap

    def recording(*args: Any, **options: Any) -> Outcome:
        outcome = run(*args, **options)
        found.extend(outcome.unordered)
        return outcome

    monkeypatch.setattr(EmulatedMachine, "run_with_gap", recording)
    return found


@pytest.fixture(scope="module")
def machine() -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("pcie5-switch4", seed=1, order="random") as opened:
        yield opened


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_barrier(machine: EmulatedMachine, unordered: Unordered, transport: Transport, order: Order) -> None:
    world = World.build(machine, transport, 4, rows=2)
    barrier = Barrier(machine, world, order, BarrierConfig(blocks=2, threads=64))
    assert machine.run(barrier.rounds(5), DEADLINE_S).finished
    if order != "floor":
        assert machine.run(barrier.once() * 3, DEADLINE_S).finished
    assert unordered == []


@pytest.mark.parametrize("form", [Variant(), Variant("relaxed-fence"), Variant("acquire-polls", checked=True)])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_signal_with_payload(
    machine: EmulatedMachine, unordered: Unordered, transport: Transport, form: Variant
) -> None:
    ping_pong_with_payload(machine, transport, form)
    assert unordered == []


def ping_pong_with_payload(machine: EmulatedMachine, transport: Transport, form: Variant) -> None:
    ranks = 2 if transport == "self" else 4
    world = World.build(machine, transport, ranks, slot_rows(ranks), DEADLINE_S)
    memory = PingPongMemory(world, 1024, Bulk(movers=2, threads=64, nbytes=1024, passes=4))
    PingPong(memory, replace(form, payload=True), memory.pair(Pair(0, 1), "local"), 6, payload=512).run("test")


SYNC_BEFORE_A_SIGNAL = "    __syncthreads();  // all have written, and read what came before"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_signal_before_all_threads_have_written_and_read_is_noticed(
    unordered: Unordered, monkeypatch: pytest.MonkeyPatch, transport: Transport
) -> None:
    """Answers allow to overwrite what was read, and all signals to read what was written."""
    source = data.kernel_source("signal.cu")
    assert SYNC_BEFORE_A_SIGNAL in source
    texts = {"signal.cu": source.replace(SYNC_BEFORE_A_SIGNAL, "//")}
    monkeypatch.setattr(data, "kernel_source", lambda name: texts.get(name) or kernel_source(name))
    with EmulatedMachine.open("pcie5-switch4", seed=1, order="random") as machine:
        ping_pong_with_payload(machine, transport, Variant())
    assert {one.kind for one in unordered if "payloads of rank" in one.address} == {"read", "overwrite"}


@pytest.mark.parametrize("path", ["vector", "bulk"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_watermark(machine: EmulatedMachine, unordered: Unordered, transport: Transport, path: StorePath) -> None:
    pusher = Pusher(machine, transport, "all-to-all", 2, SMALL, SMALL.rows, seed=0, deadline_s=DEADLINE_S)
    for chunk, piece in ((8, 3), (1, 1), (36, 5)):
        assert pusher.push(path, SMALL.plan(chunk, 1, piece), 2).wrong is None
    assert unordered == []
    pusher.push(path, SMALL.plan(8, 1, 3), 2, injection="early")
    assert {one.kind for one in unordered} >= {"overwrite"}
    assert all("rows that rank" in one.address for one in unordered)


@pytest.mark.parametrize("transport", ["peer", "host"])
def test_watermark_by_copy_engines(machine: EmulatedMachine, unordered: Unordered, transport: Transport) -> None:
    pusher = Pusher(machine, transport, "one-to-one", 2, SMALL, SMALL.rows, seed=0, deadline_s=DEADLINE_S)
    for _ in range(2):
        assert pusher.push_by_engine(SMALL.plan(8, 1)).wrong is None
    assert unordered == []
    pusher.push_by_engine(SMALL.plan(8, 1), injection="early")
    assert "copy stream of GPU 0" in {one.source for one in unordered} | {one.by for one in unordered}
    assert all(one.thread == -1 for one in unordered if one.block == -1)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_allreduce(machine: EmulatedMachine, unordered: Unordered, transport: Transport) -> None:
    world = World.build(machine, transport, 2, rows=1)
    allreduce = AllReduce(world, 4 * 40, nodes=2)
    allreduce.write_inputs(0)
    assert machine.run(allreduce.rounds(4), DEADLINE_S).finished
    assert allreduce.wrong_sums() is None
    assert machine.run(allreduce.once(), DEADLINE_S).finished
    assert unordered == []
    torn = AllReduce(world, 4 * 4, control="torn")
    assert machine.run(torn.rounds(4), DEADLINE_S).finished
    assert all("inbox of rank" in one.address for one in unordered)
    assert unordered


@pytest.mark.parametrize(
    ("form", "reported"),
    [
        (SLOTS, False),
        (PLAIN, False),  # strong loads and stores: increments are lost, but nothing is unordered
        (CountForm("add", "atom", "sys"), False),
        (CountForm("cas", "atom", "sys"), False),
        (CountForm("inc", "red", "sys"), False),
        (CountForm("add", "red", "gpu"), True),  # a scope that leaves out the other GPUs
    ],
    ids=str,
)
@pytest.mark.parametrize("home", [HOST, on_device(0)], ids=["host", "peer"])
def test_atomics(machine: EmulatedMachine, unordered: Unordered, home: Place, form: CountForm, reported: bool) -> None:
    world = World.build(machine, "host" if home.is_host else "peer", 4, rows=2, deadline_s=DEADLINE_S)
    counter = Counter(world, home, 64)
    counter.run(form, Requesters((0, 1), cpu=home.is_host and form not in (SLOTS, PLAIN)), Grid.parse("1x4"), 8)
    assert bool(unordered) == reported
    assert all("counted on" in one.address for one in unordered)
