"""`pcietool verify` as a user calls it: exit codes, what stdout says, and one line for what makes no sense."""

from subprocess import CompletedProcess

import pytest

from tests.cli.program import document, pcietool, refusal, words

SMALL = ("--fabric", "h200-nvlink2", "--transport", "peer", "-n", "2", "-d", "uniform")


def call(*arguments: str, columns: int = 80) -> CompletedProcess[str]:
    return pcietool("verify", *arguments, columns=columns)


def test_the_first_screen() -> None:
    done = call(*SMALL)
    assert done.returncode == 0, done.stderr
    first, *_ = done.stdout.splitlines()
    assert first == "emulated: modelled, not measured · fabric h200-nvlink2"
    assert "PASS  peer  nothing wrong in " in done.stdout
    assert "control: one wrong byte is found" in words(done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_document_is_the_same_for_a_seed() -> None:
    one, again = (document("verify", *SMALL, "dispatch", "gate", "--seed", "3") for _ in range(2))
    assert one == again
    (probe,) = one["probes"]
    assert [(row["entry"], row["distribution"]) for row in probe["rows"]] == [
        ("dispatch", "uniform"),
        ("gate", "uniform"),
    ]
    assert {"iterations", "rows", "bytes_checked", "found", "found_by", "status"} <= probe["rows"][0].keys()


@pytest.mark.parametrize(
    ("injection", "text"),
    [
        ("corrupt-byte", "dispatch, uniform: from sequence 1: iteration 0: row "),
        ("corrupt-count", "dispatch of rank 0: expected, piece "),
        ("corrupt-route", "dispatch of rank 0: row, route "),
    ],
)
def test_a_corruption_is_found_and_named(injection: str, text: str) -> None:
    done = call(*SMALL, "dispatch", "--inject", injection, "--quiet", columns=400)
    assert done.returncode == 3, done.stderr
    assert text in done.stdout


def test_a_rank_later_than_the_deadline_is_a_hang() -> None:
    done = call(*SMALL, "combine", "--inject", "stall=3000000", "--quiet")
    assert done.returncode == 4, done.stderr
    assert "hang during combine, uniform, from sequence 1" in words(done.stdout)


def test_mutants_have_a_table_of_their_own() -> None:
    done = call("--fabric", "h200-nvlink2", "--transport", "peer", "--mutants", "signal", columns=120)
    assert done.returncode == 0, done.stderr
    assert "mutants killed" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("plain < at the wrap"))
    assert line.split()[-4:] == ["killed", "killed", "bytes", "1"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["dispach"],
        ["-d", "poisson"],
        ["signal", "-d", "uniform"],
        ["--num-gpus", "1", "--transport", "peer"],
        ["--iters", "0"],
        ["--experts", "9"],
        ["--experts", "0"],
        ["--experts", "3"],
        ["--rows", "0"],
        ["--rows", "4294967296"],
        ["--row-bytes", "40"],
        ["--row-bytes", "x"],
        ["--row-bytes", "1G"],
        ["--soak", "0"],
        ["--soak", "nan"],
        ["--load", "heavy"],
        ["--mutants", "--soak", "1"],
        ["--inject", "corrupt"],
        ["barrier", "--inject", "corrupt-route"],
    ],
)
def test_what_makes_no_sense_is_one_complaint(arguments: list[str]) -> None:
    assert "Traceback" not in refusal("verify", "--fabric", "pcie5-switch4", "--quiet", *arguments)
