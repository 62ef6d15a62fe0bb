"""`pcietool atomic-loss` as a user calls it: exit codes, what stdout says, and one line for what makes no sense."""

from subprocess import CompletedProcess

import pytest

from tests.cli.program import document, one_line_of, pcietool, refusal, words


def call(*arguments: str, columns: int = 80) -> CompletedProcess[str]:
    return pcietool("atomic-loss", *arguments, columns=columns)


def test_loss_is_shown_and_is_no_error() -> None:
    done = call("--fabric", "pcie5-switch4", "-g", "2", "-n", "8")
    assert done.returncode == 0, done.stderr
    first, *_ = done.stdout.splitlines()
    assert first == "emulated: modelled, not measured · fabric pcie5-switch4"
    assert "INFO  host  host memory:" in done.stdout
    assert "control: a plain load and store loses" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_document_has_the_counts() -> None:
    options = ("--fabric", "h200-nvlink2", "-n", "4", "--transport", "host", "--kind", "atom")
    (probe,) = document("atomic-loss", *options)["probes"]
    assert {"expected", "seen", "lost", "lost_fraction", "repeated_old_values"} <= probe["rows"][0].keys()
    assert all(isinstance(row["seen"], int) and row["kind"] != "red" for row in probe["rows"])


def test_a_dead_rank_is_a_hang() -> None:
    done = call("--fabric", "h200-nvlink2", "--inject", "dead-rank", "--quiet")
    assert done.returncode == 4, done.stderr
    assert "wanted 1, got 0" in words(done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--num-gpus", "1", "--transport", "peer"],
        ["--concurrency", "64"],
        ["--concurrency", "1x2000"],
        ["--kind", "red", "--operation", "exch"],
        ["--home", "4"],
        ["--inject", "stall=3"],
        ["--num-gpus", "1", "--inject", "dead-rank"],
        ["--iters", "100000000", "--concurrency", "8x32"],
    ],
)
def test_what_makes_no_sense_is_one_line(arguments: list[str]) -> None:
    one_line_of(refusal("atomic-loss", "--backend", "emulated", "--quiet", *arguments))


@pytest.mark.parametrize("arguments", [["--iters", "0"], ["--iters", "-3"], ["--operation", "mul"], ["--scope", "cta"]])
def test_values_outside_the_options_are_usage_errors(arguments: list[str]) -> None:
    refusal("atomic-loss", *arguments)
