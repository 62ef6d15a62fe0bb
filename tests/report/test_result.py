import pytest

from pcietool.contract.results import ProbeResult, Status
from pcietool.report.result import (
    ENVIRONMENT,
    SCHEMA,
    Stopwatch,
    build_document,
    cell,
    exit_code,
    merged_status,
    tidy_rows,
)

MACHINE = {
    "backend": "emulated",
    "label": "fake",
    "devices": [{"index": 0}],
    "links": [],
    "host_links": [],
    "facts": {"fabric": "fake", "nvrtc": {"version": "13.0", "path": "/lib/nvrtc.so"}, "kernels_sha256": "ab"},
}


def part(status: Status, transport: str = "peer") -> ProbeResult:
    return ProbeResult("fake", status, f"it is {status}", transport, "counted", rows=[{"us": 1.0}])


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["pass"], 0),
        (["info", "warn"], 0),
        (["pass", "waived"], 0),
        (["waived", "waived"], 6),
        (["pass", "error"], 1),
        (["error", "fail"], 3),
        (["fail", "hang", "pass"], 4),
        (["pass", "interrupted"], 130),
        ([], 1),
    ],
)
def test_exit_codes_tell_the_cases_apart(statuses: list[str], code: int) -> None:
    assert exit_code([part(Status(status)) for status in statuses]) == code


def test_waived_parts_do_not_hide_what_passed() -> None:
    assert merged_status([part(Status.WAIVED), part(Status.PASS)]) is Status.PASS


def test_every_status_has_an_exit_code() -> None:
    for status in Status:
        exit_code([part(status)])


def test_the_document_has_the_keys_of_its_schema() -> None:
    document = build_document(
        MACHINE, {"iterations": 3}, [part(Status.PASS), part(Status.WAIVED, "host")], Stopwatch.start()
    )
    assert document["schema"] == SCHEMA
    assert list(document)[:5] == ["schema", "backend", "run", "tool", "config"]
    assert document["tool"]["nvrtc"] == {"version": "13.0"}
    assert document["run"]["nvrtc_path"] == "/lib/nvrtc.so", "which another installation does not repeat"
    assert document["tool"]["kernels_sha256"] == "ab"
    assert document["machine"] == {"label": "fake", "fabric": "fake"}
    assert document["verdict"] == {"status": "pass", "text": "peer: it is pass; host: it is waived"}
    assert [probe["transport"] for probe in document["probes"]] == ["peer", "host"]


def test_only_listed_variables_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCIETOOL_SECRET", "hush")
    monkeypatch.setenv(ENVIRONMENT[0], "0,1")
    record = Stopwatch.start().run_record()
    assert record["environment"][ENVIRONMENT[0]] == "0,1"
    assert "hush" not in str(record)


OF_RUN = {"tool": {"version": "1.2"}, "backend": "emulated", "config": {"fabric": "pair"}}
LABELS = {"version": "1.2", "backend": "emulated", "fabric": "pair", "probe": "fake", "transport": "peer"}


def test_a_csv_row_says_where_it_comes_from() -> None:
    assert tidy_rows(OF_RUN, [part(Status.PASS)]) == [{**LABELS, "us": 1.0}]


def test_a_part_without_rows_leaves_its_reason() -> None:
    waived = ProbeResult("fake", Status.WAIVED, "not run", "peer", "", reason="one GPU")
    assert tidy_rows(OF_RUN, [waived]) == [{**LABELS, "reason": "one GPU"}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([0, 1], "0, 1"),
        ([[0, 1], [1, 0]], "0, 1; 1, 0"),
        ({"seen": 3, "lost": None}, "seen: 3; lost: "),
        ([{"text": "r0=1", "sought": True}, {"text": "r0=0", "sought": False}],
         "text: r0=1; sought: true; text: r0=0; sought: false"),
        ([], ""),
        (True, "true"),
        (1.5, 1.5),
        (None, None),
    ],
)  # fmt: skip
def test_a_cell_is_plain_text(value: object, text: object) -> None:
    assert cell(value) == text


def test_telemetry_before_and_after_are_told_apart() -> None:
    now = [{"clock_mhz": 1}, {"clock_mhz": 2}]
    later = [{"clock_mhz": 3}, {"clock_mhz": 4}]
    devices = [{"index": 0}, {"index": 1}]
    machine = {"backend": "cuda", "label": "two", "devices": devices, "links": [], "host_links": []}
    facts = {"gpus_now": now, "after": {"gpus_now": later}}
    gpus = build_document({**machine, "facts": facts}, {}, [], Stopwatch.start())["gpus"]
    assert gpus == [{"index": n, "before": now[n], "after": later[n]} for n in (0, 1)]
    (*_, alone) = build_document({**machine, "facts": {"gpus_now": now}}, {}, [], Stopwatch.start())["gpus"]
    assert alone == {"index": 1, "before": now[1], "after": None}
