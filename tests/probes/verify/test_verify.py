"""verify on emulated machines: right data pass, and each check finds what it is for."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from pcietool.contract.outcomes import Hang
from pcietool.contract.results import ProbeResult, Status
from pcietool.errors import NothingToRunError, UsageError
from pcietool.machines import open_machine
from pcietool.machines.base import Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common.options import Transport
from pcietool.probes.verify import probe
from pcietool.probes.verify.config import ENTRIES, ROUTED, EntryName, VerifyConfig
from pcietool.probes.verify.effort import STARTS, Effort
from pcietool.probes.verify.entry import Entry, EntryMemory, SlotUse, compare_counts, wrong_slot_map, wrong_slots
from pcietool.probes.verify.exchanges import Signal
from pcietool.probes.verify.mutants import MUTANTS
from pcietool.probes.verify.probe import run
from pcietool.probes.verify.pushes import Dispatch
from pcietool.probes.verify.trial import Check, Corruption, CorruptionKind, Late, Report, Trial
from pcietool.probes.verify.trial_runner import TrialRunner
from pcietool.protocol.distributions import DISTRIBUTIONS, Distribution
from pcietool.protocol.rows import POISON
from pcietool.protocol.slots import GUARD_BYTES
from tests.clock import Clock
from tests.listening import Listener


def verify(machine: Machine, **options: Any) -> list[ProbeResult]:
    few = {} if options.get("mutants") else {"iterations": 4}
    return run(machine, VerifyConfig(**{**few, **options}), Listener())


def runner_on(machine: Machine, transport: Transport = "peer") -> TrialRunner:
    return TrialRunner(machine, transport, Effort.of(machine, VerifyConfig(), transport), seed=0, deadline_s=2.0)


@pytest.fixture(scope="module")
def three() -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("pcie5-switch4", gpus=[0, 1, 2]) as machine:
        yield machine


@pytest.fixture(scope="module")
def runner(three: EmulatedMachine) -> Iterator[TrialRunner]:
    made = runner_on(three)
    yield made
    made.free()


# -- right data -------------------------------------------------------------------------------------------------------


def test_the_default_set_passes() -> None:
    with EmulatedMachine.open("pcie5-switch4", gpus=[2, 0]) as two:
        results = verify(two, iterations=3)
    assert [(result.transport, result.status, result.reason) for result in results] == [
        ("peer", Status.PASS, None),
        ("host", Status.PASS, None),
    ]
    for result in results:
        assert len(result.rows) == 2 + len(ROUTED) * len(DISTRIBUTIONS)
        assert all(row["status"] == "pass" and row["launches"] == 3 and row["iterations"] == 3 for row in result.rows)
        assert all(row["bytes_checked"] for row in result.rows)
        assert all(check["passed"] for check in result.checks)
        assert sum("control" in check["name"] for check in result.checks) == 6


@pytest.mark.parametrize("entry", ENTRIES)
def test_one_gpu_plays_two_ranks(three: EmulatedMachine, entry: EntryName) -> None:
    (result,) = verify(three, entries=(entry,), transport="self")
    assert (result.status, result.reason) == (Status.PASS, None)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("start", STARTS)
def test_slots_and_gates_serve_many_iterations(runner: TrialRunner, entry: EntryName, start: int) -> None:
    report = runner.run(runner.entry(entry, None), Trial(12, start))
    assert not report.findings


@pytest.mark.parametrize("load", ["push", "pull", "all"])
def test_under_load(three: EmulatedMachine, load: str) -> None:
    results = verify(three, entries=("signal", "dispatch"), distributions=("uniform",), load=load)
    assert [result.status for result in results] == [Status.PASS] * 2


def test_a_soak_repeats_everything(three: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "time", Clock(0.2))
    result, _ = verify(three, entries=("signal", "barrier"), iterations=2, soak_s=0.5)
    assert result.status == Status.PASS
    assert result.rows[0]["launches"] > 2


def test_larger_rows_and_more_experts(three: EmulatedMachine) -> None:
    options = {"rows": 4, "experts": 9, "row_bytes": 48, "transport": "peer", "distributions": ("zipf",)}
    (result,) = verify(three, entries=("dispatch", "end-to-end"), **options)
    assert (result.status, result.reason) == (Status.PASS, None)


def test_a_stall_beyond_the_deadline_ends_with_it(three: EmulatedMachine) -> None:
    """Of every iteration: the writers of gates go on, and each time one of them would be late again."""
    options: dict[str, Any] = {"transport": "peer", "inject": "stall=60000000", "timeout_s": 0.01}
    (result,) = verify(three, entries=("gate",), distributions=("uniform",), **options)
    assert result.status is Status.HANG
    assert result.hang is not None
    assert max(record["since_entry_ns"] for record in result.hang["records"]) < 1e9


def test_what_was_not_launched_was_not_compared(three: EmulatedMachine) -> None:
    (result,) = verify(
        three, entries=("dispatch",), distributions=("uniform",), transport="peer", inject="corrupt-count"
    )
    assert [(check["name"], check["passed"]) for check in result.checks] == [("tables are as recounted", False)]
    assert (result.rows[0]["launches"], result.rows[0]["iterations"]) == (0, 0)


@pytest.mark.parametrize(("inject", "check"), [("corrupt-count", "table"), ("corrupt-byte", "bytes")])
def test_a_verdict_says_what_its_row_found(three: EmulatedMachine, inject: str, check: str) -> None:
    (result,) = verify(
        three, entries=("dispatch",), distributions=("uniform",), transport="peer", inject=inject, iterations=2
    )
    (row,) = result.rows
    assert (result.status, row["status"], row["found_by"]) == (Status.FAIL, "fail", check)
    assert row["found"] == row["found_by_check"][check]
    assert result.verdict.startswith("1 of 1 wrong in ")
    assert result.reason == f"{row['name']}: {row['found']}"


def test_mutants_say_nothing_on_a_machine_that_fails() -> None:
    with EmulatedMachine.open("faulty/dead-direction", [0, 1]) as machine:
        (result,) = verify(machine, entries=("signal",), transport="peer", mutants=True, timeout_s=0.05)
    assert result.status is Status.HANG
    assert "signal as it is: no mutant says anything" in result.verdict
    assert not result.rows
    with EmulatedMachine.open("faulty/corrupt-beyond", [0, 1]) as machine:
        (result,) = verify(machine, entries=("dispatch",), transport="peer", row_bytes=512, mutants=True)
    assert (result.status, result.verdict) == (Status.FAIL, "no mutant says anything here")
    assert result.reason is not None
    assert result.reason.startswith("dispatch as it is: iteration")


@pytest.mark.gpu
def test_real_gpus_pass_and_their_mutants_end() -> None:
    try:
        machine = open_machine("cuda", None, None, None, 0)
    except NothingToRunError as nothing:
        pytest.skip(str(nothing))
    with machine:
        transport = "all" if len(machine.devices) > 1 else None
        for mutants in (False, True):
            for result in verify(machine, transport=transport, mutants=mutants):
                assert result.status in (Status.PASS, Status.WARN, Status.WAIVED), result.reason


# -- wrong data, tables, slots and guards -----------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES)
def test_one_wrong_bit_is_found(runner: TrialRunner, entry: EntryName) -> None:
    report = runner.run(runner.entry(entry, "all-to-one"), Trial(3, corruption=Corruption("byte")))
    finding = report.findings[0]
    assert finding.check == "bytes"
    assert finding.text.startswith("iteration 0: ")
    assert "byte 5 is " in finding.text
    assert "rank 0" in finding.text


@pytest.mark.parametrize(("planted", "found"), [(None, set()), ("byte", {"byte"}), ("guard", {"guard word"})])
def test_a_control_that_does_not_find_its_own_error_is_a_failure(
    three: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, planted: CorruptionKind | None, found: set[str]
) -> None:
    """Whatever a control asks for, the same is planted, or nothing: only the check that is for it may be content."""
    run_trial, corruption = TrialRunner.run, planted and Corruption(planted)

    def other(runner: TrialRunner, make: Any, trial: Trial, *more: Any) -> Report:
        return run_trial(runner, make, replace(trial, corruption=trial.corruption and corruption), *more)

    monkeypatch.setattr(TrialRunner, "run", other)
    (result,) = verify(three, entries=("dispatch",), distributions=("uniform",), transport="peer")
    controls = {check["name"]: check["passed"] for check in result.checks if "control" in check["name"]}
    assert len(controls) == 6
    assert {name for name, passed in controls.items() if passed} == {
        f"control: one wrong {one} is found" for one in found
    }
    assert result.status is Status.FAIL


@pytest.mark.parametrize("entry", ROUTED)
@pytest.mark.parametrize(("kind", "word"), [("count", "given"), ("route", "row")])
def test_a_wrong_table_is_found_before_anything_runs(
    runner: TrialRunner, entry: EntryName, kind: CorruptionKind, word: str
) -> None:
    report = runner.run(runner.entry(entry, "uniform"), Trial(3, corruption=Corruption(kind)))
    assert {finding.check for finding in report.findings} == {"table"}
    assert word in report.findings[0].text
    assert report.bytes_checked == 0


def test_a_row_that_nobody_sends_cannot_be_corrupted(runner: TrialRunner) -> None:
    with pytest.raises(UsageError, match="rank 1 sends no rows"):
        runner.run(runner.entry("dispatch", "one-row"), Trial(1, corruption=Corruption("byte", rank=1)))


class TwoWriters(Signal):
    def slot_uses(self) -> list[SlotUse]:
        uses = super().slot_uses()
        return [*uses, uses[0]]


class TooFew(Signal):
    def slot_uses(self) -> list[SlotUse]:
        return super().slot_uses()[1:]


@pytest.mark.parametrize(
    ("entry", "text"), [(Signal, None), (TwoWriters, "has two writers"), (TooFew, "11 slots are stored to")]
)
def test_the_slot_map_is_checked(runner: TrialRunner, entry: type[Signal], text: str | None) -> None:
    memory = EntryMemory(runner.world)
    findings = list(wrong_slot_map(entry(memory, 1)))
    memory.free()
    assert [finding.check for finding in findings] == ["slots"] * bool(text)
    assert text is None or text in findings[0].text


def played(runner: TrialRunner, trial: Trial) -> tuple[EntryMemory, Entry]:
    """A dispatch that was run, with its memory as it left it."""
    memory = EntryMemory(runner.world)
    entry = runner.entry("dispatch", "uniform")(memory, trial.iterations)
    runner.world.reset(trial.before)
    entry.prepare(trial)
    runner.world.run(entry.launches(trial), "test")
    return memory, entry


@pytest.mark.parametrize("check", ["slots", "guards", "count", None])
def test_what_is_changed_afterwards_is_found(runner: TrialRunner, check: Check | None) -> None:
    trial = Trial(2)
    memory, entry = played(runner, trial)
    assert isinstance(entry, Dispatch)
    word = np.full(1, 77, np.uint32)
    if check == "slots":
        runner.world.slots[1].write(word, GUARD_BYTES + runner.world.slot_map.offset(4, 0))
    elif check == "guards":
        runner.world.slots[1].write(word, 0)
    elif check == "count":
        entry.tables.counted[1].write(word)
    findings = [*entry.wrong_data(trial, Report()), *wrong_slots(entry, trial), *memory.damaged_guards()]
    memory.free()
    assert [finding.check for finding in findings] == ([check] if check else [])


def test_guards_around_what_is_sent_are_watched_too(runner: TrialRunner) -> None:
    memory, entry = played(runner, Trial(1))
    assert isinstance(entry, Dispatch)
    whole = next(buffer for buffer in memory._guarded if buffer.name == "rows of rank 0")
    whole.write(np.full(1, 1, np.uint8), 3)
    (finding,) = memory.damaged_guards()
    memory.free()
    assert finding.text == "1 guard bytes before the rows of rank 0 were overwritten"


@pytest.mark.parametrize("entry", ["signal", "barrier", "dispatch", "combine", "end-to-end"])
def test_what_is_read_before_it_arrives_is_poison(runner: TrialRunner, entry: EntryName) -> None:
    trial = Trial(2)
    memory = EntryMemory(runner.world)
    runner.entry(entry, "uniform")(memory, trial.iterations).prepare(trial)
    for whole in memory._guarded:
        content = whole.read(np.uint32)[GUARD_BYTES // 4 : -GUARD_BYTES // 4]
        counters = 4 if entry == "barrier" else 0  # one of the mutants begins with what lies behind the boards
        assert np.all(content[: len(content) - counters] == POISON)
    memory.free()


def test_counts_are_compared_iteration_by_iteration() -> None:
    seen = np.array([[2, 1], [2, 0]])
    (finding,) = compare_counts("pushed", seen, np.array([2, 1]), ("consumer",))
    assert finding.text == "pushed, iteration 1, consumer 1: 0 rows, expected 1"


# -- hangs and late ranks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("point", ["writing", "reading"])
def test_a_late_rank_is_waited_for(runner: TrialRunner, entry: EntryName, point: Any) -> None:
    report = runner.run(runner.entry(entry, "uniform"), Trial(3, STARTS[1], Late(1, point, 50_000)))
    assert not report.findings


def test_a_rank_that_is_later_than_the_deadline_is_a_hang(three: EmulatedMachine) -> None:
    (result,) = verify(three, entries=("dispatch",), transport="peer", inject="stall=3000000")
    assert result.status == Status.HANG
    assert "hang during dispatch, uniform, from sequence 1: rank" in result.verdict
    assert [row["status"] for row in result.rows] == ["hang"]


# -- mutants ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "waived"),
    [
        (("signal", "barrier", "gate"), ["remote RMW on a native link"]),
        (("dispatch",), []),
        (("combine", "end-to-end"), []),
    ],
)
def test_every_mutant_is_killed_and_every_equivalent_survives(
    three: EmulatedMachine, entries: tuple[EntryName, ...], waived: list[str]
) -> None:
    (result,) = verify(three, mutants=True, transport="peer", entries=entries)
    assert (result.status, result.reason) == (Status.PASS, None)
    assert [row["mutant"] for row in result.rows] == [m.name for m in MUTANTS if m.entry in entries]
    assert [row["mutant"] for row in result.rows if row["outcome"] == "waived"] == waived
    for row in result.rows:
        assert row["outcome"] in (row["expected"].replace("survives", "survived"), "waived")
        assert row["outcome"] != "killed" or (row["killed_by"] and row["how"] and row["found"])


@pytest.mark.parametrize(("asked", "done", "deadline_s"), [(None, 6, 0.2), (9, 9, 0.3)])
def test_a_try_has_as_many_iterations_as_asked_for_and_the_time_for_them(
    three: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, asked: int | None, done: int, deadline_s: float
) -> None:
    run_trial, tried, deadlines = TrialRunner.run, set[int](), set[float]()

    def noted(runner: TrialRunner, make: Any, trial: Trial, *more: Any) -> Report:
        tried.add(trial.iterations)
        deadlines.update(more[1:])
        return run_trial(runner, make, trial, *more)

    monkeypatch.setattr(TrialRunner, "run", noted)
    (result,) = verify(three, mutants=True, transport="peer", entries=("gate",), iterations=asked)
    assert result.status is Status.PASS
    assert (tried, result.effort["iterations"]) == ({done}, done)
    assert [*deadlines] == [pytest.approx(deadline_s)]


def test_a_remote_counter_is_right_on_native_links() -> None:
    with EmulatedMachine.open("h200-nvlink2") as machine:
        (result,) = verify(machine, mutants=True, transport="peer", entries=("barrier",))
    outcomes = {row["mutant"]: row["outcome"] for row in result.rows}
    assert outcomes["remote RMW on a native link"] == "survived"
    assert outcomes["remote RMW counter"] == "waived"


def test_a_mutant_that_the_host_cannot_end_is_a_hang(three: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other hangs are findings of the mutant; after this one the machine cannot go on."""
    run_trial = TrialRunner.run

    def stuck(runner: TrialRunner, make: Any, trial: Trial, *more: Any) -> Report:
        report = run_trial(runner, make, trial, *more)
        return replace(report, hang=Hang("host join timeout", ())) if trial.defines else report

    monkeypatch.setattr(TrialRunner, "run", stuck)
    (result,) = verify(three, mutants=True, transport="peer", entries=("gate",))
    assert result.status is Status.HANG
    assert f"gate: {next(mutant.name for mutant in MUTANTS if mutant.entry == 'gate')}" in result.verdict


# -- what makes no sense ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"mutants": True, "soak_s": 1.0},
        {"mutants": True, "inject": "corrupt-byte"},
        {"mutants": True, "iterations": 5},
        {"mutants": True, "iterations": 501},
        {"entries": ("signal",), "distributions": ("uniform",)},
        {"entries": ("barrier",), "inject": "corrupt-count"},
        {"inject": "corrupt-everything"},
    ],
)
def test_contradictions_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        VerifyConfig(**options)


@pytest.mark.parametrize(("experts", "text"), [(9, "have only 6 rows"), (4, "a multiple of the 3 ranks")])
def test_experts_must_fit(three: EmulatedMachine, experts: int, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        verify(three, experts=experts, transport="peer")


def test_distributions_and_entries_are_complete() -> None:
    assert set(ROUTED) < set(ENTRIES)
    assert len(get_args(Distribution)) == len(DISTRIBUTIONS)


@pytest.mark.parametrize(
    ("iterations", "launches"),
    [
        (1, [(1, 1)]),
        (2, [(1, 1), (2**31, 1)]),
        (3, [(1, 1), (2**31, 1), (0, 1)]),
        (11, [(1, 4), (2**31 - 2, 4), (2**32 - 1, 3)]),
        (30, [(1, 10), (2**31 - 4, 10), (2**32 - 4, 10)]),
        (
            1650,
            [(1, 500), (501, 50), (2**31 - 4, 500), (2**31 + 496, 50), (2**32 - 4, 500), (496, 50)],
        ),
    ],
)
def test_a_third_of_the_iterations_crosses_each_wrap(
    three: EmulatedMachine, iterations: int, launches: list[tuple[int, int]]
) -> None:
    effort = Effort.of(three, VerifyConfig(iterations=iterations), "peer")
    assert effort.launches() == launches
    assert sum(n for _, n in launches) == iterations
