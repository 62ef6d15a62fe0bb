"""What an exploration means for a test that expects something, and what the result says of it."""

from pathlib import Path

import pytest

from pcietool.contract.results import Status
from pcietool.errors import ConfigError
from pcietool.litmus.explore import explore
from pcietool.litmus.text.parse import parse_litmus
from pcietool.probes.litmus import probe as litmus
from pcietool.probes.litmus.config import LitmusConfig
from tests.listening import Listener

MP = "st.weak x, 1 | ld.{read}.sys r0, y ; st.release.sys y, 1 | ld.weak r1, x ;"
STALE = "(P1:r0 = 1 /\\ P1:r1 = 0)"
LB = "ld.weak r0, x | ld.weak r0, y ; st.weak y, 1 | st.weak x, 1 ;"
BOTH = "(P0:r0 = 1 /\\ P1:r0 = 1)"


def litmus_text(
    body: str, condition: str, description: str = "", places: str = "P0@cta 0,gpu 0 | P1@cta 0,gpu 1"
) -> str:
    return f'PTX test\n"{description}"\n{{ x=0; y=0; }}\n{places} ;\n{body}\n{condition}\n'


def judged(
    body: str, condition: str, description: str = "", max_states: int = 1000, **places: str
) -> tuple[Status, str | None]:
    return litmus.judge(explore(parse_litmus(litmus_text(body, condition, description, **places)), max_states))


@pytest.mark.parametrize(
    ("read", "condition", "description", "status"),
    [
        ("acquire", f"exists {STALE}", "expect: forbidden", Status.PASS),
        ("acquire", f"exists {STALE}", "expect: allowed", Status.FAIL),
        ("relaxed", f"exists {STALE}", "expect: allowed", Status.PASS),
        ("relaxed", f"exists {STALE}", "expect: forbidden", Status.FAIL),
        ("relaxed", f"exists {STALE}", "", Status.INFO),
        ("acquire", f"exists {STALE}", "", Status.INFO),
        ("acquire", f"~exists {STALE}", "", Status.PASS),
        ("relaxed", f"~exists {STALE}", "", Status.FAIL),
        ("acquire", f"forall (~{STALE})", "", Status.PASS),
        ("relaxed", f"forall (~{STALE})", "", Status.FAIL),
        ("relaxed", f"~exists {STALE}", "expect: allowed", Status.PASS),
    ],
)
def test_verdict_against_expectation(read: str, condition: str, description: str, status: Status) -> None:
    assert judged(MP.format(read=read), condition, description)[0] is status


@pytest.mark.parametrize(
    ("condition", "description", "status"),
    [
        (f"exists {BOTH}", "", Status.WARN),
        (f"~exists {BOTH}", "", Status.WARN),
        (f"exists {BOTH}", "expect: allowed", Status.WARN),
        (f"exists {BOTH}", "expect: forbidden", Status.PASS),
    ],
)
def test_what_falls_into_a_gap_of_the_model_is_not_called_forbidden_lightly(
    condition: str, description: str, status: Status
) -> None:
    found, reason = judged(LB, condition, description)
    assert found is status
    assert (reason is None) == (status is Status.PASS)
    assert reason is None or "load buffering" in reason


def test_a_bound_is_no_proof() -> None:
    status, reason = judged(MP.format(read="acquire"), f"~exists {STALE}", max_states=3)
    assert status is Status.ERROR
    assert "proves nothing; raise --max-states" in (reason or "")
    assert judged(MP.format(read="acquire"), f"exists {STALE}", max_states=3)[0] is Status.WARN


def test_hangs_are_hangs_unless_the_test_says_so() -> None:
    body, place = "bar.cta.sync 0, 1, 3 | bar.cta.sync 0, 1, 3 ;", "P0@cta 0,gpu 0 | P1@cta 0,gpu 0"
    assert judged(body, "exists (x = 0)", places=place) == (Status.HANG, "a barrier is never completed")
    assert judged(body, "exists (x = 0)", "expect: forbidden, hangs", places=place)[0] is Status.PASS
    enough = body.replace("3 |", "2 |").replace("3 ;", "2 ;")
    assert judged(enough, "exists (x = 0)", "expect: allowed, hangs", places=place)[0] is Status.FAIL


def test_a_program_that_never_ends_is_a_hang() -> None:
    body = "LC00: ld.relaxed.sys r0, x | ld r0, 0 ; beq r0, 0, LC00 ;"
    assert judged(body, "exists (P0:r0 = 0)") == (Status.HANG, "no execution ends")


def test_the_result_has_a_row_a_test(tmp_path: Path) -> None:
    for name, read in (("a", "acquire"), ("b", "relaxed")):
        text = litmus_text(MP.format(read=read), f"~exists {STALE}")
        (tmp_path / f"{name}.litmus").write_text(text)
    observed = Listener()
    result = litmus.run(LitmusConfig(tests=(str(tmp_path),)), observed)
    assert observed.begun == observed.results == [result]
    assert result.status is Status.FAIL
    assert result.reason == "test: allowed, though the test says forbidden"
    assert result.verdict.startswith("2 tests, 1 of 2 as expected: 1 allowed, 1 forbidden; ")
    kept, broken = result.rows
    assert (kept["file"], kept["verdict"], kept["status"], kept["interleaving"]) == (
        "a.litmus",
        "forbidden",
        "pass",
        [],
    )
    assert (broken["file"], broken["verdict"], broken["status"]) == ("b.litmus", "allowed", "fail")
    assert {"text": "P1:r0=1 P1:r1=0", "sought": True} in broken["outcomes"]
    assert len(broken["outcomes"]) == broken["outcome_count"] == 4
    assert broken["interleaving"][-1].startswith("P1: ld.weak r1, x -> 0 (initial value")


def test_nothing_is_explored_if_one_test_is_broken(tmp_path: Path) -> None:
    (tmp_path / "a.litmus").write_text(litmus_text(LB, f"exists {BOTH}"))
    (tmp_path / "b.litmus").write_text("PTX b\n{}\n")
    observed = Listener()
    with pytest.raises(ConfigError, match=r"b\.litmus line 3, column 1"):
        litmus.run(LitmusConfig(tests=(str(tmp_path),)), observed)
    assert not observed.begun
