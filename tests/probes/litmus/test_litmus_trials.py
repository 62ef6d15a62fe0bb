"""Litmus tests on emulated machines: what is seen is allowed, and what is forbidden and seen fails."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from pcietool.contract.results import ProbeResult, Row, Status
from pcietool.errors import NothingToRunError
from pcietool.litmus.explore import explore
from pcietool.litmus.text.library import find, load
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import LitmusTest
from pcietool.litmus.verdict import answer
from pcietool.machines import open_machine
from pcietool.machines.base import HOST, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.litmus.config import TrialsConfig
from pcietool.probes.litmus.machine import Crowd, histogram, homes
from pcietool.probes.litmus.trials import _times, judged, run, summary
from pcietool.protocol.slots import SLOT_STRIDE
from tests.listening import Listener

NATIVE, NOT_NATIVE = "h200-nvlink2", "pcie5-switch4"


def trials_of(*tests: str, fabric: str = NATIVE, gpus: int = 2, **options: Any) -> ProbeResult:
    with EmulatedMachine.open(fabric, range(gpus)) as machine:
        config = TrialsConfig(tests=tests, **{"trials": 256, "place": "peer", "seed": 0, **options})
        (result,) = run(machine, config, Listener())
    return result


def packaged(name: str) -> LitmusTest:
    (path,) = find([name])
    return load(path)


def seen_in(row: Row) -> dict[str, int]:
    return {outcome["text"]: outcome["count"] for outcome in row["outcomes"] if outcome["count"]}


# -- on a machine -----------------------------------------------------------------------------------------------------

SAMPLE = (
    "mp-release.sys-acquire.sys-gpus",
    "sb-fence.sc.sys-gpus",
    "corr-relaxed.sys-gpus",
    "rmw-add.sys-gpus",
    "rmw-cas-twice-gpus",
    "mp-release.cta-acquire.cta-cta",
    "isa2-gpu-then-sys",
    "cowr-own",
    "mp-spin-gpus",
    "election-acq_rel.gpu",
)


@pytest.mark.parametrize("place", ["peer", "writer"])
def test_what_is_seen_is_what_the_model_shows(place: str) -> None:
    result = trials_of(*SAMPLE, place=place)
    assert result.status is Status.PASS
    assert [row["test"] for row in result.rows] == list(SAMPLE)
    for row in result.rows:
        assert (row["place"], row["trials"], row["seen"], row["status"]) == (place, 256, 0, "pass")
        assert sum(outcome["count"] for outcome in row["outcomes"]) == 256
        assert all(outcome["verdict"] == "allowed" for outcome in row["outcomes"])
    assert all(check["passed"] for check in result.checks)
    several = [row["test"] for row in result.rows if row["outcome_count"] > 1]
    assert {"sb-fence.sc.sys-gpus", "rmw-add.sys-gpus"} <= set(several)


def test_the_seed_decides_and_nothing_else() -> None:
    rows = [trials_of("sb-weak-gpus", seed=seed).rows for seed in (1, 1, 2)]
    assert rows[0] == rows[1]
    assert seen_in(rows[0][0]) != seen_in(rows[2][0])


def test_more_trials_than_a_launch_has() -> None:
    (row,) = trials_of("coww", trials=5000, gpus=1).rows
    assert seen_in(row) == {"x=2": 5000}


def test_initial_memory_and_registers_final_memory_negative_values_and_forward_branches(tmp_path: Path) -> None:
    path = tmp_path / "all.litmus"
    path.write_text(
        "PTX all\n{ x=7; y=-3; P0:r3=5; }\nP0@cta 0,gpu 0 ;\nld.weak r0, x ; ld.weak r1, y ; sub r2, r1, r3 ;\n"
        "blt r2, r1, LC00 ; st.weak x, 1 ; LC00: div r4, r2, 3 ; mul r5, r4, r0 ; st.weak y, r5 ;\n"
        "atom.cas r6, x, 7, 9 ; atom.sub r7, x, 2 ;\n"
        "forall (P0:r2 = -8 /\\ P0:r4 = -2 /\\ y = -14 /\\ P0:r6 = 7 /\\ P0:r7 = 9 /\\ x = 7)\n"
    )
    (row,) = trials_of(str(path), trials=20).rows
    assert seen_in(row) == {"P0:r2=-8 P0:r4=-2 y=-14 P0:r6=7 P0:r7=9 x=7": 20}
    assert row["status"] == "pass"


def test_parts_of_words_vectors_and_64_bits(tmp_path: Path) -> None:
    path = tmp_path / "sizes.litmus"
    path.write_text(
        "PTX sizes\n{ x=1; x+4=2; y=-1; z=0; w=-7; P0:r9=-5000000000; }\nP0@cta 0,gpu 0 ;\n"
        "ld.u64 r0, x ; add r1, r0, r9 ; ld.u8 r2, y+1 ; ld.s8 r3, y ; st.u16 y+2, 4660 ;\n"
        "st.v2.u32 z, {r2, 5} ; ld.v2.u32 {r4, r5}, z ; atom.min.u32 r6, w, 3 ; atom.min r7, x, -9 ;\n"
        "atom.max.u64 r8, x, 5 ; ld.nc.u32 r10, y ;\n"
        "forall (P0:r0 = 8589934593 /\\ P0:r1 = 3589934593 /\\ P0:r2 = 255 /\\ P0:r3 = -1 /\\ y+2 = 4660 /\\"
        " P0:r4 = 255 /\\ P0:r5 = 5 /\\ z+4 = 5 /\\ w = 3 /\\ P0:r6 = -7 /\\ P0:r7 = 1 /\\ x = 12884901879)\n"
    )
    (row,) = trials_of(str(path), trials=20, gpus=1).rows
    assert (row["status"], list(seen_in(row).values())) == ("pass", [20])


def test_a_lost_update_where_atomics_are_not_native_is_no_failure_but_is_said() -> None:
    result = trials_of("rmw-add.sys-gpus", fabric=NOT_NATIVE, place="host")
    (row,) = result.rows
    assert (result.status, row["status"], row["verdict"]) == (Status.INFO, "info", "forbidden")
    assert row["seen"] > 0
    assert "not native" in row["reason"]
    assert trials_of("rmw-add.sys-gpus", fabric=NATIVE).rows[0]["reason"] is None


@pytest.mark.parametrize(
    ("test", "options", "reason"),
    [
        ("bar-sync-mp-cta", {}, "runs on the model only"),
        ("iriw-acquire.sys-gpus", {}, "needs 4 GPUs and there are 2"),
        ("mp-weak-gpus", {"gpus": 1}, "needs 2 GPUs and there is one"),
        ("rmw-lock-release.gpu-ctas", {"place": "host"}, "its loop may never end"),
    ],
)
def test_what_cannot_run_is_waived_with_a_reason(test: str, options: dict[str, Any], reason: str) -> None:
    result = trials_of(test, **options)
    assert result.status is Status.WAIVED
    assert reason in result.rows[0]["reason"]
    assert result.rows[0]["trials"] is None
    with_another = trials_of(test, "coww", **options)
    assert with_another.status is Status.PASS
    assert "1 waived" in with_another.verdict


def test_a_loop_that_never_ends_leaves_a_record(tmp_path: Path) -> None:
    path = tmp_path / "never.litmus"
    path.write_text(
        "PTX never\n{ x=0; }\nP0@cta 0,gpu 0 ;\nLC00: ld.relaxed.sys r0, x ; beq r0, 0, LC00 ;\nexists (x=1)\n"
    )
    with EmulatedMachine.open(NATIVE) as machine:
        config = TrialsConfig(tests=(str(path),), trials=1, place="peer", timeout_s=1e-4)
        (result,) = run(machine, config, Listener())
    assert result.status is Status.HANG
    assert result.hang is not None
    assert result.hang["records"][0]["rank"] == 0


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["peer", "host"])
def test_real_gpus_show_nothing_forbidden(place: Literal["peer", "host"]) -> None:
    try:
        machine = open_machine("cuda")
    except NothingToRunError as error:
        pytest.skip(str(error))
    with machine:
        (result,) = run(machine, TrialsConfig(tests=("all",), trials=20_000, place=place), Listener())
    assert result.status in (Status.PASS, Status.INFO, Status.WARN)
    assert all(check["passed"] for check in result.checks)


# -- where variables lie ----------------------------------------------------------------------------------------------


def test_variables_lie_with_their_last_reader_or_their_first_writer() -> None:
    sb, mp = packaged("sb-weak-gpus"), packaged("mp-weak-gpus")
    assert homes(mp, "peer") == [on_device(1), on_device(1)]
    assert homes(mp, "writer") == [on_device(0), on_device(0)]
    assert homes(sb, "peer") == [on_device(1), on_device(0)]
    assert homes(sb, "writer") == [on_device(0), on_device(1)]
    assert homes(sb, "host") == [HOST, HOST]
    assert homes(packaged("2+2w-weak-gpus"), "peer") == [on_device(1), on_device(1)]


# -- what it means ----------------------------------------------------------------------------------------------------


def test_a_histogram_of_a_hand_made_array() -> None:
    values = np.array([[1, 0, 1, -1, 1], [0, 2**63 - 1, 0, 5, 1]], np.int64)
    assert histogram(values) == {(1, 0): 2, (0, 2**63 - 1): 1, (-1, 5): 1, (1, 1): 1}
    assert histogram(np.zeros((0, 4), np.int64)) == {(): 4}


def judge_counts(name: str, counts: dict[tuple[int, ...], int], doubt: str | None = None, **expectation: Any) -> Row:
    test = packaged(name)
    test = replace(test, expectation=replace(test.expectation, **expectation))
    return judged(answer(explore(test)), Counter(counts), doubt)


def test_a_forbidden_outcome_that_is_seen_fails_and_is_named() -> None:
    row = judge_counts("mp-release.sys-acquire.sys-gpus", {(1, 1): 9_998, (1, 0): 2})
    assert (row["status"], row["seen"], row["outcome_count"]) == ("fail", 2, 2)
    assert row["failed"] == ("mp-release.sys-acquire.sys-gpus: forbidden: P1:r0=1 P1:r1=0 2 times of 10,000")
    of_model = {"verdict": "forbidden", "expected": "forbidden", "gaps": []}
    status, verdict, reason = summary([row | of_model])
    assert (status, reason) == (Status.FAIL, row["failed"])
    assert verdict.endswith("1 of 1 forbidden")
    _, verdict, _ = summary([row | of_model | {"verdict": "undecided"}])
    assert verdict.endswith("1 of 1 undecided")
    kept = judge_counts("mp-release.sys-acquire.sys-gpus", {(1, 1): 10_000})
    assert (kept["status"], kept["failed"], kept["note"]) == ("pass", None, None)


def test_an_outcome_that_nothing_explains_fails_even_if_nobody_asked_for_it() -> None:
    assert judge_counts("mp-weak-gpus", {(7, 0): 1})["status"] == "fail"
    assert judge_counts("mp-release.sys-acquire.sys-gpus", {(1, 0): 1}, doubt="why")["status"] == "info"


def test_what_is_allowed_and_not_seen_is_no_proof() -> None:
    row = judge_counts("mp-weak-gpus", {(0, 0): 1_000_000})
    assert (row["status"], row["note"]) == ("info", "not seen in 1,000,000")
    assert judge_counts("mp-weak-gpus", {(1, 0): 1})["status"] == "pass"


def test_what_the_axioms_allow_is_no_failure_though_no_order_of_steps_shows_it() -> None:
    row = judge_counts("lb-weak-gpus", {(1, 1): 3})
    assert (row["status"], row["note"]) == ("pass", None)
    assert {one["text"]: one["verdict"] for one in row["outcomes"]}["P0:r0=1 P1:r0=1"] == "allowed"
    assert judge_counts("lb-weak-gpus", {(1, 1): 3}, verdict="forbidden")["status"] == "fail"


HEARTBEAT = """PTX heartbeat
"DESCRIPTION"
{ x=0; y=0; }
P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;
LC00: st.relaxed.sys x, 1 | st.relaxed.sys y, 1 ;
ld.relaxed.sys r0, y | ;
bne r0, 1, LC00 | ;
exists (x = 0)
"""


@pytest.mark.parametrize(
    ("description", "status", "note"),
    [
        ("", "warn", "seen, and undecided"),
        ("expect: forbidden", "fail", "seen, though the test says forbidden"),
    ],
)
def test_what_is_undecided_and_seen(description: str, status: str, note: str) -> None:
    undecided = answer(explore(parse_litmus(HEARTBEAT.replace("DESCRIPTION", description))))
    row = judged(undecided, Counter({(0,): 1}), None)
    assert (row["status"], row["note"]) == (status, note)


def test_a_wrong_expectation_fails_whatever_is_seen() -> None:
    row = judge_counts("mp-weak-gpus", {(0, 0): 5}, verdict="forbidden")
    assert row["status"] == "fail"
    assert "allowed, though the test says forbidden" in row["failed"]


@pytest.mark.parametrize("tear", [False, True])
def test_a_vector_is_seen_torn_where_that_is_asked_for(tear: bool) -> None:
    (row,) = trials_of("vector-data-and-flag-gpus", trials=1024, tear=tear).rows
    assert bool(row["seen"]) == tear


@pytest.mark.parametrize(("backend", "trials"), [("emulated", 256), ("cuda", 65_536)])
def test_a_launch_has_as_many_trials_as_usual_where_its_words_fit(
    emulated: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, backend: str, trials: int
) -> None:
    """256 MiB of words, each on a line of its own, and never none."""
    monkeypatch.setattr(emulated, "backend", backend)
    test = packaged("mp-acquire-elsewhere-gpus")
    assert Crowd.of(emulated, test).trials == trials
    many = replace(test, locations=tuple(f"x{n}" for n in range(2**14)))
    assert Crowd.of(emulated, many).trials == min(trials, 2**28 // (SLOT_STRIDE * 2**14))


def test_how_often_is_said_in_words() -> None:
    assert [_times(number) for number in (0, 1, 2, 1000)] == ["0 times", "once", "2 times", "1,000 times"]
