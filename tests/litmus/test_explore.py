"""What exploring finds: outcomes, hangs, bounds, and executions that a person can follow."""

import pytest

from pcietool.errors import ConfigError
from pcietool.litmus.describe import interleaving, outcome_text
from pcietool.litmus.explore import Exploration, explore
from pcietool.litmus.model.search import Bounds
from pcietool.litmus.text.library import find, load
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.threads import MAX_STEPS


def explored(
    body: str, condition: str, places: str = "P0@cta 0,gpu 0 | P1@cta 0,gpu 1", max_states: int = 100_000
) -> Exploration:
    text = f"PTX test\n{{ x=0; y=0; }}\n{places} ;\n{body}\n{condition}"
    return explore(parse_litmus(text), Bounds(max_states, MAX_STEPS))


def outcomes(found: Exploration) -> set[str]:
    return {outcome_text(found, outcome) for outcome in found.outcomes}


def packaged(name: str) -> Exploration:
    return explore(load(find([name])[0]))


SPINNING = """st.weak x, 1 | LC00: ld.acquire.sys r0, y ;
st.release.gpu y, 1 | bne r0, 1, LC00 ;
 | ld.weak r1, x ;"""


def test_an_execution_reads_as_one_line_a_step() -> None:
    found = explored(SPINNING, "exists (P1:r1 = 0)")
    (outcome,) = found.sought
    assert interleaving(found.model, found.execution(outcome)) == [
        "P0: st.weak x, 1",
        "P0: st.release.gpu y, 1",
        "P1: ld.acquire.sys r0, y -> 1 (stored by P0)",
        "P1: ld.weak r1, x -> 0 (initial value, though a later store exists)",
    ]


def test_a_store_that_comes_to_stand_before_another_says_so() -> None:
    found = explored("st.weak x, 1 | st.weak x, 2 ;", "exists (x = 1)")
    (outcome,) = found.sought
    lines = interleaving(found.model, found.execution(outcome))
    assert len(lines) == 2
    assert lines[1] in ("P1: st.weak x, 2 (ordered before the 1 of P0)", "P1: st.weak x, 2", "P0: st.weak x, 1")


def test_every_step_of_an_execution_follows_from_the_one_before() -> None:
    found = packaged("barrier-slots-relaxed-wait-gpus")
    for outcome in found.outcomes:
        state = found.model.start()
        for step in found.execution(outcome):
            assert step in found.model.steps(state)
            state = step.state
        assert found.model.has_ended(state)


def test_a_loop_that_only_polls_ends() -> None:
    found = explored(SPINNING, "exists (P1:r0 = 0)")
    assert found.complete
    assert outcomes(found) == {"P1:r0=1"}


def test_a_poll_that_nobody_answers_has_no_outcome() -> None:
    found = explored("LC00: ld.relaxed.sys r0, x | ld r0, 0 ; beq r0, 0, LC00 ;", "exists (P0:r0 = 0)")
    assert (found.complete, found.outcomes, found.hung) == (True, {}, found.states)


def test_a_program_that_never_repeats_hits_the_bound() -> None:
    body = "LC00: add r0, r0, 1 | ld r0, 0 ; st.weak x, r0 ; goto LC00 ;"
    found = explored(body, "exists (P0:r0 = -1)", max_states=500)
    assert not found.complete
    assert found.states <= 502


def test_a_loop_that_stores_something_new_in_each_turn_is_not_explored_to_its_end() -> None:
    found = explored("LC00: st.weak x, r0 | st.weak y, 1 ; add r0, r0, 1 ; goto LC00 ;", "exists (x = -1)")
    assert (found.complete, found.stopped, found.hung) == (False, "steps", 0)


def test_a_counter_without_bound_is_an_error() -> None:
    with pytest.raises(ConfigError, match="test: P0 counts to more than 100,000; bound its loops"):
        explored("LC00: add r0, r0, 1 | st.weak x, 1 ; bne r0, -1, LC00 ;", "exists (x = -1)")


def test_a_search_ends_when_its_time_is_up() -> None:
    text = "PTX test\n{ x=0; }\nP0@cta 0,gpu 0 ;\nLC00: st.weak x, r0 ; add r0, r0, 1 ; goto LC00 ;\nexists (x = -1)"
    clock = iter(range(100))
    told: list[int] = []
    bounds = Bounds(10**6, 10**6, seconds=2.5, clock=lambda: float(next(clock)), progress=told.append)
    found = explore(parse_litmus(text), bounds)
    assert found.stopped == "seconds"
    assert len(told) == 3
    assert 0 < told[0] < told[-1] <= found.states < 10**6


def test_the_bound_is_not_hit_by_a_search_that_just_fits() -> None:
    states = explored(SPINNING, "exists (P1:r1 = 0)").states
    assert explored(SPINNING, "exists (P1:r1 = 0)", max_states=states).complete
    assert not explored(SPINNING, "exists (P1:r1 = 0)", max_states=states - 1).complete


def test_branches_arithmetic_and_rmws_compute() -> None:
    found = explored(
        """ld r0, 6 | ld r0, 0 ;
        mul r1, r0, 7 ;
        sub r1, r1, 2 ;
        st.weak x, r1 ;
        blt r1, 40, LC00 ;
        atom.relaxed.sys.cas r2, x, 40, 41 ;
        atom.relaxed.sys.cas r3, x, 40, 99 ;
        red.relaxed.sys.sub x, 1 ;
        LC00: ;""",
        "locations [P0:r2; P0:r3;] exists (x = 40)",
    )
    assert outcomes(found) == {"P0:r2=40 P0:r3=41 x=40"}


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ConfigError, match="test line 4: div by zero"):
        explored("ld r0, 0 | ld r0, 0 ; div r1, 1, r0 ;", "exists (P0:r1 = 0)")


COPY = "fence.proxy.async ; cp.async.bulk [y], [x] ; cp.async.bulk.commit_group ; WAIT"


def copied(wait: str, places: str = "P0@cta 0,gpu 0") -> Exploration:
    return explored(f"st.weak x, 1 ; {COPY.replace('WAIT', wait)} ; ld.weak r0, y ;", "exists (P0:r0 = 0)", places)


def test_a_bulk_copy_is_somebody_else_until_its_thread_has_waited() -> None:
    found = copied("cp.async.bulk.wait_group.read 0")
    (outcome,) = found.sought
    lines = interleaving(found.model, found.execution(outcome))
    assert "copy by P0: reads x -> 1 (stored by P0)" in lines
    assert "copy by P0: writes y, 1" in lines
    assert outcomes(copied("cp.async.bulk.wait_group 0")) == {"P0:r0=1"}


def test_a_copy_that_is_issued_again_has_to_be_waited_for() -> None:
    body = "LC00: cp.async.bulk [y], [x] ; cp.async.bulk.commit_group ; WAIT ; add r0, r0, 1 ; bne r0, 2, LC00 ;"
    one_thread = "P0@cta 0,gpu 0"
    waiting = body.replace("WAIT", "cp.async.bulk.wait_group 0")
    assert outcomes(explored(waiting, "exists (P0:r0 = 2)", one_thread)) == {"P0:r0=2"}
    with pytest.raises(ConfigError, match="test line 4: issued again before a full wait_group"):
        explored(body.replace("WAIT", "cp.async.bulk.wait_group.read 0"), "exists (P0:r0 = 2)", one_thread)


ONE_BLOCK = "P0@cta 0,gpu 0 | P1@cta 0,gpu 0"


def test_a_barrier_that_nobody_completes_hangs() -> None:
    found = explored("bar.cta.sync 0, 1, 3 | bar.cta.sync 0, 1, 3 ;", "exists (x = 0)", ONE_BLOCK)
    assert (found.hung, found.outcomes) == (found.states, {})
    assert found.hang is not None
    lines = interleaving(found.model, found.hang)
    assert sorted(lines[:2]) == ["P0: bar.cta.sync 0, 1, 3 (waits)", "P1: bar.cta.sync 0, 1, 3 (waits)"]
    assert lines[2:] == ["P0: waits for ever", "P1: waits for ever"]


def test_a_barrier_can_be_used_again() -> None:
    found = explored(
        """LC00: bar.cta.sync 0 | LC10: bar.cta.sync 0 ;
        add r0, r0, 1 | add r0, r0, 1 ;
        bne r0, 3, LC00 | bne r0, 3, LC10 ;""",
        "exists (P0:r0 = 3)",
        ONE_BLOCK,
    )
    assert (found.complete, found.hung, outcomes(found)) == (True, 0, {"P0:r0=3"})


@pytest.mark.parametrize(("count", "hangs"), [("", False), (", 0, 2", True)])
def test_a_thread_that_has_ended_is_waited_for_only_by_a_barrier_with_a_count(count: str, hangs: bool) -> None:
    body = f"goto LC00 | bar.cta.sync 0{count} ; bar.cta.sync 0{count} ; LC00: ;"
    assert bool(explored(body, "exists (x = 0)", ONE_BLOCK).hung) is hangs


def test_a_barrier_number_can_come_from_a_register() -> None:
    body = "ld r0, 5 | bar.cta.arrive 0, 5, 2 ; bar.cta.sync 0, r0, 2 ;"
    assert explored(body, "exists (x = 0)", ONE_BLOCK).hung == 0
    assert explored(body.replace("ld r0, 5", "ld r0, 6"), "exists (x = 0)", ONE_BLOCK).hung


def test_two_thread_counts_on_one_barrier_are_an_error() -> None:
    with pytest.raises(ConfigError, match="test line 4: threads meet at barrier 1 with different thread counts"):
        explored("bar.cta.sync 0, 1, 2 | bar.cta.sync 0, 1, 3 ;", "exists (x = 0)", ONE_BLOCK)


def test_an_election_of_three_blocks_and_three_consumers_is_explored_to_the_end() -> None:
    found = packaged("election-3-blocks-3-consumers")
    assert (found.complete, found.sought) == (True, [])


@pytest.mark.parametrize(
    "weakened",
    ["barrier-slots-relaxed-wait", "barrier-slots-relaxed-signal", "election-relaxed.gpu", "election-flag.gpu"],
)
def test_a_missing_link_has_a_counterexample(weakened: str) -> None:
    found = packaged(weakened)
    lines = interleaving(found.model, found.execution(found.sought[0]))
    assert any("initial value, though a later store exists" in line for line in lines)
