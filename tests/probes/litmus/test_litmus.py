"""What an exploration means for a test that expects something, and what the result says of it."""

from pathlib import Path

import pytest

from pcietool.contract.results import Status
from pcietool.errors import ConfigError
from pcietool.litmus.explore import explore
from pcietool.litmus.model.search import Bounds
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.threads import MAX_STEPS
from pcietool.litmus.verdict import Answer, answer
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


def answered(text: str, max_states: int = 1000) -> Answer:
    return answer(explore(parse_litmus(text), Bounds(max_states, MAX_STEPS)))


def judged(
    body: str, condition: str, description: str = "", max_states: int = 1000, **places: str
) -> tuple[Status, str | None]:
    return litmus.judge(answered(litmus_text(body, condition, description, **places), max_states))


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
        (f"exists {BOTH}", "", Status.INFO),
        (f"~exists {BOTH}", "", Status.FAIL),
        (f"exists {BOTH}", "expect: allowed", Status.PASS),
        (f"exists {BOTH}", "expect: forbidden", Status.FAIL),
    ],
)
def test_what_the_model_does_not_show_is_asked_of_the_axioms(condition: str, description: str, status: Status) -> None:
    assert judged(LB, condition, description)[0] is status


HEARTBEAT = "LC00: st.relaxed.sys x, 1 | st.relaxed.sys y, 1 ; ld.relaxed.sys r0, y ; bne r0, 1, LC00 ;"
"""How often it stores is known to nobody."""


@pytest.mark.parametrize(
    ("description", "status"),
    [("", Status.WARN), ("expect: forbidden", Status.ERROR), ("expect: allowed", Status.ERROR)],
)
def test_no_expectation_makes_a_pass_of_what_nobody_can_decide(description: str, status: Status) -> None:
    asked = answered(litmus_text(HEARTBEAT, "exists (x = 0)", description))
    found, reason = litmus.judge(asked)
    assert (asked.verdict, asked.found.complete, found) == ("undecided", True, status)
    assert "not found, but the model does not show all of stores in loops" in (reason or "")


def test_a_bound_is_no_proof_but_what_the_axioms_decide_needs_none() -> None:
    spinning = "LC00: st.weak x, r0 | st.weak y, 1 ; add r0, r0, 1 ; goto LC00 ;"
    status, reason = judged(spinning, "~exists (y = 5)", max_states=30)
    assert status is Status.ERROR
    assert "which proves nothing; raise --max-states" in (reason or "")
    assert judged(spinning, "exists (y = 5)", max_states=30)[0] is Status.WARN
    decided = answered(litmus_text(MP.format(read="acquire"), f"~exists {STALE}"), max_states=3)
    assert decided.verdict == "forbidden"
    assert litmus.judge(decided) == (
        Status.WARN,
        "5 states do not tell whether every execution ends; raise --max-states",
    )


def test_hangs_are_hangs_unless_the_test_says_so() -> None:
    body, place = "bar.cta.sync 0, 1, 3 | bar.cta.sync 0, 1, 3 ;", "P0@cta 0,gpu 0 | P1@cta 0,gpu 0"
    assert judged(body, "exists (x = 0)", places=place) == (
        Status.HANG,
        "an execution never ends: P0: waits for ever; P1: waits for ever",
    )
    assert judged(body, "exists (x = 0)", "expect: forbidden, hangs", places=place)[0] is Status.PASS
    enough = body.replace("3 |", "2 |").replace("3 ;", "2 ;")
    assert judged(enough, "exists (x = 0)", "expect: allowed, hangs", places=place)[0] is Status.FAIL


def test_a_program_that_never_ends_is_a_hang() -> None:
    body = "LC00: ld.relaxed.sys r0, x | ld r0, 0 ; beq r0, 0, LC00 ;"
    reason = "an execution never ends: P0: looks for ever: ld.relaxed.sys r0, x -> 0"
    assert judged(body, "exists (P0:r0 = 0)") == (Status.HANG, reason)


def test_progress_is_told_every_two_seconds_at_most() -> None:
    times = iter((0.0, 1.9, 2.0, 2.0, 3.9, 4.1, 4.1))
    listener = Listener()
    progress = litmus.told("t: {} states", listener, lambda: next(times))
    for states in (1_000, 2_000, 3_000, 4_000):
        progress(states)
    assert listener.lines == ["t: 2,000 states", "t: 4,000 states"]


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
