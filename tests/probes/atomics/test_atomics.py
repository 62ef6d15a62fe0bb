"""atomic-loss on emulated machines: what is lost where, and what that means for the verdict."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_args

import pytest

from pcietool.contract.results import ProbeResult, Status
from pcietool.errors import UsageError
from pcietool.machines.base import HOST, Machine, on_device
from pcietool.machines.devices import Link
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics import probe
from pcietool.probes.atomics.config import AtomicsConfig, Grid, Operation
from pcietool.probes.atomics.counting import PLAIN, SLOTS, WIDE, WITHOUT_RED, Count, Counter, Form, Requesters
from pcietool.probes.atomics.marks import MARKING
from pcietool.probes.atomics.probe import judge, run
from pcietool.probes.atomics.word_home import Home
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import World
from tests.listening import Listener

ADD = Form("add", "atom", "sys")
TOLERANCE = 0.02


def measure(machine: EmulatedMachine, **options: Any) -> list[ProbeResult]:
    return run(machine, AtomicsConfig(**options), Listener())


def opened(fabric: str, gpus: int) -> EmulatedMachine:
    return EmulatedMachine.open(fabric, range(gpus))


@pytest.fixture(scope="module")
def pcie() -> Iterator[EmulatedMachine]:
    with opened("pcie5-switch4", 4) as machine:
        yield machine


@contextmanager
def counter_on(
    machine: Machine, home: int | None, deadline_s: float = 2.0, transport: Transport | None = None
) -> Iterator[Counter]:
    """For a word in host memory (home None) or on a GPU, and all GPUs of a machine (`self`: one)."""
    transport = transport or ("host" if home is None else "peer")
    world = World.build(machine, transport, 1 if transport == "self" else len(machine.devices), 2, deadline_s)
    counter = Counter(world, HOST if home is None else on_device(home), 64)
    yield counter
    counter.free()
    world.free()


def lost_fraction(
    counter: Counter, form: Form, requesters: Requesters, grid: str = "1x4", operations: int = 64
) -> float:
    came = counter.run(form, requesters, Grid.parse(grid), operations)
    assert came.expected == came.wanted
    assert came.seen is not None
    return (came.expected - came.seen) / came.expected


# -- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [ADD, Form("add", "red", "gpu"), Form("inc", "red", "sys"), Form("dec", "atom", "gpu")]
)
@pytest.mark.parametrize("home", [None, 3])
@pytest.mark.parametrize("gpus", [(0, 1), (0, 1, 2)])
def test_steady_requesters_of_a_home_that_is_not_native_lose_all_but_one_share(
    pcie: EmulatedMachine, form: Form, home: int | None, gpus: tuple[int, ...]
) -> None:
    requesters = Requesters(gpus)
    expected, reason = Home(pcie, HOST if home is None else on_device(home)).predicted(requesters, form)
    assert reason is None
    assert expected == 1 - 1 / len(gpus)
    with counter_on(pcie, home) as counter:
        assert lost_fraction(counter, form, requesters) == pytest.approx(expected, abs=TOLERANCE)


def test_four_gpus_lose_three_quarters_on_host_memory(pcie: EmulatedMachine) -> None:
    with counter_on(pcie, None) as counter:
        assert lost_fraction(counter, ADD, Requesters((0, 1, 2, 3))) == pytest.approx(0.75, abs=TOLERANCE)


@pytest.mark.parametrize("operation", ["add", "inc", "dec", "cas", "exch"])
@pytest.mark.parametrize("home", [None, 0, 1])
def test_one_requester_alone_loses_nothing(pcie: EmulatedMachine, operation: Any, home: int | None) -> None:
    with counter_on(pcie, home) as counter:
        came = counter.run(Form(operation, "atom", "sys"), Requesters((1,)), Grid(1, 8), 8)
    assert (came.expected, came.seen, came.repeated_old_values) == (64, 64, 0)


@pytest.mark.parametrize("operation", ["add", "inc", "dec", "cas", "exch"])
def test_native_peers_lose_nothing(operation: Any) -> None:
    with opened("h200-nvlink2", 2) as machine:
        with counter_on(machine, 0) as counter:
            came = counter.run(Form(operation, "atom", "sys"), Requesters((0, 1)), Grid(1, 8), 16)
        assert (came.expected, came.seen, came.repeated_old_values) == (256, 256, 0)


@pytest.mark.parametrize("operation", ["add", "inc", "dec", "cas", "exch"])
def test_every_lost_increment_is_seen_from_inside(pcie: EmulatedMachine, operation: Any) -> None:
    """All requesters read the word in turns, so a value that is lost was built on one that another had read too."""
    with counter_on(pcie, None) as counter:
        came = counter.run(Form(operation, "atom", "sys"), Requesters((0, 1)), Grid(1, 1), 64)
    assert came.seen is not None
    assert came.expected - came.seen > 0
    assert came.repeated_old_values == came.expected - came.seen


@pytest.mark.parametrize("operation", MARKING)
@pytest.mark.parametrize("kind", ["atom", "red"])
def test_operations_that_do_not_add_up_lose_between_gpus_and_only_there(
    pcie: EmulatedMachine, operation: Any, kind: Any
) -> None:
    """Of `min` and `max` the last value of 32 shows; of the others every bit."""
    form = Form(operation, kind, "sys")
    expected = 128 // 32 if operation in ("min", "max") else 128
    with counter_on(pcie, None) as counter:
        alone = counter.run(form, Requesters((1,)), Grid(1, 4), 32)
        both = counter.run(form, Requesters((0, 1)), Grid(1, 4), 32)
    assert (alone.wanted, alone.made, alone.expected, alone.seen) == (128, 128, expected, expected)
    assert alone.repeated_old_values == (0 if kind == "atom" else None)
    assert (both.wanted, both.made, both.expected) == (256, 256, 2 * expected)
    assert both.seen is not None
    assert both.seen < both.expected
    if kind == "atom":
        assert (both.repeated_old_values or 0) > 0


@pytest.mark.parametrize("operation", MARKING)
def test_operations_that_do_not_add_up_lose_nothing_where_they_are_native(operation: Any) -> None:
    with opened("h200-nvlink2", 2) as machine, counter_on(machine, 0) as counter:
        came = counter.run(Form(operation, "atom", "sys"), Requesters((0, 1)), Grid(2, 8), 20)
    assert (came.made, came.seen, came.repeated_old_values) == (640, came.expected, 0)
    # 16 operations of each thread in a round, then 4
    assert came.expected == (512 // 32 + 128 // 32 if operation in ("min", "max") else 640)


def test_short_rounds_cut_short_expect_what_was_made(pcie: EmulatedMachine) -> None:
    with counter_on(pcie, 1, deadline_s=20e-6) as counter:
        came = counter.run(Form("or", "atom", "sys"), Requesters((0,)), Grid(1, 64), 16)
    assert came.wanted == 1024
    assert came.seen == came.expected == came.made
    with counter_on(pcie, 1, deadline_s=30e-6) as counter:
        came = counter.run(Form("max", "atom", "sys"), Requesters((0,)), Grid(1, 64), 16)
    assert came.seen == came.expected


def test_a_round_takes_as_long_as_its_slowest_gpu(pcie: EmulatedMachine) -> None:
    """The word's owner adds in place, the other one over the link."""
    with counter_on(pcie, 0) as counter:
        near, far, both = (
            counter.run(ADD, Requesters(gpus), Grid(1, 1), 64).elapsed_ns for gpus in [(0,), (1,), (0, 1)]
        )
    assert near < far / 2
    assert both > 0.9 * far


def test_a_cpu_thread_counts_too_and_loses(pcie: EmulatedMachine) -> None:
    with counter_on(pcie, None) as counter:
        assert 0.3 < lost_fraction(counter, ADD, Requesters((0,), cpu=True)) <= 0.5
        assert lost_fraction(counter, SLOTS, Requesters((0,), cpu=True)) == 0


@pytest.mark.parametrize("home", [None, 0])
def test_single_writer_slots_lose_nothing(pcie: EmulatedMachine, home: int | None) -> None:
    with counter_on(pcie, home) as counter:
        assert lost_fraction(counter, SLOTS, Requesters((0, 1, 2, 3)), operations=8) == 0


def test_the_negative_control_loses(pcie: EmulatedMachine) -> None:
    with counter_on(pcie, 0) as counter:
        assert lost_fraction(counter, PLAIN, Requesters((0,)), "1x32", 4) > 0.5


@pytest.mark.parametrize("home", [None, 0])
def test_a_single_writer_word_keeps_its_stores_beside_a_counted_one(pcie: EmulatedMachine, home: int | None) -> None:
    with counter_on(pcie, home) as counter:
        assert counter.beside(ADD, counting=1, storing=0, operations=64) == (32, 0)
        stores, lost = counter.beside(WIDE, counting=1, storing=0, operations=64)  # the control writes both words back
    assert stores == 32
    assert lost > stores / 2


def test_a_native_atomic_over_both_words_keeps_the_stores_too() -> None:
    with opened("h200-nvlink2", 2) as machine, counter_on(machine, 0) as counter:
        assert counter.beside(WIDE, counting=1, storing=0, operations=64) == (32, 0)


def test_a_round_that_does_not_fit_the_word_is_refused(pcie: EmulatedMachine) -> None:
    with counter_on(pcie, 0) as counter, pytest.raises(UsageError, match="do not fit a 32-bit word"):
        counter.run(ADD, Requesters((0, 1)), Grid(1, 32), 2**27)


def test_a_round_cut_short_expects_what_was_counted(pcie: EmulatedMachine) -> None:
    with counter_on(pcie, 1, deadline_s=100e-6) as counter:
        came = counter.run(Form("add", "atom", "sys"), Requesters((0,)), Grid(1, 1), 1000)
    assert came.wanted == 1000
    assert 16 <= came.expected < 1000
    assert came.seen == came.expected
    assert came.repeated_old_values is None
    assert came.reason == "no old values: the round was cut short"


@pytest.mark.parametrize("operation", get_args(Operation))
def test_one_gpu_loses_nothing_in_its_own_memory(machine: Machine, operation: Any) -> None:
    with counter_on(machine, 0, transport="self") as counter:
        for kind in ("atom", "red")[: 1 if operation in WITHOUT_RED else 2]:
            came = counter.run(Form(operation, kind, "gpu"), Requesters((0,)), Grid(2, 32), 20)  # type: ignore[arg-type]
            assert came.made == came.wanted == 1280
            assert came.seen == came.expected
            assert came.repeated_old_values == (0 if kind == "atom" else None)


# -- the probe --------------------------------------------------------------------------------------------------------


def test_more_than_was_counted_is_no_loss(pcie: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else writes to the word: a failure, and a loss below zero."""
    count = Counter.run

    def one_more(self: Counter, *asked: Any, **options: Any) -> Count:
        came = count(self, *asked, **options)
        return came if came.seen is None else replace(came, seen=came.expected + 1)

    monkeypatch.setattr(Counter, "run", one_more)
    (result,) = measure(pcie, transport="peer", iterations=8, kinds=("atom",), scopes=("sys",), concurrency=("1x1",))
    counted = [row for row in result.rows if not row["storing"]]
    assert {row["lost"] for row in counted} == {-1}
    assert all(row["lost_fraction"] < 0 for row in counted)
    assert result.status is Status.FAIL
    assert "1 more seen than the 8 increments made" in result.verdict


def test_a_control_that_loses_nothing_fails_the_run(pcie: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread has nobody to lose to."""
    monkeypatch.setattr(probe, "CONTROL_GRID", Grid(1, 1))
    (result,) = measure(pcie, transport="peer", iterations=8, kinds=("atom",), scopes=("sys",), concurrency=("1x1",))
    assert result.status is Status.FAIL
    assert result.verdict == "control: a plain load and store loses: 0 of 4 lost by 1 threads of GPU 0"
    assert result.reason == "no count of this run can be trusted"


def test_a_control_that_shows_more_than_was_counted_has_not_lost(
    pcie: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Counter.run

    def more(self: Counter, form: Form, *asked: Any, **options: Any) -> Count:
        came = count(self, form, *asked, **options)
        return replace(came, seen=came.expected + 7) if form == PLAIN else came

    monkeypatch.setattr(Counter, "run", more)
    (result,) = measure(pcie, transport="peer", iterations=8, kinds=("atom",), scopes=("sys",), concurrency=("1x1",))
    assert result.status is Status.FAIL
    assert "-7 of 128 lost" in result.verdict


def test_what_is_lost_is_named(pcie: EmulatedMachine) -> None:
    options: dict[str, Any] = {"transport": "host", "iterations": 32, "kinds": ("atom",), "concurrency": ("1x4",)}
    for operation, lost in {"or": "bits lost", "max": "greatest values lost", "min": "smallest values lost"}.items():
        (result,) = measure(pcie, operations=(operation,), **options)
        assert result.status is Status.INFO
        assert lost in result.verdict
    cpu = [row for row in result.rows if row["requesters"] == ["GPU 0", "CPU"] and row["kind"] == "atom"]
    assert {row["reason"] for row in cpu} == {"the CPU thread counts by adding 1, so it cannot join min"}
    with opened("h200-nvlink2", 2) as machine:
        (native,) = measure(machine, **(options | {"transport": "peer"}), operations=("or", "min"))
    assert native.status is Status.PASS
    assert " operations (native atomics)" in native.verdict


def test_loss_without_native_atomics_is_information(pcie: EmulatedMachine) -> None:
    peer, host = measure(pcie, iterations=8)
    assert (peer.transport, host.transport) == ("peer", "host")
    for result in (peer, host):
        assert result.status is Status.INFO
        assert "increments lost" in result.verdict
        assert "single-writer slots (0 lost)" in result.verdict
        assert all(check["passed"] for check in result.checks)
        together = [row for row in result.rows if len(row["requesters"]) > 1 and row["operation"] == "add"]
        assert all(row["lost"] == row["expected"] - row["seen"] for row in result.rows)
        assert any(row["lost"] for row in together)
        assert all(row["lost"] == 0 for row in result.rows if row["operation"] == "slots")
        assert {row["native_atomics"] for row in together} == {"none"}


def test_no_loss_on_native_peers_passes_and_is_no_proof() -> None:
    with opened("h200-nvlink2", 2) as machine:
        (peer,) = measure(machine, iterations=8, transport="peer")
    assert peer.status is Status.PASS
    assert "none seen lost in" in peer.verdict
    assert "safe" not in peer.verdict
    assert {row["predicted_lost_fraction"] for row in peer.rows} == {0.0}


def test_one_gpu_counts_alone_and_with_the_cpu() -> None:
    with opened("h200-nvlink2", 1) as machine:
        peer, host, own = measure(machine, iterations=16)
    assert peer.status is Status.WAIVED
    assert (host.status, own.status) == (Status.INFO, Status.PASS)
    assert {row["requesters_text"] for row in host.rows} == {"GPU 0", "GPU 0 + CPU", "GPU 0, CPU stores"}
    for row in host.rows:
        with_cpu = "CPU" in row["requesters"]
        assert (row["repeated_old_values"] is None) == (with_cpu or row["kind"] != "atom")
        assert (row["reason"] is not None) == (with_cpu and row["kind"] == "atom")
    assert {row["native_atomics"] for row in own.rows} == {"local"}


def test_a_store_lost_beside_the_word_fails_and_says_what_to_do(pcie: EmulatedMachine) -> None:
    host = measure(pcie, iterations=8, transport="host")[0]
    names = [check["name"] for check in host.checks]
    assert names[:2] == ["stores beside the counted word", "control: an atomic over both words loses stores"]
    host.checks[0]["passed"] = False
    status, verdict, reason = judge(host.rows, host.checks, "host memory")
    assert status is Status.FAIL
    assert verdict.startswith("stores beside the counted word: 0 of 64 lost")
    assert reason is not None
    assert "lines of their own" in reason


class Liar(EmulatedMachine):
    """Says that its peers have native atomics, which they do not."""

    def link(self, src: int, dst: int) -> Link:
        return replace(super().link(src, dst), native_atomics="full")


def test_loss_where_the_driver_says_native_is_a_failure() -> None:
    honest = opened("pcie5-switch4", 2)
    with Liar(honest.spec, range(3), 0) as liar:
        (peer,) = measure(liar, transport="peer", iterations=16)
    assert peer.status is Status.FAIL
    assert peer.reason is not None
    assert "native atomics (full)" in peer.reason


class WithoutCpu(EmulatedMachine):
    def missing(self, capability: str) -> str | None:
        return "libatomic.so.1 is missing" if capability == "host_agent" else None


def test_a_machine_without_a_host_agent_says_so_in_the_row() -> None:
    honest = opened("h200-nvlink2", 1)
    with WithoutCpu(honest.spec, range(1), 0) as machine:
        (host,) = measure(machine, transport="host", iterations=4)
    with_cpu = [row for row in host.rows if "CPU" in row["requesters"]]
    assert with_cpu
    assert all(row["seen"] is None and row["reason"] == "libatomic.so.1 is missing" for row in with_cpu)
    assert host.status is Status.INFO
    assert "no proof" in host.verdict


def test_a_dead_rank_is_reported_with_its_slot(pcie: EmulatedMachine) -> None:
    peer, host = measure(pcie, inject="dead-rank")
    for result in (peer, host):
        assert result.status is Status.HANG
        assert "slot (row 1, col 3): wanted 1, got 0" in result.verdict
        assert "--inject dead-rank" in result.verdict
        assert result.reason is not None
        assert "rank 3" in result.reason
        assert result.hang is not None
        assert result.hang["proof"]
    (after,) = measure(pcie, iterations=4, transport="host")
    assert after.status is Status.INFO


def test_the_same_seed_gives_the_same_rows() -> None:
    runs = []
    for _ in range(2):
        with opened("pcie5-switch4", 2) as machine:
            runs.append([result.rows for result in measure(machine, iterations=4)])
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"home": 4}, "--home 4: no such GPU, there are 4"),
        ({"concurrency": ("1x1024", "1x1025")}, "--concurrency 1x1025: a block holds 1024 threads"),
        ({"operations": ("cas",), "kinds": ("red",)}, "--kind red: cas and exch only exist with a result"),
        ({"inject": "dead-rank", "transport": "self"}, "needs two GPUs"),
    ],
)
def test_what_this_machine_cannot_run_is_refused(pcie: EmulatedMachine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        measure(pcie, **options)


def test_the_part_that_began_has_the_rows_so_far(pcie: EmulatedMachine) -> None:
    class Impatient(Listener):
        def progress(self, text: str) -> None:
            if len(self.begun[0].rows) == 2:
                raise KeyboardInterrupt

    observer = Impatient()
    with pytest.raises(KeyboardInterrupt):
        run(pcie, AtomicsConfig(iterations=2, transport="host"), observer)
    (begun,) = observer.begun
    assert (begun.transport, len(begun.rows)) == ("host", 2)
