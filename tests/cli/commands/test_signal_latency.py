"""The command: exit codes, first screen, JSON."""

import json
from pathlib import Path

import pytest

from tests.cli.program import pcietool, refusal, words

QUICK = ("signal-latency", "--fabric", "pcie5-switch4", "-g", "2", "-n", "4", "-e", "8", "--wait", "acquire")
PEER = (*QUICK, "--nanosleep", "0", "--transport", "peer")


def test_first_screen_is_verdict_then_matrix_then_rows() -> None:
    done = pcietool(*PEER)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    order = [
        "PASS  peer  a signal takes",
        "plausible",
        "row = writer, column = owner",
        "what ",
        "acquire ",
        "guard words",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert text.startswith("emulated: modelled, not measured")


def test_document_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    documents = []
    for name in ("a.json", "b.json"):
        assert pcietool(*PEER, "--seed", "7", "--json", str(tmp_path / name)).returncode == 0
        document = json.loads((tmp_path / name).read_text())
        del document["run"]
        documents.append(document)
    assert documents[0] == documents[1]
    [probe] = documents[0]["probes"]
    cells = probe["matrix"]["cells"]
    assert cells[0][0] is None
    assert cells[0][1] > 0.4


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-n", "0"), "iters"),
        (("-b", "12"), "multiple of 8"),
        (("-b", "0"), "--min-bytes 0"),
        (("-b", "ten"), "is not a size"),
        (("-e", "1M"), "65536"),
        (("-b", "64", "-e", "8"), "below"),
        (("-f", "1"), "factor"),
        (("--nanosleep", "-1"), "nanosleep"),
        (("--poll", "sometimes"), "poll"),
        (("--transport", "peer", "-g", "1"), "two GPUs"),
    ],
)
def test_nonsense_is_a_usage_error(options: tuple[str, ...], complaint: str) -> None:
    said = refusal("signal-latency", "--fabric", "pcie5-switch4", *options)
    assert complaint in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("injection", "code", "says"),
    [("dead-rank", 4, "wanted 4, got 3"), ("corrupt-payload", 3, "payload word"), ("stall=20", 0, "plausible")],
)
def test_injected_failures_have_their_exit_code(injection: str, code: int, says: str) -> None:
    done = pcietool(*PEER, "--inject", injection)
    assert done.returncode == code, done.stderr
    assert says in words(done.stdout)


def test_one_gpu_runs_alone() -> None:
    done = pcietool(*QUICK[:3], "-g", "1", "-n", "4", "-e", "8", "-q")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if line.split()[0].isupper()] == [
        "WAIVED",
        "WAIVED",
        "PASS",
    ]
