"""compare-nccl on the emulator: ours alone, and whole matches against players that have no library."""

from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from pcietool.contenders.catalog import CONTENDERS, Contender
from pcietool.contenders.player import Measurement
from pcietool.contract.results import ProbeResult, Row, Status
from pcietool.errors import UsageError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common.world import World
from pcietool.probes.compare import comparison
from pcietool.probes.compare import probe as compare
from pcietool.probes.compare.allreduce_kernel import AllReduce
from pcietool.probes.compare.comparison import Comparison, faster
from pcietool.probes.compare.config import CompareConfig
from pcietool.probes.compare.crossover import crossover, crossovers
from pcietool.probes.compare.effort import Effort
from pcietool.probes.compare.ours import OurBarrier
from tests.clock import Clock
from tests.listening import Listener

TWO: dict[str, Any] = {"sizes": (4, 16), "modes": ("eager",), "pairs": 7}
EFFORT = Effort(pairs=7, rounds=5, nodes=20, replays=1)


def compared(
    player: str, environment: dict[str, str] | None = None, contender: Contender | None = None, **options: Any
) -> ProbeResult:
    machine = EmulatedMachine.open("h200-nvlink2")
    world = World.build(machine, "peer", 2, rows=2)
    contender = contender or Contender("fake", "A fake", f"tests.contenders.fake_players:{player}")
    return Comparison(contender, world, CompareConfig(**TWO | options), EFFORT, Listener(), environment or {}).run()


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "gpus_answer", lambda count, environment: ("the GPUs answer", True))


# -- ours alone -------------------------------------------------------------------------------------------------------


def test_without_gpus_ours_is_shown_alone_and_nothing_counts_as_compared() -> None:
    results = compare.run(EmulatedMachine.open("pcie5-switch4"), CompareConfig(sizes=(4,)), Listener())
    assert [(result.transport, result.status) for result in results] == [
        ("peer", Status.WAIVED),
        ("host", Status.WAIVED),
    ]
    for result in results:
        assert result.reason == compare.NOT_EMULATED
        assert {row["mode"] for row in result.rows} == {"in-kernel", "graph", "eager"}
        assert all(row["ours_us_median"] > 0 for row in result.rows)
        assert len(result.checks) == 3
        assert all(check["passed"] for check in result.checks)


def test_a_control_that_is_not_caught_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AllReduce, "wrong_sums", lambda self: None)
    config = CompareConfig(sizes=(4,), modes=("in-kernel",), transport="peer")
    (result,) = compare.run(EmulatedMachine.open("h200-nvlink2"), config, Listener())
    assert result.status is Status.FAIL
    assert result.reason == "control: a torn all-reduce is caught: no sum was wrong"


def test_wrong_sums_of_ours_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AllReduce, "wrong_outputs", lambda self, iteration: "rank 0")
    config = CompareConfig(sizes=(4,), modes=("graph",), transport="peer")
    (result,) = compare.run(EmulatedMachine.open("h200-nvlink2"), config, Listener())
    assert result.status is Status.FAIL
    assert "inline-flag all-reduce of 4 bytes, graph: rank 0" in (result.reason or "")


def test_one_gpu_is_waived_unless_a_transport_is_named() -> None:
    machine = EmulatedMachine.open("h200-nvlink2", gpus=[0])
    results = compare.run(machine, CompareConfig(), Listener())
    assert [result.status for result in results] == [Status.WAIVED, Status.WAIVED]
    assert results[0].reason == "needs two GPUs and there is one"
    with pytest.raises(UsageError, match="--transport host: needs two GPUs"):
        compare.run(machine, CompareConfig(transport="host"), Listener())


# -- against somebody -------------------------------------------------------------------------------------------------


def test_one_process_for_all_gpus_has_no_graph() -> None:
    result = compared("Honest", modes=("graph",))
    assert result.status is Status.WAIVED
    assert "no graph of one process" in (result.reason or "")


def test_a_match_gives_ratios_with_intervals_and_says_what_ran() -> None:
    result = compared("Honest", {"NCCL_ALGO": "Tree"})
    assert result.status is Status.PASS
    assert [(row["ours"], row["bytes"]) for row in result.rows] == [
        ("inline-flag all-reduce", 4),
        ("publishing barrier", None),
        ("relaxed barrier", None),
        ("inline-flag all-reduce", 16),
    ]
    for row in result.rows:
        assert row["theirs_us_median"] == 10.0, "the first repetition does not count"
        assert row["times_faster_median"] == pytest.approx(10.0 / row["ours_us_median"], rel=0.05)
        assert row["times_faster_median_low"] <= row["times_faster_median"] <= row["times_faster_median_high"]
        assert (row["library"], row["transports_ran"]) == ("honest 1.0", ["P2P/CUMEM"])
    assert [row["algorithm"] for row in result.rows] == ["RING LL", "RING LL", "RING LL", None]
    assert "transport P2P/CUMEM" in result.checks[0]["text"]
    assert "x faster" in result.verdict


def test_of_several_processes_the_shortest_counts_around_launches_and_the_longest_in_a_kernel() -> None:
    barrier = Measurement("barrier", "graph"), Measurement("LSA relaxed", "in-kernel")
    contender = Contender(
        "fake", "A fake", "tests.contenders.fake_players:Honest", process_a_gpu=True, barriers=barrier
    )
    result = compared("", contender=contender, modes=("graph", "in-kernel"))
    figures = {(row["theirs"], row["ours"]): row["theirs_us_median"] for row in result.rows}
    assert figures[("barrier", "publishing barrier")] == 10.0
    assert figures[("LSA relaxed", "relaxed barrier")] == 100.0  # one repetition
    assert ("LSA relaxed", "publishing barrier") not in figures, "relaxed against relaxed only"


@pytest.mark.parametrize(
    ("player", "status", "reason"),
    [
        ("Absent", Status.WAIVED, "it is not installed: pip install it"),
        ("Wrong", Status.FAIL, "wrong data: element 3 is wrong"),
        ("Fails", Status.ERROR, "no reason; afterwards the GPUs answer"),
    ],
)
def test_what_a_contender_does_ends_its_part_only(player: str, status: Status, reason: str) -> None:
    result = compared(player)
    assert result.status is status
    assert (result.reason or "").endswith(reason)


@pytest.mark.parametrize(("player", "stage"), [("HangsInInit", "ncclCommInitAll"), ("HangsInRun", "all-reduce, eager")])
def test_a_contender_that_hangs_is_named_killed_and_the_gpus_are_checked(
    player: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pcietool.contenders.team.time", Clock(2.0))
    result = compared(player)
    assert result.status is Status.HANG
    assert f"stage {stage}; its processes were killed; afterwards the GPUs answer" in (result.reason or "")
    assert result.hang is not None
    assert result.hang["gpus_lost"] is False


def test_settings_of_the_user_that_forbid_a_contender_waive_it() -> None:
    result = compared("", {"NCCL_P2P_DISABLE": "0"}, CONTENDERS["nccl-host"])
    assert result.status is Status.WAIVED
    assert "NCCL_P2P_DISABLE=0 is set and kept" in (result.reason or "")


# -- what figures say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratios", "crossing"),
    [
        ([(4, 3.0), (64, 1.1), (1024, 0.9), (4096, 0.5)], 1024),
        ([(4, 3.0), (64, 0.9), (1024, 1.2), (4096, 0.5)], 4096),
        ([(4096, 0.5), (4, 3.0)], 4096),
        ([(4, 0.9), (64, 0.8)], 4),
        ([(4, 3.0), (64, 0.9), (1024, 1.0)], None),
    ],
)
def test_the_crossover_is_where_theirs_stays_faster(ratios: list[tuple[int, float]], crossing: int | None) -> None:
    found = crossover(ratios)
    assert found["crossover_bytes"] == crossing
    assert ("crossover_bytes_reason" in found) is (crossing is None)


def test_crossovers_are_told_for_each_contender_and_mode() -> None:
    rows = [
        {"contender": "a", "mode": mode, "bytes": nbytes, "times_faster_median": times}
        for mode, times in (("graph", 2.0), ("eager", 0.5))
        for nbytes in (None, 4, 16)
    ]
    table = {(row["contender"], row["mode"]): row["crossover_bytes"] for row in crossovers(rows)}
    assert table == {("a", "graph"): None, ("a", "eager"): 4}


def test_faster_and_slower_are_said_in_words() -> None:
    row = {"times_faster_median": 2.0, "times_faster_median_low": 1.9, "times_faster_median_high": 2.1}
    assert faster(row) == "2.00 x faster [1.90, 2.10]"
    row = {"times_faster_median": 0.5}
    assert faster({**row, "times_faster_median_low": None, "times_faster_median_high": None}) == "2.00 x slower"


@pytest.mark.parametrize(
    "config",
    [
        {"sizes": (3,)},
        {"sizes": (0,)},
        {"min_bytes": 2},
        {"min_bytes": 8, "max_bytes": 4},
        {"max_bytes": 32 << 20},
        {"factor": 1},
        {"contenders": ("gloo",)},
        {"transport": "self"},
        {"init_timeout_s": 600},
    ],
)
def test_what_makes_no_sense_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CompareConfig(**config)


@pytest.mark.parametrize(
    ("contender", "transport", "text"),
    [("nccl", "host", "beside ours on --transport peer"), ("nccl", None, "need real GPUs"),
     ("nccl-host", "host", "need real GPUs"), ("nccl-host", "peer", "beside ours on --transport host")],
)  # fmt: skip
def test_a_contender_that_cannot_take_part_is_refused(contender: str, transport: str | None, text: str) -> None:
    config = CompareConfig(contenders=(contender,), transport=transport)
    with pytest.raises(UsageError, match=f"--contender {contender}: .*{text}"):
        compare.run(EmulatedMachine.open("h200-nvlink2"), config, Listener())


def test_sizes_are_a_range_or_a_list() -> None:
    assert CompareConfig().all_sizes("cuda") == [4 << 2 * step for step in range(10)][:10]
    assert CompareConfig(sizes=(8192, 4)).all_sizes("cuda") == [4, 8192]
    assert CompareConfig(min_bytes=1024).all_sizes("emulated") == [1024]


def test_the_crossover_reads_as_a_sentence() -> None:
    rows: list[Row] = [
        {"contender": "nccl", "mode": "graph", "crossover_bytes": 4096},
        {"contender": "torch", "mode": "launched", "crossover_bytes": None},
    ]
    said = "theirs is faster: nccl graph: from 4096 bytes on; torch launched: never up to the largest size"
    assert compare._crossover_text(rows) == said


def test_every_order_of_ours_is_measured_in_each_mode() -> None:
    world = World.build(EmulatedMachine.open("h200-nvlink2"), "peer", 2, rows=2)
    config = CompareConfig(modes=("in-kernel", "graph"))
    barriers = [make for make, nbytes in compare._all_of_ours(world, config, Mock()) if nbytes is None]
    made = sorted(make.args[1:3] for make in barriers if isinstance(make, partial) and make.func is OurBarrier)
    alike = [(order, mode) for order in ("publishing", "relaxed", "article") for mode in config.modes]
    assert made == sorted([*alike, ("floor", "in-kernel")])


def test_each_repetition_has_a_payload_of_its_own_and_the_first_does_not_count() -> None:
    asked: list[int] = []

    def repetition_us(iteration: int) -> float:
        asked.append(iteration)
        return {10: 900.0, 11: 3.0, 12: 1.0, 13: 2.0}[iteration]

    ours = OurBarrier.__new__(OurBarrier)
    ours._effort, ours._replay_us = Mock(replays=3), Mock()
    ours.repetition_us = repetition_us  # type: ignore[method-assign]
    assert ours.turn(10) == 2.0
    assert asked == [10, 11, 12, 13]
