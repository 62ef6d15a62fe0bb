"""watermark on emulated machines: every byte arrives, and what does not is found."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pcietool.contract.outcomes import Outcome
from pcietool.contract.results import ProbeResult, Row, Status
from pcietool.errors import DriverError, UsageError
from pcietool.machines.base import Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.common.hangs import Hung
from pcietool.probes.common.options import Transport
from pcietool.probes.watermark import pushing
from pcietool.probes.watermark.config import Pattern, WatermarkConfig
from pcietool.probes.watermark.copies import FIRST_ROW, EngineCopies
from pcietool.probes.watermark.probe import judge, run, smallest_good
from pcietool.probes.watermark.pushing import Pusher
from pcietool.probes.watermark.streams import Shape, rank_roles
from pcietool.protocol.slots import GUARD_BYTES
from tests.listening import Listener

ROWS = 37
SMALL = Shape(ROWS, row_bytes=48, threads=64, groups=2, consumer_blocks=1)


def measure(machine: Machine, **options: Any) -> list[ProbeResult]:
    small = {"rows": ROWS, "row_bytes": 48, "threads": 64, "groups": 2, "chunks": "8", "iterations": 1}
    sms = {} if options.get("paths") == ("engine",) else {"sms": "2"}
    return run(machine, WatermarkConfig(**{**small, **sms, **options}), Listener())


@pytest.fixture(scope="module")
def four() -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("pcie5-switch4") as machine:
        yield machine


@contextmanager
def pusher_on(
    machine: Machine,
    transport: Transport = "peer",
    pattern: Pattern = "one-to-one",
    world: int = 2,
    shape: Shape = SMALL,
) -> Iterator[Pusher]:
    pusher = Pusher(machine, transport, pattern, world, shape, max(1, shape.rows), seed=0)
    yield pusher
    pusher.free()


def slots(pusher: Pusher, rank: int) -> np.ndarray:
    """[rows, world] of what a rank's slots hold."""
    slot_map = pusher.world.slot_map
    raw = pusher.world.slots[rank].read(np.uint32, slot_map.nbytes // 4, GUARD_BYTES)
    return raw.reshape(slot_map.rows, slot_map.cols, -1)[:, :, 0]


# -- pushing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["peer", "host", "self"])
@pytest.mark.parametrize(
    ("chunk", "piece"), [(1, 1), (8, 1), (8, 3), (8, 8), (16, 4), (36, 5), (ROWS, 2), (ROWS, ROWS)]
)
def test_every_byte_arrives_and_each_chunk_is_signalled_once(
    four: EmulatedMachine, transport: Transport, chunk: int, piece: int
) -> None:
    with pusher_on(four, transport) as pusher:
        plan = SMALL.plan(chunk, 1, piece)
        for sequence in (1, 2):
            pushed = pusher.push("vector", plan, 3)
            assert pushed.wrong is None
            assert pushed.producer_ns > 0
            assert pushed.first_release_ns is not None
            signalled = slots(pusher, 1)
            assert np.all(signalled[FIRST_ROW : FIRST_ROW + plan.chunks, 0] == sequence)
            assert np.count_nonzero(signalled) == plan.signals(pusher.streams)
        assert not pusher.world.damaged_guards()


@pytest.mark.parametrize("pattern", ["many-to-one", "all-to-all"])
@pytest.mark.parametrize("transport", ["peer", "host"])
def test_four_gpus_at_once(four: EmulatedMachine, transport: Transport, pattern: Pattern) -> None:
    with pusher_on(four, transport, pattern, world=4) as pusher:
        plan = SMALL.plan(8, 1, 3)
        for _ in range(2):
            assert pusher.push("vector", plan, 2).wrong is None
        signalled = sum(np.count_nonzero(slots(pusher, role.rank)) for role in pusher.consumers)
        assert signalled == plan.signals(pusher.streams)


def test_one_gpu_plays_all_roles_of_all_ranks(four: EmulatedMachine) -> None:
    with pusher_on(four, "self", "all-to-all") as pusher:
        assert pusher.push("vector", SMALL.plan(8, 1), 2).wrong is None


def test_used_slots_serve_any_chunk_size(four: EmulatedMachine) -> None:
    with pusher_on(four) as pusher:
        for chunk in (1, 16, 5, ROWS, 1):
            pusher.push("vector", SMALL.plan(chunk, 1), 2, signals=False)
            assert pusher.push("vector", SMALL.plan(chunk, 1), 2).wrong is None


def test_a_stream_without_rows_ends_at_once(four: EmulatedMachine) -> None:
    with pusher_on(four, pattern="all-to-all", world=4, shape=replace(SMALL, rows=0)) as pusher:
        assert pusher.push("vector", replace(SMALL, rows=0).plan(8, 1), 2).wrong is None
        assert np.count_nonzero(slots(pusher, 2)) == 3


@pytest.mark.parametrize("row", [0, 8, ROWS - 1])
def test_two_words_that_changed_places_are_found(four: EmulatedMachine, row: int) -> None:
    with pusher_on(four) as pusher:
        wrong = pusher.push("vector", SMALL.plan(8, 1, 3), 2, injection="swap", injected=row).wrong
    assert wrong is not None
    assert (wrong.row, wrong.chunk, wrong.producer, wrong.consumer, wrong.wrong_rows) == (row, row // 8, 0, 1, 1)
    assert str(wrong) == f"row {row} (chunk {row // 8}) from rank 0 is wrong at rank 1"


@pytest.mark.parametrize("transport", ["peer", "host", "self"])
def test_signals_before_the_data_are_found(four: EmulatedMachine, transport: Transport) -> None:
    """Also in the second launch, where good rows of the first one still lie there."""
    with pusher_on(four, transport) as pusher:
        assert pusher.push("vector", SMALL.plan(8, 1), 2).wrong is None
        assert pusher.push("vector", SMALL.plan(8, 1), 2, injection="early").wrong is not None
        assert pusher.push("vector", SMALL.plan(8, 1), 2).wrong is None


SWAPPED, EARLY = "control: two words that changed places are found", "control: signals before the data are found"
EARLY_COPIES = "control: stream writes before the copies are found"


def controls_of(machine: EmulatedMachine) -> tuple[dict[str, bool], Status]:
    (result,) = measure(machine, transport="peer", paths=("vector", "engine"))
    return {found["name"]: found["passed"] for found in result.checks if "control" in found["name"]}, result.status


def test_a_control_that_finds_nothing_is_a_failure(four: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and copies that do nothing wrong: what the controls ask for is not there to be found."""
    load, copies = Pusher.load, EngineCopies.of
    monkeypatch.setattr(Pusher, "load", lambda self, path, *, signals, inject=False: load(self, path, signals=signals))
    monkeypatch.setattr(EngineCopies, "of", lambda self, plan, sequence, *_: copies(self, plan, sequence))
    assert controls_of(four) == ({SWAPPED: False, EARLY: False, EARLY_COPIES: False}, Status.FAIL)


def test_a_control_that_finds_something_else_is_a_failure(
    four: EmulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows are wrong than the one whose words changed places."""
    monkeypatch.setattr(pushing, "INJECTIONS", {**pushing.INJECTIONS, "swap": pushing.INJECTIONS["early"]})
    assert controls_of(four) == ({SWAPPED: False, EARLY: True, EARLY_COPIES: True}, Status.FAIL)


def test_a_chunk_that_is_never_published_is_named(four: EmulatedMachine) -> None:
    with pusher_on(four) as pusher, pytest.raises(Hung) as stopped:
        pusher.push("vector", SMALL.plan(8, 1), 2, injection="drop", injected=3)
    records = [record for record in stopped.value.hang.records if record.reason == "deadline"]
    assert {(record.rank, record.row - FIRST_ROW, record.col) for record in records} == {(1, 3, 0)}


def test_who_pushes_to_whom() -> None:
    streams = {
        pattern: [
            (role.rank, peer) for role in rank_roles(pattern, 3) if role.produces for peer in role.peers_in(3)
        ]
        for pattern in ("many-to-one", "all-to-all")
    }  # fmt: skip
    assert streams["many-to-one"] == [(1, 0), (2, 0)]
    assert streams["all-to-all"] == [(0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)]
    for pattern in ("many-to-one", "all-to-all"):
        received = [(p, role.rank) for role in rank_roles(pattern, 3) if not role.produces for p in role.peers_in(3)]
        assert sorted(received) == sorted(streams[pattern])


# -- the probe --------------------------------------------------------------------------------------------------------


def test_a_sweep_names_the_smallest_good_chunk_of_each_sm_count(four: EmulatedMachine) -> None:
    peer, host = measure(four, chunks="1,8,all", sms="1,2")
    for result in (peer, host):
        assert result.status is Status.PASS
        assert all(row["correct"] for row in result.rows)
        assert all(check["passed"] for check in result.checks)
        assert [(row["sms"], row["chunk_rows"]) for row in result.rows] == [
            (sms, chunk) for sms in (1, 2, 0) for chunk in (1, 8, ROWS)
        ]
        assert [row["sms"] for row in result.rows if row["is_smallest_good"]] == [1, 2, 0]
        assert [row["signals"] for row in result.rows[:3]] == [ROWS, 5, 1]
        assert all(row["polls"] is None and row["polls_reason"] for row in result.rows)
        assert all(row["percent_of_sm_copy"] > 0 for row in result.rows if row["path"] == "vector")
        assert "% of the copy without signals" in result.verdict
        assert "by the copy engine" in result.verdict


def test_the_controls_have_slots_where_only_large_chunks_are_swept(four: EmulatedMachine) -> None:
    for result in measure(four, rows=128, chunks="all", sms="1", transport="peer"):
        assert result.status is Status.PASS
        assert all(check["passed"] for check in result.checks)


def test_the_copy_engine_is_slower_the_smaller_its_chunks(four: EmulatedMachine) -> None:
    for result in measure(four, paths=("engine",), chunks="1,8,all"):
        assert result.status is Status.PASS
        assert [check["name"] for check in result.checks] == [
            "control: stream writes before the copies are found",
            "guard words",
        ]
        shares = [row["percent_of_copy_engine"] for row in result.rows]
        assert shares == sorted(shares)
        assert 0 < shares[0] < shares[-1] <= 100
        assert [row["signals"] for row in result.rows] == [ROWS, 5, 1]
        assert all(row["correct"] and row["first_release_us"] > 0 for row in result.rows)
        assert all(row["percent_of_sm_copy"] is None and row["percent_of_sm_copy_reason"] for row in result.rows)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pattern": "many-to-one"}, "several streams would not run at once"),
        ({"transport": "self"}, "takes no time in the model"),
        ({"timeout_s": 1e-4}, "cannot submit 5 copies within --timeout 0.0001; use larger --chunks"),
    ],
)
def test_what_the_copy_engine_cannot_show_is_waived(
    four: EmulatedMachine, options: dict[str, Any], reason: str
) -> None:
    for result in measure(four, paths=("engine",), **options):
        assert result.status is Status.WAIVED
        assert result.reason is not None
        assert reason in result.reason


def test_paths_are_measured_in_the_order_asked_for(four: EmulatedMachine) -> None:
    (result,) = measure(four, paths=("engine", "vector"), sms="2", transport="peer")
    assert [row["path"] for row in result.rows] == ["engine", "vector"]


class WithoutStreamWrites(EmulatedMachine):
    def run(self, launches: Any, *arguments: Any, copy_streams: Any = (), **options: Any) -> Outcome:
        if copy_streams:
            raise DriverError("copies by GPU 0: cuStreamWriteValue32: CUDA_ERROR_NOT_SUPPORTED (801)")
        return super().run(launches, *arguments, **options)


def test_a_driver_that_refuses_stream_writes_is_a_waived_row(four: EmulatedMachine) -> None:
    with WithoutStreamWrites(four.spec, [0, 1], 0) as machine:
        for result in measure(machine, paths=("vector", "engine")):
            assert result.status is Status.PASS
            assert "engine: copies by GPU 0: cuStreamWriteValue32" in result.rows[-1]["reason"]


def test_a_dropped_chunk_of_the_copy_engine_is_named(four: EmulatedMachine) -> None:
    for result in measure(four, paths=("engine",), inject="drop-chunk=2"):
        assert result.status is Status.HANG
        assert "chunk 2 (rows 16 to 23) from rank 0 was never published" in result.verdict


def test_one_gpu_runs_self_alone() -> None:
    with EmulatedMachine.open("h200-nvlink2", [0]) as machine:
        peer, host, own = measure(machine)
    assert [result.status for result in (peer, host, own)] == [Status.WAIVED, Status.WAIVED, Status.PASS]
    assert own.rows[0]["copy_engine_gb_per_s"] is None
    assert own.rows[0]["copy_engine_reason"]


def test_a_dropped_chunk_is_a_hang_that_names_it(four: EmulatedMachine) -> None:
    for result in measure(four, inject="drop-chunk=2"):
        assert result.status is Status.HANG
        assert "chunk 2 (rows 16 to 23) from rank 0 was never published" in result.verdict


def test_bulk_copies_are_waived_below_sm_90(four: EmulatedMachine) -> None:
    with EmulatedMachine.open("pcie5-switch4", [0, 1]) as machine:
        machine.devices = tuple(replace(device, compute_capability=(8, 9)) for device in machine.devices)
        both, _ = measure(machine, paths=("vector", "bulk"))
        alone, _ = measure(machine, paths=("bulk",))
    assert both.status is Status.PASS
    assert "sm_90 or newer, GPU 0 is sm_89" in both.rows[-1]["reason"]
    assert alone.status is Status.WAIVED
    assert alone.reason is not None
    assert "sm_90" in alone.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_bytes": 40}, "multiple of 16"),
        ({"row_bytes": 16, "columns": 8}, "leave one of them out"),
        ({"rows": 2**31 - 1, "row_bytes": 64}, "more than 2\\^31 - 1 vectors"),
        ({"rows": 2**28, "row_bytes": 16}, "bytes needed on GPU 0, .* free"),
        ({"chunks": "64"}, "--chunks 64: a chunk cannot have more rows than there are, 37"),
        ({"sms": "189"}, "--sms 189: a GPU has 188 SMs"),
        ({"sms": "188", "transport": "self"}, "of which 186 are left"),
        ({"inject": "drop-chunk=5"}, "chunks are numbered 0 to 4"),
        ({"threads": 96}, "do not make 2 groups"),
    ],
)
def test_what_cannot_be_pushed_is_refused(four: EmulatedMachine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        measure(four, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rows": 0}, "--rows 0"), ({"rows": 2**31}, "--rows"), ({"inject": "dead-rank"}, "drop-chunk=NUMBER")],
)
def test_what_makes_no_sense_anywhere_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WatermarkConfig(**options)


# -- judging ----------------------------------------------------------------------------------------------------------


def row(chunk: int, rate: float, sms: int = 4, correct: bool = True) -> Row:
    return {
        "path": "vector",
        "sms": sms,
        "chunk_rows": chunk,
        "gb_per_s": rate,
        "percent_of_sm_copy": rate,
        "correct": correct,
        "wrong": None if correct else "row 3 (chunk 0) from rank 0 is wrong at rank 1",
        "is_smallest_good": False,
    }


def test_the_smallest_chunk_within_two_percent_of_the_best() -> None:
    assert smallest_good([row(256, 100), row(64, 98), row(16, 97.9)])["chunk_rows"] == 64
    status, verdict, reason = judge(
        [row(1, 95, 4), row(64, 99, 16), row(8, 60, 16)],
        [],
    )
    assert (status, reason) == (Status.PASS, None)
    assert verdict.startswith("64-row chunks feed the link: 99 GB/s, 99.0 %")
    assert verdict.endswith("16 SMs (1 with 4)")


def test_wrong_rows_and_blind_controls_fail() -> None:
    status, _, reason = judge([row(8, 99), row(64, 99, correct=False)], [])
    assert status is Status.FAIL
    assert reason is not None
    assert "row 3 (chunk 0) from rank 0" in reason
    blind = {"name": "control", "passed": False, "text": "nothing was found"}
    assert judge([row(8, 99)], [blind])[0] is Status.FAIL
