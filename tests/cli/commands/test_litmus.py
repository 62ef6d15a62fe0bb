"""`pcietool litmus` as a process: what it prints, where, and its exit code."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cli.program import pcietool, refusal, words


def litmus(*arguments: str) -> CompletedProcess[str]:
    return pcietool("litmus", *arguments)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A test that says forbidden of what is allowed."""
    path = tmp_path / "wrong.litmus"
    path.write_text(
        "PTX wrong\n{ x=0; }\nP0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\nst.weak x, 1 | ld.weak r0, x ;\n~exists (P1:r0 = 1)\n"
    )
    return path


def test_packaged_tests_by_name() -> None:
    done = litmus("sb-fence.sc.sys", "mp-weak")
    assert (done.returncode, done.stderr) == (0, "")
    assert words(done.stdout).startswith(
        "emulated: modelled, not measured · PTX memory model"
        " PASS model 3 tests, 3 of 3 as expected: 1 allowed, 2 forbidden; every execution explored, "
    )
    assert "mp-weak-gpus" in done.stdout
    assert "P1:r0=" not in done.stdout


def test_outcomes_and_trace() -> None:
    done = litmus("mp-weak-gpus", "--outcomes", "--trace")
    assert "  * P1:r0=1 P1:r1=0\n" in done.stdout
    assert "    P1:r0=0 P1:r1=0\n" in done.stdout
    assert "    4  P1: ld.weak r1, x -> 0 (initial value, though a later store exists)\n" in done.stdout


def test_trace_of_what_is_forbidden_has_nothing_to_show() -> None:
    assert "no execution to show: forbidden" in litmus("coww", "--trace").stdout


def test_a_wrong_expectation_is_exit_code_3(wrong: Path) -> None:
    done = litmus(str(wrong))
    assert done.returncode == 3
    assert "FAIL" in done.stdout
    assert "wrong: allowed, though the test says forbidden" in words(done.stdout)


@pytest.mark.parametrize("bound", [("--max-states", "30"), ("--max-seconds", "0.001")])
def test_a_bound_that_ends_the_search_is_exit_code_1(tmp_path: Path, bound: tuple[str, str]) -> None:
    path = tmp_path / "counts.litmus"
    path.write_text(
        "PTX counts\n{ x=0; }\nP0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\nLC00: st.weak x, r0 | ld.weak r0, x ;\n"
        "add r0, r0, 1 | ;\ngoto LC00 | ;\n~exists (P1:r0 = -1)\n"
    )
    done = litmus(str(path), *bound)
    assert done.returncode == 1
    assert f"counts: undecided: not found in {'31' if bound[1] == '30' else ''}" in words(done.stdout)
    assert f"which proves nothing; raise {bound[0]} (threads may go on for longer" in words(done.stdout)
    assert "1 undecided; not every execution explored" in words(done.stdout)


def test_what_never_ends_is_exit_code_4_and_can_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "gone.litmus"
    path.write_text(
        "PTX gone\n{ x=0; }\nP0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\nL: ld.relaxed.sys r0, x | st.relaxed.sys x, 1 ;\n"
        "bne r0, 1, L | st.relaxed.sys x, 2 ;\nexists (P0:r0 = 1)\n"
    )
    done = litmus(str(path), "--trace")
    assert done.returncode == 4
    assert "HANG" in done.stdout
    assert "gone: an execution never ends: P0: looks for ever: ld.relaxed.sys r0, x -> 2" in words(done.stdout)
    assert "  an execution that never ends:\n    1  P1: st.relaxed.sys x, 1\n" in done.stdout


def test_a_vector_is_torn_if_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "vector.litmus"
    path.write_text(
        "PTX vector\n{ x=0; }\nP0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n"
        "st.v2.u32 x, {1, 1} | ld.v2.u32 {r0, r1}, x ;\nexists (P1:r0 != P1:r1)\n"
    )
    assert "forbidden" in litmus(str(path)).stdout
    assert "allowed" in litmus(str(path), "--tear").stdout


@pytest.mark.parametrize("json_option", ["-", "FILE"])
def test_the_document(wrong: Path, tmp_path: Path, json_option: str) -> None:
    target = tmp_path / "result.json"
    done = litmus(str(wrong), "--json", "-" if json_option == "-" else str(target))
    document = json.loads(done.stdout if json_option == "-" else target.read_text())
    assert (document["schema"], document["backend"]) == ("pcietool.result/1", "emulated")
    assert document["verdict"]["status"] == "fail"
    (row,) = document["probes"][0]["rows"]
    assert (row["test"], row["verdict"], row["expected"], row["complete"]) == ("wrong", "allowed", "forbidden", True)


def test_quiet_prints_the_verdict_alone() -> None:
    done = litmus("coww", "--quiet")
    assert words(done.stdout).endswith("states")
    assert "coww" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-test"], "is no file, no directory and not how a packaged test's name starts"),
        (["coww", "--max-states", "0"], "--max-states"),
        (["coww", "--trials", "0"], "--trials 0: must be greater than or equal to 1"),
        (["coww", "--trials", "many"], "--trials 'many' is not a number"),
        (["coww", "--trials", "-5"], "--trials"),
        (["coww", "--trials", "5", "--place", "moon"], "--place"),
        (["coww", "--place", "host"], "--place: the model needs no machine; add --trials"),
        (["coww", "--backend", "cuda"], "--backend: the model needs no machine"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_exit_code_2(arguments: list[str], message: str) -> None:
    assert message in words(refusal("litmus", *arguments))


def test_a_broken_file_is_one_line_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "broken.litmus"
    path.write_text("PTX broken\n{ x=0; }\nP0@cta 0,gpu 0 ;\nst.weak x, r3 ;\nexists (x = 0)\n")
    said = refusal("litmus", str(path))
    assert said == f"pcietool: error: {path} line 4, column 12: nothing sets register r3 in this thread\n"


def test_trials_stand_beside_the_model() -> None:
    done = litmus(
        "mp-weak", "bar-sync-mp", "--trials", "1K", "--place", "peer", "--outcomes", "--fabric", "h200-nvlink2"
    )
    assert done.returncode == 0
    assert "1,024 trials each" in done.stdout
    assert "mp-weak-gpus · peer" in done.stdout
    assert "a block barrier, which may block; runs on the model only" in words(done.stdout)


def test_the_document_of_trials_has_every_outcome_with_its_count() -> None:
    done = litmus("sb-fence.sc.sys", "--trials", "300", "--place", "peer", "--seed", "7", "--json", "-", "-g", "2")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    for row in document["probes"][0]["rows"]:
        assert (row["place"], row["seed"], row["trials"], row["seen"]) == ("peer", 7, 300, 0)
        assert sum(outcome["count"] for outcome in row["outcomes"]) == 300


def test_a_wrong_expectation_is_exit_code_3_with_trials_too(wrong: Path) -> None:
    done = litmus(str(wrong), "--trials", "10", "--place", "host", "--backend", "emulated")
    assert done.returncode == 3
    assert "wrong: allowed, though the test says forbidden" in words(done.stdout)


def test_nothing_that_can_run_is_exit_code_6() -> None:
    assert litmus("bar-sync-mp", "--trials", "10", "--backend", "emulated").returncode == 6


def test_help_says_what_it_is_not() -> None:
    done = litmus("--help")
    assert "Without --trials nothing runs on a GPU" in words(done.stdout)
    assert "--warmup" not in done.stdout
