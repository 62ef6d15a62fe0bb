"""`pcietool compare-nccl` as a user calls it without GPUs: what it says, exit codes, and one line for nonsense."""

from subprocess import CompletedProcess

import pytest

from tests.cli.program import document, one_line_of, pcietool, refusal, words

SMALL = ("--fabric", "h200-nvlink2", "--sizes", "4", "--mode", "graph")


def call(*arguments: str) -> CompletedProcess[str]:
    return pcietool("compare-nccl", *arguments)


def test_without_gpus_a_plain_sentence_and_exit_code_6() -> None:
    done = call(*SMALL)
    assert done.returncode == 6, done.stderr
    text = words(done.stdout)
    assert "NCCL, NVSHMEM and torch need real GPUs and cannot be emulated: only our side is shown" in text
    assert "emulated: modelled, not measured" in text
    assert "inline-flag all-reduce" in text


def test_the_document_is_the_same_for_a_seed() -> None:
    one, again = (document("compare-nccl", *SMALL, exit_code=6) for _ in range(2))
    assert one == again
    assert {row["bytes"] for probe in one["probes"] for row in probe["rows"]} == {4, None}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sizes", "3"],
        ["--sizes", "0"],
        ["--sizes", "4,"],
        ["--sizes", "x"],
        ["-b", "8", "-e", "4"],
        ["--sizes", "4", "-b", "4"],
        ["--sizes", "4", "-f", "4"],
        ["-e", "32M"],
        ["--transport", "self"],
        ["--num-gpus", "1", "--transport", "peer"],
        ["--init-timeout", "0"],
        ["--run-timeout", "1e6"],
        ["--contender", "nccl"],
    ],
)
def test_what_makes_no_sense_is_one_line(arguments: list[str]) -> None:
    one_line_of(refusal("compare-nccl", "--fabric", "pcie5-switch4", "--quiet", *arguments))
