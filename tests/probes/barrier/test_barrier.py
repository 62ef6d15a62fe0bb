"""barrier-latency on the emulator: figures that must hold, and controls that must fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pcietool import data
from pcietool.compiler import compile_source
from pcietool.contract.results import ProbeResult, Status
from pcietool.data import kernel_source
from pcietool.errors import UsageError
from pcietool.machines.base import Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.barrier import probe as barrier
from pcietool.probes.barrier.config import BarrierConfig
from pcietool.probes.barrier.kernel import Barrier
from pcietool.probes.common.world import World
from pcietool.units import micros
from scripts import recorded
from tests.listening import Listener

FEW: dict[str, Any] = {"iterations": 12, "warmup": 2, "launches": 2}


def run(machine: Machine, **config: Any) -> list[ProbeResult]:
    few = FEW if "in-kernel" in config.get("modes", ("in-kernel",)) else {}
    return barrier.run(machine, BarrierConfig(**{**few, **config}), Listener())


@pytest.fixture
def h200() -> EmulatedMachine:
    return EmulatedMachine.open("h200-nvlink2")


@pytest.fixture
def switch4() -> EmulatedMachine:
    return EmulatedMachine.open("pcie5-switch4")


def mean_us(result: ProbeResult, order: str, mode: str = "in-kernel") -> float:
    (row,) = [row for row in result.rows if row["order"] == order and row["mode"] == mode]
    return float(row["mean_period_us"])


@pytest.mark.parametrize("order", ["publishing", "relaxed"])
@pytest.mark.parametrize("transport", ["peer", "host"])
def test_the_h200_fabric_predicts_the_measured_period(h200: EmulatedMachine, transport: str, order: str) -> None:
    (result,) = run(h200, transport=transport, orders=(order,), modes=("in-kernel",), iterations=200)
    assert mean_us(result, order) == pytest.approx(recorded.barrier(transport, order), rel=0.25)


@pytest.mark.parametrize("transport", ["peer", "host"])
def test_the_h200_fabric_predicts_the_graph(h200: EmulatedMachine, transport: str) -> None:
    (result,) = run(h200, transport=transport, orders=("publishing",), modes=("graph",))
    measured_us = recorded.barrier(transport, "publishing", "graph")
    assert mean_us(result, "publishing", "graph") == pytest.approx(measured_us, rel=0.4)


def test_every_order_and_mode_has_a_row_on_every_transport(switch4: EmulatedMachine) -> None:
    results = run(switch4, transport="all")
    assert [result.transport for result in results] == ["peer", "host", "self"]
    for result in results:
        assert result.status is Status.PASS
        rows = {(row["order"], row["mode"]) for row in result.rows}
        assert {(order, "in-kernel") for order in ("publishing", "relaxed", "article", "floor")} <= rows
        assert {("publishing", "launched"), ("publishing", "graph")} <= rows
        placed = result.transport != "host"
        assert all((row["slot_poll_cycles"] is not None) == placed for row in result.rows)
        assert all(("slot_poll_cycles_reason" not in row) == placed for row in result.rows)
        assert all(check["passed"] for check in result.checks)


def test_a_publishing_round_costs_a_system_fence_more_than_a_relaxed_one(h200: EmulatedMachine) -> None:
    (result,) = run(h200, transport="peer", modes=("in-kernel",))
    fence_us = h200.spec.gpu.fence_sys_ns.value / 1e3
    assert mean_us(result, "publishing") >= mean_us(result, "relaxed") + 0.9 * fence_us
    assert mean_us(result, "floor") <= mean_us(result, "relaxed") * 1.05


def test_ranks_under_different_roots_take_longer() -> None:
    near = EmulatedMachine.open("pcie5-two-roots8", gpus=[0, 1])
    far = EmulatedMachine.open("pcie5-two-roots8", gpus=[0, 4])
    periods = [
        mean_us(run(machine, transport="peer", orders=("publishing",), modes=("in-kernel",))[0], "publishing")
        for machine in (near, far)
    ]
    assert periods[1] > periods[0] + 0.2


def test_sweep_measures_every_number_of_ranks(switch4: EmulatedMachine) -> None:
    (result,) = run(switch4, transport="peer", orders=("publishing",), modes=("in-kernel",), sweep=True)
    assert [row["world"] for row in result.rows] == [2, 3, 4]


def test_the_control_without_a_wait_fails_the_self_test(switch4: EmulatedMachine) -> None:
    world = World.build(switch4, "peer", 4, rows=2)
    for no_wait, blocks in ((False, True), (True, False)):
        tested = Barrier(switch4, world, "publishing", BarrierConfig(), no_wait=no_wait, inject=True)
        late_us, span_us = barrier._least_span_us(tested)
        assert late_us >= barrier.DELAY_NS / 1e3
        assert (span_us >= late_us - barrier.TIMER_STEP_US) is blocks
        world.reset()


def test_a_barrier_that_does_not_block_is_a_failure(switch4: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "_least_span_us", lambda tested: (tested.free(), (200.0, 3.0))[1])
    (result,) = run(switch4, transport="peer", orders=("publishing",), modes=())
    assert result.status is Status.FAIL
    assert "barrier blocks" in (result.reason or "")


def test_a_control_that_blocks_is_a_failure_too(switch4: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "_least_span_us", lambda tested: (tested.free(), (200.0, 500.0))[1])
    (result,) = run(switch4, transport="peer", orders=("publishing",), modes=())
    assert result.status is Status.FAIL
    assert "control" in (result.reason or "")


def test_one_sequence_goes_through_all_orders_of_a_world(h200: EmulatedMachine) -> None:
    """Two kernels on the same slots go on counting; one that counted anew would take old signals for its own."""
    world = World.build(h200, "peer", 2, rows=2)
    rounds = 6
    mean_ns = {}
    for order in ("publishing", "relaxed"):
        tested = Barrier(h200, world, order, BarrierConfig())
        assert h200.run(tested.rounds(rounds), 2.0).finished
        mean_ns[order] = tested.read_periods_ns(rounds).mean()
    one_way_ns = h200.spec.peer.write_latency_ns.value
    assert min(mean_ns.values()) > one_way_ns
    assert all((s.read(np.uint32) == 2 * rounds)[rank] for rank, s in world.sequences.items())
    for sequence in world.sequences.values():  # the control: counting anew on used slots
        sequence.fill(0)
    anew = Barrier(h200, world, "relaxed", BarrierConfig())
    assert h200.run(anew.rounds(rounds), 2.0).finished
    assert anew.read_periods_ns(rounds).mean() < one_way_ns


def test_overwritten_guard_words_are_found(switch4: EmulatedMachine) -> None:
    world = World.build(switch4, "host", 2, rows=2)
    assert world.damaged_guards() == []
    world.slots[1].write(np.zeros(4, np.uint8), world.slots[1].nbytes - 4)
    assert world.damaged_guards() == ["4 guard bytes behind the slots of rank 1 were overwritten"]


@pytest.mark.parametrize("inject", ["dead-rank", "drop-signal", "beyond-residency"])
def test_a_failure_names_the_slot_and_the_next_command_works(switch4: EmulatedMachine, inject: str) -> None:
    (result,) = run(switch4, transport="peer", inject=inject)
    assert result.status is Status.HANG
    assert result.hang is not None
    record = next(r for r in result.hang["records"] if r["reason"] == "deadline")
    expected = {
        "dead-rank": {"row": 1, "col": 3, "wanted": 1, "got": 0},
        "drop-signal": {"row": 1, "col": 3, "wanted": 4, "got": 3},
        "beyond-residency": {"row": 0, "wanted": 1, "got": 0},
    }[inject]
    assert expected.items() <= record.items()
    assert result.hang["proof"]
    (after,) = run(switch4, transport="peer", orders=("publishing",), modes=("in-kernel",))
    assert after.status is Status.PASS


def test_a_stalled_rank_is_survived(switch4: EmulatedMachine) -> None:
    (result,) = run(switch4, transport="peer", inject="stall=50", orders=("publishing",), modes=("in-kernel",))
    assert result.status is Status.PASS
    assert result.checks[0] == {
        "name": "--inject stall=50",
        "passed": True,
        "text": "one rank stalled 50 µs: survived",
    }


@pytest.mark.parametrize(
    ("orders", "modes", "headline"),
    [
        (("article", "relaxed"), ("launched", "graph"), "4 ranks pass a relaxed barrier in {} µs (graph, mean period)"),
        (("article",), ("launched",), "4 ranks pass an article barrier in {} µs (launched, mean period)"),
    ],
)
def test_the_headline_is_the_mean_of_the_strongest_order_that_was_measured(
    switch4: EmulatedMachine, orders: tuple[str, ...], modes: tuple[str, ...], headline: str
) -> None:
    (result,) = run(switch4, transport="peer", orders=orders, modes=modes)
    order, mode = headline.split()[4], headline.split("(")[1].split(",")[0]
    assert result.verdict == headline.format(micros(mean_us(result, order, mode)))


def test_the_headline_says_what_the_order_costs_beside_the_floor(switch4: EmulatedMachine) -> None:
    (result,) = run(switch4, transport="peer", orders=("floor", "publishing"), modes=("in-kernel",))
    above = micros(mean_us(result, "publishing") - mean_us(result, "floor"))
    assert result.verdict.endswith(f"{above} µs above the floor of relaxed signals")
    (alone,) = run(switch4, transport="peer", orders=("floor",), modes=("in-kernel",))
    assert "above" not in alone.verdict


def test_a_floor_outside_a_kernel_is_refused_or_has_a_reason(switch4: EmulatedMachine) -> None:
    with pytest.raises(UsageError, match=r"--order floor: .*only exists in-kernel"):
        BarrierConfig(orders=("floor",), modes=("launched", "graph"))
    (result,) = run(switch4, transport="peer", orders=("floor", "relaxed"), modes=("graph",))
    (floor,) = [row for row in result.rows if row["order"] == "floor"]
    assert floor["mean_period_us"] is None
    assert "in-kernel" in floor["reason"]


def test_a_machine_without_graphs_says_so_and_measured_nothing_is_no_pass(
    switch4: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch4, "missing", lambda capability: "no graphs here")
    (result,) = run(switch4, transport="peer", orders=("relaxed",), modes=("graph",))
    assert [row["reason"] for row in result.rows] == ["no graphs here"]
    assert (result.status, result.verdict, result.reason) == (Status.ERROR, "nothing was measured", "no graphs here")


def test_one_sample_gives_a_mean_and_nothing_else(switch4: EmulatedMachine) -> None:
    (result,) = run(switch4, transport="peer", orders=("relaxed",), modes=("graph", "in-kernel"))
    graph, in_kernel = result.rows
    assert graph["launches"] == 1
    assert graph["mean_period_us"] > 0
    assert {graph[f"period_us_{name}"] for name in ("min", "p50", "p95", "p99", "max")} == {None}
    assert "gives a mean" in graph["period_us_reason"]
    assert in_kernel["period_us_p50"] > 0


def test_what_was_measured_before_an_interruption_is_in_the_part_that_began(
    switch4: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = Listener()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(barrier, "_in_graph", interrupted)
    with pytest.raises(KeyboardInterrupt):
        barrier.run(switch4, BarrierConfig(**FEW, transport="host", orders=("relaxed",)), observer)
    assert observer.results == []
    (begun,) = observer.begun
    assert [row["mode"] for row in begun.rows] == ["in-kernel", "launched"]
    assert [check["name"] for check in begun.checks] == [
        "relaxed barrier blocks",
        "control without a wait is caught",
    ]


def test_the_effort_says_what_the_defaults_were(switch4: EmulatedMachine) -> None:
    (result,) = barrier.run(
        switch4, BarrierConfig(transport="self", orders=("floor",), modes=("in-kernel",)), Listener()
    )
    assert result.effort == {"rounds": 50, "launches": 2, "replays": 1}


@pytest.mark.parametrize("stall_us", [300_000, 99_999_999])
def test_a_wait_ends_at_its_deadline_although_others_still_run(switch4: EmulatedMachine, stall_us: int) -> None:
    """Nothing is stuck for ever here, the late rank is only too late."""
    (result,) = run(switch4, transport="peer", inject=f"stall={stall_us}", timeout_s=0.1)
    assert result.status is Status.HANG
    assert result.hang is not None
    late = [r for r in result.hang["records"] if r["reason"] == "deadline"]
    assert {r["col"] for r in late} == {3}
    assert all(0.1e9 <= r["since_entry_ns"] < 0.11e9 for r in late)


def test_one_gpu_runs_both_roles_and_waives_the_rest() -> None:
    machine = EmulatedMachine.open("pcie5-switch4", gpus=[0])
    results = run(machine, orders=("publishing",), modes=("in-kernel",))
    assert [(r.transport, r.status) for r in results] == [
        ("peer", Status.WAIVED),
        ("host", Status.WAIVED),
        ("self", Status.PASS),
    ]
    assert all("two GPUs" in (r.reason or "") for r in results[:2])
    with pytest.raises(UsageError, match="--transport peer: needs two GPUs"):
        run(machine, transport="peer")


def test_several_blocks_a_rank_meet_before_they_signal(switch4: EmulatedMachine) -> None:
    (result,) = run(switch4, transport="peer", blocks=3, threads=64, orders=("publishing",), modes=("in-kernel",))
    assert result.status is Status.PASS
    assert (result.rows[0]["blocks"], result.rows[0]["threads"]) == (3, 64)


ONE: dict[str, Any] = {"transport": "peer", "orders": ("publishing",), "modes": ("in-kernel",)}
SYNC_BEFORE_RELEASE = """    __syncthreads();
    if (threadIdx.x == 0) store_release_gpu(released, sequence);
"""


@pytest.mark.parametrize("blocks", [2, 4])
def test_blocks_that_are_let_go_before_the_peers_have_come_are_noticed(
    switch4: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    """The elected block waits, but the others of its rank do not."""
    source = data.kernel_source("barrier.cu")
    assert SYNC_BEFORE_RELEASE in source
    broken = source.replace(SYNC_BEFORE_RELEASE, SYNC_BEFORE_RELEASE.split("\n", 1)[1])
    for text, status in ((source, Status.PASS), (broken, Status.FAIL)):
        texts = {"barrier.cu": text}
        monkeypatch.setattr(data, "kernel_source", lambda name, texts=texts: texts.get(name) or kernel_source(name))
        switch4._programs.clear()
        (result,) = run(switch4, blocks=blocks, threads=64, **ONE)
        assert result.status is status
    assert "publishing barrier blocks" in (result.reason or "")


def test_each_rank_is_late_once(h200: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[int] = []
    rounds = Barrier.rounds

    def noted(self: Barrier, *args: Any, **named: Any) -> Any:
        if named.get("delay_ns"):
            late.append(named["rank"])
        return rounds(self, *args, **named)

    monkeypatch.setattr(Barrier, "rounds", noted)
    run(h200, transport="peer", orders=("publishing",), modes=())
    assert late == [0, 1] * 2, "of the barrier, and of the control"


@pytest.mark.gpu
def test_barrier_blocks_on_real_gpus() -> None:
    from pcietool.errors import NothingToRunError
    from pcietool.machines import open_machine

    try:
        machine = open_machine("cuda", None, None, None, 0)
    except NothingToRunError as nothing:
        pytest.skip(str(nothing))
    with machine:
        for result in run(machine, transport="all" if len(machine.devices) > 1 else None, iterations=200):
            assert result.status in (Status.PASS, Status.WAIVED)


def test_only_a_kernel_that_waits_for_the_launch_before_may_overlap_it(switch4: EmulatedMachine) -> None:
    """And it waits for it, on the architectures that can start it early, before it reads what that one wrote."""
    world = World.build(switch4, "peer", 4, rows=2)
    tested = Barrier(switch4, world, "publishing", BarrierConfig())
    assert all(launch.overlaps for launch in tested.once())
    assert not any(launch.overlaps for launch in tested.rounds(2))
    for source, kernel in (("barrier.cu", "barrier_once"), ("allreduce.cu", "allreduce_once")):
        for architecture, waits in (((9, 0), True), ((8, 9), False)):
            ptx = compile_source(kernel_source(source), name=source, architecture=architecture, defines={}).ptx
            once = ptx[ptx.index(f".entry {kernel}(") :].split(".entry", 2)[1]
            assert ("griddepcontrol.wait" in once) is waits
            others = ptx.replace(once, "")
            assert "griddepcontrol" not in others
