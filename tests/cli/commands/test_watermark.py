"""`pcietool watermark` as a user calls it: exit codes, what stdout says, and one line for what makes no sense."""

from subprocess import CompletedProcess

import pytest

from tests.cli.program import document, one_line_of, pcietool, refusal, words

SMALL = ("--fabric", "h200-nvlink2", "--rows", "40", "--row-bytes", "64", "--threads", "64", "--groups", "2", "-n", "1")


def call(*arguments: str, columns: int = 80) -> CompletedProcess[str]:
    return pcietool("watermark", *arguments, columns=columns)


def test_the_first_screen() -> None:
    done = call(*SMALL)
    assert done.returncode == 0, done.stderr
    first, *_ = done.stdout.splitlines()
    assert first == "emulated: modelled, not measured · fabric h200-nvlink2"
    assert "PASS  peer" in done.stdout
    assert "control: two words that changed places are found" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_document_is_the_same_for_a_seed() -> None:
    one, again = (document("watermark", *SMALL, "--transport", "peer", "--seed", "3") for _ in range(2))
    assert one == again
    (probe,) = one["probes"]
    keys = {"gb_per_s", "percent_of_sm_copy", "percent_of_copy_engine", "first_release_us", "signals", "polls", "bytes"}
    assert keys <= probe["rows"][0].keys()
    assert [(row["path"], row["chunk_rows"]) for row in probe["rows"]] == [
        (path, chunk) for path in ("vector", "engine") for chunk in (1, 8, 16, 40)
    ]


def test_a_dropped_chunk_is_a_hang() -> None:
    done = call(*SMALL, "--chunks", "16", "--inject", "drop-chunk=2", "--quiet")
    assert done.returncode == 4, done.stderr
    assert "chunk 2 (rows 32 to 39) from rank 0 was never published" in words(done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--num-gpus", "1", "--transport", "peer"],
        ["--row-bytes", "40"],
        ["--row-bytes", "0"],
        ["--row-bytes", "x"],
        ["--row-bytes", "64", "--columns", "32"],
        ["--chunks", "256"],
        ["--chunks", "0"],
        ["--chunks", "1,2,"],
        ["--rows", "0"],
        ["--rows", "-5"],
        ["--rows", "4294967296"],
        ["--rows", "300000000"],
        ["--sms", "0"],
        ["--sms", "9999"],
        ["--sms", "2147483648"],
        ["--threads", "96"],
        ["--inject", "dead-rank"],
    ],
)
def test_what_makes_no_sense_is_one_line(arguments: list[str]) -> None:
    one_line_of(refusal("watermark", "--fabric", "pcie5-switch4", "--quiet", *arguments))
