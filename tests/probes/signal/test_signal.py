"""signal-latency on emulated machines: plausible times, wrong data and dead partners noticed."""

from collections.abc import Iterator
from typing import Any

import pytest

from pcietool.contract.results import ProbeResult, Row, Status
from pcietool.errors import UsageError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common.checks import guard_check, judge
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import World
from pcietool.probes.signal import checks
from pcietool.probes.signal.config import SignalConfig
from pcietool.probes.signal.effort import Effort
from pcietool.probes.signal.ping_pong import Bulk, PingPong, PingPongMemory, Variant, slot_rows
from pcietool.probes.signal.probe import run
from pcietool.probes.signal.roles import Injection, Pair
from scripts import recorded
from tests.listening import Listener

BULK = Bulk(movers=2, threads=32, nbytes=1024, passes=4)
SMALL: dict[str, Any] = {"iterations": 4, "launches": 2, "waits": ("acquire",), "nanosleeps_ns": (0,), "max_bytes": 8}


def measure(machine: EmulatedMachine, **options: Any) -> list[ProbeResult]:
    return run(machine, SignalConfig(**SMALL | options), Listener())


def of_fabric(fabric: str, gpus: int, **options: Any) -> list[ProbeResult]:
    with EmulatedMachine.open(fabric, range(gpus)) as machine:
        return measure(machine, **options)


def row_of(result: ProbeResult, varied: str) -> Row:
    [row] = [row for row in result.rows if row["varied"] == varied and not row["in_matrix"]]
    return row


@pytest.fixture(scope="module")
def pcie() -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("pcie5-switch4", range(4)) as machine:
        yield machine


@pytest.fixture
def memory(pcie: EmulatedMachine) -> Iterator[PingPongMemory]:
    yield from opened_memory(pcie, "peer")


def opened_memory(machine: EmulatedMachine, transport: Transport) -> Iterator[PingPongMemory]:
    ranks = 2 if transport == "self" else len(machine.devices)
    world = World.build(machine, transport, ranks, slot_rows(ranks), deadline_s=0.05)
    memory = PingPongMemory(world, 1024, BULK)
    yield memory
    memory.free()
    world.free()


# -- times ------------------------------------------------------------------------------------------------------------


def test_every_pair_of_a_switch_is_plausible_and_stands_in_the_matrix(pcie: EmulatedMachine) -> None:
    peer, host = measure(pcie)
    for result in (peer, host):
        assert (result.status, result.reason) == (Status.PASS, None)
        assert result.matrix is not None
        cells = result.matrix["cells"]
        assert all((cells[w][o] is None) == (w == o) for w in range(4) for o in range(4))
        assert all(cell is None or 0.4 < cell < 10 for row in cells for cell in row)
        pairs = {(r["writer"], r["owner"]): r["one_way_us_p50"] for r in result.rows if r["in_matrix"]}
        assert all(cells[writer][owner] == median for (writer, owner), median in pairs.items())
        assert len(pairs) == 12
    assert row_of(host, "acquire")["one_way_us_p50"] > row_of(peer, "acquire")["one_way_us_p50"]
    assert {r["poll"] for r in host.rows} == {"host memory"}


def test_pairs_under_different_roots_are_slower() -> None:
    [peer] = of_fabric("pcie5-two-roots8", 8, transport="peer", pairings=(), polls=("local",))
    assert peer.matrix is not None
    same, cross = ([], [])  # type: tuple[list[float], list[float]]
    for writer in range(8):
        for owner in range(8):
            if writer != owner:
                (same if writer // 4 == owner // 4 else cross).append(peer.matrix["cells"][writer][owner])
    assert min(cross) > 1.2 * max(same)


def test_remote_polls_cost_a_round_trip_and_count_themselves(pcie: EmulatedMachine) -> None:
    [peer] = measure(pcie, transport="peer")
    assert row_of(peer, "remote polls")["times_base"] > 1.3
    alone, one, many = (
        row_of(peer, f"push, {text}") for text in ("no remote pollers", "1 remote poller", "64 remote pollers")
    )
    assert alone["polls_per_us"] == 0 < one["polls_per_us"] < many["polls_per_us"]
    assert alone["moved_gb_per_s_to_alone_median"] == 1.0
    assert many["moved_gb_per_s"] < alone["moved_gb_per_s"]


def test_nanosleep_and_fence_cost_time(pcie: EmulatedMachine) -> None:
    [peer] = measure(
        pcie, transport="peer", waits=("acquire", "relaxed-fence"), nanosleeps_ns=(0, 2000), polls=("local",)
    )
    assert row_of(peer, "fence instead of acquire")["times_base"] > 1.1
    assert row_of(peer, "nanosleep 2000")["times_base"] > 1.1


def test_payloads_grow_by_the_factor_and_cost_more(pcie: EmulatedMachine) -> None:
    [peer] = measure(pcie, transport="peer", polls=("local",), min_bytes=8, max_bytes=1024, factor=8)
    by_size = {r["payload_bytes"]: r["one_way_us_p50"] for r in peer.rows if r["payload_bytes"]}
    assert list(by_size) == [8, 64, 512, 1024]
    assert by_size[1024] > by_size[8] > row_of(peer, "acquire")["one_way_us_p50"]


def test_load_on_the_link_is_felt(pcie: EmulatedMachine) -> None:
    [peer] = measure(pcie, transport="peer", polls=("local",), pairings=("isolated",), load="all")
    quiet = row_of(peer, "acquire")
    assert (quiet["moved_gb_per_s"], quiet["moved_gb_per_s_reason"]) == (None, "no block moves bulk data meanwhile")
    for load in ("push", "pull", "push and pull"):
        assert row_of(peer, f"under {load}")["moved_gb_per_s"] > 1
    assert row_of(peer, "under push")["one_way_us_p50"] > quiet["one_way_us_p50"]


def test_pairs_play_at_the_same_time(pcie: EmulatedMachine) -> None:
    [peer] = measure(pcie, transport="peer", polls=("local",))
    assert row_of(peer, "disjoint pairs")["pairs"] == 2
    together = row_of(peer, "all pairs")
    assert together["pairs"] == 12
    assert together["slowest_pair_one_way_us_p50"] >= together["one_way_us_p50"] * 0.99


# -- what is right ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("injection", ["corrupt-payload", "early-signal"])
def test_a_wrong_payload_fails_and_names_the_word(pcie: EmulatedMachine, injection: str) -> None:
    [peer] = measure(pcie, transport="peer", max_bytes=512, inject=injection)
    assert peer.status is Status.FAIL
    assert peer.reason is not None
    assert "rank 0 from rank 1, round 4: payload word" in peer.reason


@pytest.mark.parametrize(
    ("injection", "noticed"), [(Injection.NONE, False), (Injection.CORRUPT, True), (Injection.BACK, True)]
)
@pytest.mark.parametrize("transport", ["peer", "host", "self"])
def test_self_test_notices_what_is_wrong_and_nothing_else(
    pcie: EmulatedMachine, transport: Transport, injection: Injection, noticed: bool
) -> None:
    for memory in opened_memory(pcie, transport):
        wrong = checks._wrong(memory, [Pair(0, 1), Pair(1, 0)], injection)
        assert bool(wrong) == noticed


def test_a_control_that_finds_nothing_is_a_failure(pcie: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that misbehave nowhere: what the controls ask for is not there to be found."""
    monkeypatch.setattr(checks, "CHECKED", Variant(payload=True, checked=True))
    [peer] = measure(pcie, transport="peer", pairings=(), polls=("local",))
    controls = {found["name"]: found["passed"] for found in peer.checks if "control" in found["name"]}
    assert controls == {"control: a wrong word is caught": False, "control: a slot that goes back is caught": False}
    assert (peer.status, peer.reason) == (Status.FAIL, "control: a wrong word is caught: nobody noticed")


def test_values_are_checked_on_slots_that_others_used_longer(memory: PingPongMemory) -> None:
    PingPong(memory, Variant(), memory.pair(Pair(0, 1), "local"), rounds=50).run("some pair runs ahead")
    for _ in range(2):
        assert checks._wrong(memory, [Pair(0, 1), Pair(2, 3)], Injection.NONE) == []


def test_sequences_go_on_where_the_slots_are(memory: PingPongMemory) -> None:
    for rounds in (3, 5):
        for variant in (Variant(), Variant(wait="relaxed-fence")):
            PingPong(memory, variant, memory.pair(Pair(0, 1), "local"), rounds).run("test")
    [there] = [role for role in memory.pair(Pair(0, 1), "local") if role.rank == 1]
    offset = there.mine - memory.world.slots[1].address
    assert memory.reached == memory.world.slots[1].read("u4", 1, offset)[0] == 16


def test_a_damaged_guard_is_seen(memory: PingPongMemory) -> None:
    assert guard_check(memory.world)["passed"]
    memory.world.slots[1].fill(0)
    assert not guard_check(memory.world)["passed"]


@pytest.mark.parametrize(
    ("median", "floor", "doubt"),
    [
        (0.6, 0.5, None),
        (0.3, 0.2, "error of measurement"),
        (11.0, 0.5, "slow link"),
        (0.6, 0.7, "error of measurement"),
    ],
)
def test_implausible_times_are_a_warning(
    memory: PingPongMemory, median: float, floor: float, doubt: str | None
) -> None:
    found = checks.plausibility(memory.world.machine, memory.world, [[None, median], [median, None]], floor)
    assert sum(not check["passed"] for check in found) == bool(doubt)
    status, reason = judge(found)
    assert status is (Status.WARN if doubt else Status.PASS)
    assert reason is None if doubt is None else doubt in str(reason)


# -- hangs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("injection", ["dead-rank", "drop-signal"])
@pytest.mark.parametrize("transport", ["peer", "host", "self"])
def test_a_dead_partner_is_a_hang_that_names_the_slot(pcie: EmulatedMachine, transport: str, injection: str) -> None:
    [result] = measure(pcie, transport=transport, inject=injection)
    assert result.status is Status.HANG
    assert result.hang is not None
    record = result.hang["records"][0]
    assert (record["rank"], record["row"], record["col"]) == (0, 2, 1)
    assert (record["wanted"], record["got"]) == (4, 3)
    assert "slot (row 2, col 1): wanted 4, got 3" in result.verdict
    assert result.reason is not None
    assert "rank 1" in result.reason  # where it only dropped a signal, it waits in vain itself, later
    assert result.hang["proof"]


def test_a_stall_is_survived(pcie: EmulatedMachine) -> None:
    [result] = measure(pcie, transport="peer", inject="stall=50", polls=("local",))
    assert result.status is Status.PASS
    assert "one rank stalled 50 µs: survived" in [check["text"] for check in result.checks]


# -- which machines ---------------------------------------------------------------------------------------------------


def test_one_gpu_plays_with_itself() -> None:
    results = of_fabric("pcie5-switch4", 1)
    assert {r.transport: r.status for r in results} == {
        "peer": Status.WAIVED,
        "host": Status.WAIVED,
        "self": Status.PASS,
    }
    with pytest.raises(UsageError, match="two GPUs"):
        of_fabric("pcie5-switch4", 1, transport="peer")


def test_h200_is_close_to_what_was_measured() -> None:
    peer, host = of_fabric("h200-nvlink2", 2, iterations=10, polls=("local",))
    for result in (peer, host):
        measured = recorded.row("h200x2/signal-latency", result.transport, in_matrix=False, varied="acquire")
        modelled_us = row_of(result, "acquire")["round_trip_us_p50"]
        assert modelled_us == pytest.approx(measured["round_trip_us_p50"], rel=0.25)


def test_same_seed_same_rows() -> None:
    first, second = (of_fabric("pcie5-switch4", 2, transport="peer") for _ in range(2))
    assert first[0].rows == second[0].rows
    assert first[0].checks == second[0].checks


# -- what cannot be asked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"iterations": 0},
        {"min_bytes": 4},
        {"min_bytes": 12},
        {"max_bytes": 128 * 1024},
        {"min_bytes": 64, "max_bytes": 8},
        {"factor": 1},
        {"nanosleeps_ns": (-1,)},
        {"waits": ()},
        {"inject": "stall"},
    ],
)
def test_nonsense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SignalConfig(**options)


def test_more_rounds_than_one_kernel_holds_take_more_launches(
    pcie: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pcie, "backend", "cuda")
    effort = Effort.of(pcie, SignalConfig(iterations=100_000, launches=1))
    assert effort.rounds + effort.warmup <= 8192
    assert effort.rounds * effort.launches >= 100_000
