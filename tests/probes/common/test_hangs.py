"""What a hang advises, from what the waits saw."""

from dataclasses import asdict, replace
from typing import Literal

import pytest

from pcietool.contract.outcomes import BlockedThread, Hang, WaitRecord
from pcietool.contract.results import ProbeResult, Status
from pcietool.probes.common.hangs import Hung, advice, stopped


def hang(waited_ms: float, *columns: int) -> Hang:
    waits = (WaitRecord("deadline", 0, 1, col, 4, 3, 4, 0, col, int(waited_ms * 1e6)) for col in columns)
    return Hang("device deadline", tuple(waits))


@pytest.mark.parametrize(
    ("waited_ms", "columns", "words"),
    [
        (2000, (1,), "for rank 1: it is dead"),
        (2000, (1, 2), "the links between those GPUs"),
        (0.2, (1, 2), "--timeout may be too short"),
        (0.2, (1,), "the longest wait lasted 0.2 ms"),
        (10, (1,), "for rank 1"),
    ],
)
def test_a_short_deadline_is_not_blamed_on_the_machine(waited_ms: float, columns: tuple[int, ...], words: str) -> None:
    text = advice(hang(waited_ms, *columns))
    assert words in text
    assert ("--timeout" in text) == (waited_ms < 10)


def test_without_records_the_kernel_is_at_fault() -> None:
    assert "nvidia-smi" in advice(Hang("host join timeout", ()))


@pytest.mark.parametrize(("earlier", "later"), [(7, 9), (2**31 - 1, 2**31 + 1), (2**32 - 1, 1)])
@pytest.mark.parametrize("in_order", [True, False])
def test_what_is_missing_first_is_named_whoever_gave_up_first(earlier: int, later: int, in_order: bool) -> None:
    """Rounds are sequence numbers, which wrap; a wait that ends because another gave up says nothing."""

    def gave_up(reason: Literal["deadline", "abort"], writer: int, number: int) -> WaitRecord:
        return WaitRecord(reason, 0, 1, writer, number, number - 1, number, 0, 0, 2_000_000_000)

    waits = [gave_up("deadline", 1, earlier), gave_up("deadline", 2, later)]
    records = (gave_up("abort", 3, earlier - 1), *(waits if in_order else reversed(waits)))
    result = stopped(ProbeResult("p", Status.PASS, "", "peer", "m"), Hung(Hang("device deadline", records), "the test"))
    assert f"col 1): wanted {earlier}" in result.verdict
    assert result.reason is not None
    assert result.reason.startswith(f"the first signal that is missing is that of rank 1 to rank 0 (round {earlier})")


def test_waits_for_a_word_of_ones_own_gpu_blame_no_link() -> None:
    """Row 0: a block that waits for another block of its rank, in the same round as the rank for its peer."""

    def gave_up(row: int, rank: int, writer: int) -> WaitRecord:
        return WaitRecord("deadline", rank, row, writer, 7, 6, 7, 0, 0, 2_000_000_000)

    records = (gave_up(0, 0, 0), gave_up(1, 0, 1), gave_up(0, 2, 2), replace(gave_up(1, 3, 2), wanted=8, round=8))
    text = advice(Hang("device deadline", records))
    assert text.startswith("the first signal that is missing is that of rank 1 to rank 0 (round 7)")


@pytest.mark.parametrize(("wanted", "left_the_bus"), [(4, True), (1, True), (0, False)])
def test_all_ones_are_a_sequence_number_before_0(wanted: int, left_the_bus: bool) -> None:
    waits = (WaitRecord("deadline", 0, 1, 1, wanted, 0xFFFFFFFF, wanted, 0, 0, 2_000_000_000),)
    assert ("has left the bus" in advice(Hang("device deadline", waits))) == left_the_bus


def test_a_result_shows_records_and_proof() -> None:
    blocked = BlockedThread(1, 2, 3, "slots.cuh:39", "'slots of rank 1'+0 on GPU 1", 0, None)
    running = replace(blocked, thread=4)
    hang_ = replace(hang(2000, 1), proof=(blocked,), running=(running,), dropped_records=5)
    shown = stopped(ProbeResult("p", Status.PASS, "", "peer", "m"), Hung(hang_, "the test")).hang
    assert shown is not None
    assert [shown[key] for key in ("limit", "dropped_records")] == ["device deadline", 5]
    assert [record["got"] for record in shown["records"]] == [3]
    assert shown["proof"] == [asdict(blocked)]
    assert shown["running"] == [asdict(running)]
