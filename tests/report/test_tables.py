import io
from typing import Any

import pytest
from rich.console import Console

from pcietool.contract.results import ProbeResult, Status
from pcietool.report.columns import Column
from pcietool.report.hang import LINES_SHOWN
from pcietool.report.matrix import matrix_table
from pcietool.report.tables import EMULATED, make_console, print_checks, print_details, print_screen, print_verdict
from pcietool.units import micros

COLUMNS = [
    Column("order", "order"),
    Column("us_p50", "p50 µs", micros),
    Column("nobody", "nobody has it", optional=True),
]


def record(rank: int, col: int) -> dict[str, Any]:
    places = {"row": 1, "round": 3, "block": 0, "thread": col, "since_entry_ns": 2_000_000}
    return {"reason": "deadline", "rank": rank, "col": col, "wanted": 4, "got": 3, **places}


def result(**changes: Any) -> ProbeResult:
    fields: dict[str, Any] = {
        "name": "barrier-latency",
        "status": Status.PASS,
        "verdict": "2 GPUs meet in 1.43 µs",
        "transport": "peer",
        "method": "in-kernel, %clock64, one round of all ranks",
        "rows": [{"order": "publish", "us_p50": 1.4321}, {"order": "floor", "us_p50": None, "reason": "too short"}],
    }
    return ProbeResult(**{**fields, **changes})


def rendered(results: list[ProbeResult], backend: str = "cuda", width: int = 120) -> str:
    console = make_console(io.StringIO())
    console.width = width
    print_verdict(console, results, backend, "2x fake GPU")
    print_details(console, results, COLUMNS, backend)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_verdict_comes_first_and_lines_fit(width: int) -> None:
    text = rendered([result(), result(transport="host", status=Status.WAIVED, reason="because " * 20)], width=width)
    lines = text.splitlines()
    assert lines[1].split() == ["PASS", "peer", "2", "GPUs", "meet", "in", "1.43", "µs"]
    assert text.index("WAIVED") < text.index("in-kernel")
    assert max(map(len, lines)) <= width
    assert "\x1b" not in text


def test_only_emulated_figures_are_called_emulated() -> None:
    assert rendered([result()], "emulated").count(EMULATED) == 2  # first screen and table
    assert EMULATED not in rendered([result()], "cuda")


def test_missing_values_are_dashes_with_their_reason_and_empty_columns_are_left_out() -> None:
    text = rendered([result()])
    assert [line.split() for line in text.splitlines() if line.startswith("floor")] == [["floor", "-"]]
    assert "- too short" in text
    assert "nobody has it" not in text


def test_text_in_brackets_is_text() -> None:
    assert "[bold]x[/bold]" in rendered([result(verdict="[bold]x[/bold]")])


def test_a_failed_check_is_told_from_a_passed_one() -> None:
    checks = [
        {"name": "blocks", "passed": True, "text": "nobody left early"},
        {"name": "control", "passed": False, "text": "it blocked without a wait"},
    ]
    lines = rendered([result(checks=checks)]).splitlines()
    assert "ok    1 check: blocks" in lines
    assert "FAIL  control: it blocked without a wait" in lines


@pytest.mark.parametrize("every", [False, True])
def test_checks_that_passed_are_one_line_unless_all_are_wanted(every: bool) -> None:
    checks = [{"name": name, "passed": True, "text": "fine"} for name in ("blocks", "guards", "blocks")]
    console = make_console(io.StringIO())
    print_checks(console, checks, every)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    all_lines = ["ok    blocks: fine", "ok    guards: fine", "ok    blocks: fine"]
    assert lines == (all_lines if every else ["ok    3 checks: blocks, guards"])


def test_what_two_parts_share_of_their_method_is_said_once() -> None:
    text = rendered([result(method="shared\nof peer"), result(transport="host", method="shared\nof host")])
    assert [text.count(line) for line in ("shared", "of peer", "of host")] == [1, 1, 1]


def test_a_hang_without_rows_needs_no_method() -> None:
    hang = {"limit": "device deadline", "records": [], "dropped_records": 0, "proof": []}
    assert "clock64" not in rendered([result(status=Status.HANG, rows=[], hang=hang)])
    assert "clock64" in rendered([result(status=Status.HANG, hang=hang)])


def screen(width: int = 80, height: int = 100, terminal: bool = False, gpus: Any = (), **changes: Any) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=terminal, color_system=None)
    document = {"backend": "cuda", "machine": {"label": "2x fake GPU"}, "gpus": gpus}
    print_screen(console, document, [result(**changes)], COLUMNS)
    return file.getvalue()


@pytest.mark.parametrize(("terminal", "height", "times"), [(True, 8, 2), (True, 100, 1), (False, 8, 1)])
def test_a_verdict_that_scrolled_away_comes_again(terminal: bool, height: int, times: int) -> None:
    text = screen(terminal=terminal, height=height)
    assert text.count("2 GPUs meet") == times
    assert ("2 GPUs meet" in text.splitlines()[-1]) is (times == 2)


def test_figures_are_never_broken_on_a_narrow_terminal() -> None:
    rows = [{"order": "publishing-ones", "us_p50": 1234567.0, "nobody": 7654321}]
    line = next(line for line in screen(width=20, rows=rows).splitlines() if line.startswith("publishing-ones"))
    assert line.split() == ["publishing-ones", "1,234,567", "7654321"]


@pytest.mark.parametrize("machine_index", [None, 0])
def test_gpus_that_keep_their_numbers_need_no_line(machine_index: int | None) -> None:
    gpu = {"index": 0, "machine_index": machine_index, "pci": "0000:01:00.0", "uuid": "GPU-a"}
    assert "0000:01:00.0" not in screen(gpus=[gpu])


def test_gpus_with_other_numbers_say_who_they_are() -> None:
    gpus = [
        {"index": n, "machine_index": of, "pci": f"0000:0{of}:00.0", "uuid": f"GPU-{of}"} for n, of in ((0, 3), (1, 1))
    ]
    lines = screen(gpus=gpus).splitlines()
    assert lines[1:3] == ["GPU 0 = index 3, 0000:03:00.0, GPU-3", "GPU 1 = index 1, 0000:01:00.0, GPU-1"]


def test_a_hang_names_slots_waiters_proof_and_advice() -> None:
    blocked = {"device": 0, "block": 0, "thread": 1, "source": "barrier.cu:57", "address": "'slots'+128", "value": 3}
    hang = {
        "limit": "device deadline",
        "records": [record(0, 1), record(2, 1)],
        "dropped_records": 0,
        "proof": [{**blocked, "last_writer": None}],
    }
    text = rendered([result(status=Status.HANG, rows=[], hang=hang, reason="start rank 1")])
    assert "rank 0 waited for slot (row 1, col 1): wanted 4, got 3" in text
    matrix = [line.split() for line in text.splitlines() if line.startswith("rank 2  ")]
    assert matrix == [["rank", "2", "3/4"]]
    assert "row = waiter, column = writer" in text
    assert "barrier.cu:57: 'slots'+128 holds 3, never written" in text
    assert text.rstrip().endswith("what to do: start rank 1")


def test_many_records_are_counted_instead_of_shown() -> None:
    hang = {"limit": "device deadline", "records": [record(0, c) for c in range(20)], "dropped_records": 5, "proof": []}
    text = rendered([result(status=Status.HANG, hang=hang)])
    assert text.count("waited for slot") == LINES_SHOWN
    assert f"and {20 - LINES_SHOWN + 5} more" in text


def test_a_matrix_says_what_its_rows_are() -> None:
    console = make_console(io.StringIO())
    console.print(matrix_table([[None, 1.5], [2.5, None]], ["0", "1"], micros))
    assert isinstance(console.file, io.StringIO)
    assert "row = writer, column = owner" in console.file.getvalue()


def test_a_matrix_stands_before_the_rows_and_is_not_repeated_by_them() -> None:
    matrix = {"figure": "one way", "unit": "us", "labels": ["GPU 0", "GPU 1"], "cells": [[None, 1.25], [2.5, None]]}
    rows = [{"order": "of the matrix", "us_p50": 1.25, "in_matrix": True}, {"order": "other", "us_p50": 3.0}]
    text = rendered([result(matrix=matrix, rows=rows)])
    assert "of the matrix" not in text
    places = [text.index(part) for part in ("one way, µs", "row = writer", "1.25", "2.50", "other")]
    assert places == sorted(places)


def test_a_reason_is_given_for_values_that_are_shown() -> None:
    rows = [{"order": "one", "us_p50": None, "us_reason": "no samples", "watts_p50": None, "watts_reason": "no meter"}]
    text = rendered([result(rows=rows)])
    assert "no samples" in text
    assert "no meter" not in text


def test_a_doubt_is_no_failure() -> None:
    checks = [{"name": "plausible", "passed": False, "text": "too fast", "severity": "warn"}]
    assert "WARN  plausible: too fast" in rendered([result(checks=checks)]).splitlines()
