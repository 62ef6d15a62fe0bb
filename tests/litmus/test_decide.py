"""What the axioms decide where the model has a gap: load buffering above all, loops, and what stays undecided."""

import pytest

from pcietool.litmus.axioms.decide import decide
from pcietool.litmus.axioms.words import execution_text
from pcietool.litmus.explore import explore, is_sought
from pcietool.litmus.model.search import Bounds
from pcietool.litmus.verdict import verdict_on
from tests.litmus.litmus_texts import ALONE, BLOCKS, GPUS, answered, columns, litmus_test

BOTH = "exists (P0:r0 = 1 /\\ P1:r0 = 1)"


def buffered(load: str, store: str, between: str = "", value: str = "1") -> str:
    """Each of two threads loads one word and stores the other."""
    lines = ("ld.{} r0, {}", between, "st.{} {}, {}")
    one, other = (("x", "y"), ("y", "x"))
    return columns(
        *(
            "\n".join(filter(None, (lines[0].format(load, source), between, lines[2].format(store, target, value))))
            for source, target in (one, other)
        )
    )


@pytest.mark.parametrize(
    ("load", "store", "between", "places", "verdict"),
    [
        ("relaxed.sys", "relaxed.sys", "", GPUS, "allowed"),
        ("weak", "weak", "", GPUS, "allowed"),
        ("volatile", "volatile", "", GPUS, "allowed"),
        ("acquire.sys", "relaxed.sys", "", GPUS, "allowed"),
        ("acquire.sys", "release.sys", "", GPUS, "forbidden"),
        ("acquire.gpu", "release.gpu", "", GPUS, "allowed"),
        ("acquire.gpu", "release.gpu", "", BLOCKS, "forbidden"),
        ("relaxed.sys", "relaxed.sys", "fence.acq_rel.sys", GPUS, "forbidden"),
        ("relaxed.sys", "relaxed.sys", "fence.sc.sys", GPUS, "forbidden"),
        ("relaxed.sys", "relaxed.sys", "fence.acq_rel.gpu", GPUS, "allowed"),
        ("weak", "weak", "fence.sc.sys", GPUS, "forbidden"),
        ("weak", "weak", "fence.acq_rel.sys", GPUS, "allowed"),
        ("relaxed.sys", "relaxed.sys", "bne r0, 1, OUT", GPUS, "forbidden"),
    ],
)
def test_load_buffering(load: str, store: str, between: str, places: str, verdict: str) -> None:
    body = buffered(load, store, between)
    if "OUT" in between:  # the store depends on what was loaded
        body += "\nOUT: add r1, 0, 0 | OUT: add r1, 0, 0 ;"
    asked = answered(body, BOTH, places=places)
    assert asked.verdict == verdict
    assert not asked.found.sought
    assert asked.decision is not None


def test_nothing_comes_out_of_thin_air() -> None:
    for value in ("r0", "r1"):
        body = buffered("relaxed.sys", "relaxed.sys", "mul r1, r0, 0\nadd r1, r1, r0", value)
        assert answered(body, "exists (P0:r0 != 0)").verdict == "forbidden"


def test_what_follows_a_branch_either_way_does_not_depend_on_it() -> None:
    body = columns(
        "ld.relaxed.sys r0, x\nbne r0, 1, J\nadd r1, 0, 0\nJ: st.relaxed.sys y, 1",
        "ld.relaxed.sys r0, y\nst.relaxed.sys x, 1",
    )
    assert answered(body, BOTH).verdict == "allowed"


def test_two_that_wait_for_each_other_first_never_come_to_an_end() -> None:
    waits = "L: ld.relaxed.sys r0, {}\nbne r0, 1, L\nst.relaxed.sys {}, 1"
    asked = answered(columns(waits.format("x", "y"), waits.format("y", "x")), BOTH)
    assert asked.verdict == "forbidden"
    assert asked.found.hung == asked.found.states


@pytest.mark.parametrize(("acknowledge", "verdict"), [("relaxed", "allowed"), ("release", "forbidden")])
def test_a_slot_that_is_used_again_needs_an_acknowledgement_that_releases(acknowledge: str, verdict: str) -> None:
    body = columns(
        "st.weak x, 1\nst.release.sys f, 1\nL: ld.acquire.sys r0, a\nbne r0, 1, L\nst.weak x, 2",
        f"L: ld.acquire.sys r0, f\nbne r0, 1, L\nld.weak r1, x\nst.{acknowledge}.sys a, 1",
    )
    asked = answered(body, "exists (P1:r1 = 2)", "a=0; f=0; x=0;")
    assert (asked.verdict, "load buffering" in asked.gaps) == (verdict, True)


def test_an_execution_of_the_axioms_can_be_read() -> None:
    test = litmus_test(buffered("relaxed.sys", "relaxed.sys"), BOTH)
    decision = decide(test, lambda outcome: outcome == (1, 1))
    assert decision.execution is not None
    assert execution_text(test, decision.execution)[1:] == [
        "P0: ld.relaxed.sys r0, x -> 1 (stored by P1)",
        "P0: st.relaxed.sys y, 1",
        "P1: ld.relaxed.sys r0, y -> 1 (stored by P0)",
        "P1: st.relaxed.sys x, 1",
    ]


def test_it_says_in_which_order_writes_stand() -> None:
    body = columns(
        "st.relaxed.sys x, 1\nst.relaxed.sys x, 2", "atom.relaxed.sys.exch r0, x, 3", "st.weak y, 1", "st.weak y, 2"
    )
    test = litmus_test(
        body, "exists (P1:r0 = 1 /\\ x = 2 /\\ y = 1)", places=f"{GPUS} | P2@cta 0,gpu 2 | P3@cta 0,gpu 3"
    )
    decision = decide(test, lambda outcome: is_sought(test, outcome))
    assert decision.execution is not None
    assert execution_text(test, decision.execution)[-2:] == [
        "x: 1 stored by P0, then 3 stored by P1, then 2 stored by P0",
        "y: 1 stored by P2, 2 stored by P3 (not all of them in an order)",
    ]


@pytest.mark.parametrize("lock", ["exch r0, l, 1", "cas r0, l, 0, 1"])
@pytest.mark.parametrize(("unlock", "verdict"), [("release", "forbidden"), ("relaxed", "allowed")])
def test_a_spin_lock_is_decided_whatever_it_spins_with(lock: str, unlock: str, verdict: str) -> None:
    """By the axioms alone, to the end: a turn that changes nothing may be left out."""
    column = (
        f"L: atom.acquire.gpu.{lock}\nbne r0, 0, L\nld.weak r1, x\nadd r1, r1, 1\nst.weak x, r1\nst.{unlock}.gpu l, 0"
    )
    test = litmus_test(columns(column, column), "exists (x = 1)", "l=0; x=0;", BLOCKS)
    assert decide(test, lambda outcome: is_sought(test, outcome)).verdict == verdict


def test_a_loop_with_a_known_number_of_turns_is_decided() -> None:
    column = "L: atom.relaxed.sys.add r0, x, 1\nadd r1, r1, 1\nblt r1, 3, L"
    test = litmus_test(columns(column, column), "exists (x != 6)", "x=0; P0:r1=0; P1:r1=0;")
    assert decide(test, lambda outcome: is_sought(test, outcome)).verdict == "forbidden"


def test_a_loop_that_changes_something_in_every_turn_is_left_undecided() -> None:
    body = columns("L: st.relaxed.sys x, r1\nadd r1, r1, 1\nld.relaxed.sys r0, y\nbne r0, 1, L", "st.relaxed.sys y, 1")
    test = litmus_test(body, "exists (x = 100)", "x=0; y=0; P0:r1=1;")
    decision = decide(test, lambda outcome: is_sought(test, outcome))
    assert (decision.verdict, decision.reason) == (
        "undecided",
        "threads may go on for longer than the axioms were asked about",
    )
    assert decide(test, lambda outcome: outcome == (3,)).verdict == "allowed"


def test_a_way_that_divides_by_zero_is_none() -> None:
    body = columns(
        "ld.relaxed.sys r0, x\nst.relaxed.sys y, 1\nbeq r0, 1, L\ndiv r1, 1, r0\nL: add r2, 0, 0",
        "ld.relaxed.sys r0, y\nst.relaxed.sys x, 1",
    )
    test = litmus_test(body, BOTH)
    assert decide(test, lambda outcome: is_sought(test, outcome)).verdict == "allowed"
    assert decide(test, lambda outcome: outcome[0] == 0).verdict == "forbidden"
    constant = litmus_test(
        columns("ld.weak r0, x\nbeq r0, 0, L\ndiv r1, 1, r2\nL: add r2, 0, 0"),
        "exists (P0:r0 = 0)",
        "x=0; P0:r2=0;",
        ALONE,
    )
    assert decide(constant, lambda outcome: is_sought(constant, outcome)).verdict == "allowed"


def test_what_is_too_large_or_takes_too_long_is_left_undecided() -> None:
    column = "\n".join(f"ld.weak r{n}, x\nst.weak x, {n}" for n in range(8))
    test = litmus_test(columns(column, column, column), "exists (P0:r0 = 99)", places=f"{GPUS} | P2@cta 0,gpu 2")
    decision = decide(test, lambda outcome: is_sought(test, outcome), bounds=Bounds(1_000))
    assert (decision.verdict, decision.reason) == ("undecided", "there are more than 1,000 candidates for an execution")
    clock = iter(range(10_000))
    told: list[int] = []
    bounds = Bounds(10_000, seconds=2, clock=lambda: next(clock), progress=told.append)
    decision = decide(test, lambda outcome: is_sought(test, outcome), bounds=bounds)
    assert (decision.verdict, decision.reason) == ("undecided", "the time for the axioms is up")
    assert told == [64, 128, 192]


def test_what_was_seen_is_judged_by_model_and_axioms() -> None:
    asked = answered(buffered("weak", "weak"), "exists (P0:r0 = 1 /\\ P1:r0 = 1)")
    assert [verdict_on(asked, outcome) for outcome in ((0, 1), (1, 1), (2, 0))] == ["allowed", "allowed", "forbidden"]
    whole = answered(columns("st.weak x, 1", "ld.weak r0, x"), "exists (P1:r0 = 1)")
    assert [verdict_on(whole, outcome) for outcome in ((1,), (2,))] == ["allowed", "forbidden"]


def test_the_axioms_are_asked_only_where_they_have_to_be() -> None:
    found = explore(litmus_test(columns("st.weak x, 1", "ld.weak r0, x"), "exists (P1:r0 = 2)"))
    assert found.complete
    assert answered(columns("st.weak x, 1", "ld.weak r0, x"), "exists (P1:r0 = 2)").decision is None
