"""Each verdict of check: a kernel that must get it, and the mended one that must not."""

import pytest

from pcietool.check import Kernel, Scenario, World, scenario
from pcietool.check.running.engines import Effort, in_random_orders
from pcietool.check.running.findings import Said
from pcietool.check.running.sources import Sources
from pcietool.check.running.verdict import judge
from pcietool.contract.results import Status
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.check.checking import checked, kernel, one, word

PUSH = """
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) peer_box[i] = rank * 100 + i;
    __syncthreads();
    if (threadIdx.x == 0) {
        STORE(peer_flag, 1);
        while (LOAD(flag) != 1);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) out[i] = box[i];
"""
PARAMETERS = "u32* box, u32* flag, u32* peer_box, u32* peer_flag, u32* out, u32 rank, u32 words"


def pushing(store: str = "store_release_sys", load: str = "load_acquire_sys", of: str = "") -> Scenario:
    """Each rank writes to the next one, and reads what was written to it."""
    what = kernel((of or PUSH).replace("STORE", store).replace("LOAD", load), PARAMETERS)

    @scenario(what, ranks=2, block=32, small={"block": 1, "words": 2})
    def push(w: World, words: int = 32) -> None:
        box, flag, out = w.each("box", "u4", words), w.each("flag", "u4"), w.each("out", "u4", words)
        n = len(w.ranks)
        w.launch(lambda r: [box[r], flag[r], box[(r + 1) % n], flag[(r + 1) % n], out[r], r, words])
        w.expect(out, lambda r: [(r - 1) % n * 100 + i for i in range(words)])

    return push


def test_a_right_kernel_passes_and_each_of_its_orderings_is_needed() -> None:
    result = checked(pushing())
    assert (result.status, word(result)) == (Status.PASS, "PASS")
    assert "every execution at 2 ranks x 1 block x 1 thread, words=2 is right" in result.verdict
    orderings = {(one["at"], one["change"]): one["is"] for one in result.details["orderings"]}
    assert orderings == {
        ("k.cu:5", "without the block barrier"): "needed",
        ("k.cu:7", "release -> relaxed"): "needed",
        ("k.cu:7", "system scope -> GPU scope"): "needed",
        ("k.cu:8", "acquire -> relaxed"): "needed",
        ("k.cu:8", "system scope -> GPU scope"): "needed",
        ("k.cu:10", "without the block barrier"): "needed",
    }


def test_a_fence_that_nothing_needs_is_redundant() -> None:
    of = PUSH.replace("STORE(peer_flag, 1);", "STORE(peer_flag, 1); __threadfence_system();")
    orderings = {(one["at"], one["change"]): one["is"] for one in checked(pushing(of=of)).details["orderings"]}
    assert orderings["k.cu:7", "without the fence"] == "redundant"
    assert orderings["k.cu:7", "release -> relaxed"] == "needed"


@pytest.mark.parametrize(
    ("store", "load", "mended"),
    [
        ("store_relaxed_sys", "load_acquire_sys", {"k.cu:7": "st.release.sys"}),
        ("store_release_sys", "load_relaxed_sys", {"k.cu:8": "ld.acquire.sys"}),
        ("store_relaxed_sys", "load_relaxed_sys", {"k.cu:7": "st.release.sys", "k.cu:8": "ld.acquire.sys"}),
        ("store_release_gpu", "load_acquire_sys", {"k.cu:7": "system scope"}),
    ],
)
def test_what_is_missing_is_named_line_by_line(store: str, load: str, mended: dict[str, str]) -> None:
    result = checked(pushing(store, load))
    assert (result.status, word(result)) == (Status.FAIL, "WRONG DATA")
    edits = result.details["repair"]["edits"]
    assert {edit["at"] for edit in edits} == set(mended)
    assert all(mended[edit["at"]] in edit["change"] for edit in edits)


def test_wrong_data_comes_with_an_execution_by_source_line_and_rank() -> None:
    result = checked(pushing(load="load_relaxed_sys"))
    witness = next(one for one in result.details["findings"] if one["engine"] == "explore")["witness"]
    old = next(step for step in witness if "-> 0 (initial value, though a later store exists)" in step["does"])
    assert old["at"] == "k.cu:11"
    assert result.details["lines"]["k.cu:11"].startswith("for (u32 i = threadIdx.x;")
    assert {step["rank"] for step in witness} == {0, 1, None}


def test_a_wait_for_what_nobody_signals_is_a_hang() -> None:
    def waits(w: World) -> None:
        flag, out = w.each("flag", "u4"), w.each("out", "u4")
        w.launch(lambda r: [flag[r], out[r]])
        w.expect(out, 1)

    result = checked(one(kernel("while (load_acquire_sys(a) != 1); *b = 1;", "u32* a, u32* b"), waits))
    assert (result.status, word(result)) == (Status.HANG, "HANG")
    assert "k.cu:3" in result.verdict
    assert result.details["repair"] is None


def test_a_race_without_wrong_data_is_a_race() -> None:
    def both(w: World) -> None:
        a = w.one("a", "u4")
        w.launch([a], grid=2)
        w.expect(a, 7)

    result = checked(one(kernel("*a = 7;", "u32* a"), both))
    assert word(result) == "RACE"
    assert "k.cu:3" in result.verdict
    alone = one(kernel("if (blockIdx.x == 0) *a = 7;", "u32* a"), both)
    assert word(checked(alone)) == "PASS"


def test_what_was_not_explored_is_not_proved() -> None:
    result = checked(pushing(), engine="timing,random", quick=True)
    assert (result.status, word(result)) == (Status.WARN, "NOT PROVED")
    assert "explore was not run" in result.verdict
    result = checked(pushing(), max_states=10, quick=True)
    assert word(result) == "NOT PROVED"
    assert "not every execution was looked at" in result.verdict


def test_fewer_seeds_than_asked_for_are_said_and_spoil_no_proof() -> None:
    """The first seed always runs; a clock that has gone on ends the others."""
    scenario = pushing()
    with EmulatedMachine.open("pcie5-switch4") as machine:
        place = scenario.described(scenario.sizes()[0])
        sources = Sources(place, machine.devices[0].compute_capability)
        times = iter([0.0, 100.0])
        effort = Effort(range(20), max_seconds=10.0, clock=lambda: next(times))
        random = in_random_orders(machine, place, sources, effort)
    assert (random.tries, random.cut_short) == (1, "1 of 20 seeds in 10 s (--max-seconds)")
    proved = Said("explore", "small", 5)
    assert judge([random, proved], idle=False).word == "PASS"
    unproved = judge([random], idle=False)
    assert unproved.word == "NOT PROVED"
    assert random.cut_short in unproved.not_covered


def counting() -> Scenario:
    """Accesses to a GPU's own memory: no events in timing order, and each is one in random order."""

    def counts(w: World) -> None:
        a = w.one("a", "u4", 64)
        w.launch([a], block=64)
        w.expect(a, 1000)

    body = "volatile u32* mine = a + threadIdx.x; for (u32 i = 0; i < 1000; ++i) *mine = *mine + 1;"
    return one(kernel(body, "u32* a"), counts)


def test_much_work_is_no_hang() -> None:
    assert checked(counting(), engine="timing,random", quick=True, seeds=2).details["findings"] == []


def test_a_run_that_is_ended_is_not_covered_and_no_hang() -> None:
    scenario = counting()
    with EmulatedMachine.open("pcie5-switch4") as machine:
        place = scenario.described(scenario.sizes()[0])
        sources = Sources(place, machine.devices[0].compute_capability)
        found = in_random_orders(machine, place, sources, Effort(range(5), max_events=10))
    assert (found.findings, found.tries) == ([], 1)
    assert "seed 0 was still running after 10 events" in found.not_covered[0]


def test_no_bound_makes_a_proof_of_a_second_round_that_was_not_followed() -> None:
    def twice(w: World) -> None:
        a = w.one("a", "u4")
        w.launch([a], grid=2)
        w.between(lambda host: None)
        w.launch([a], grid=2)
        w.expect(a, 4)

    scenario = one(kernel("atomicAdd(a, 1u);", "u32* a"), twice)
    whole = checked(scenario, engine="explore", quick=True)
    assert word(whole) == "PASS"
    states = whole.rows[0]["tries"]
    assert states > 4
    for bound in range(1, states):
        assert word(checked(scenario, engine="explore", quick=True, max_states=bound)) == "NOT PROVED", bound


def test_an_expectation_that_holds_before_anything_runs_proves_nothing() -> None:
    def nothing(w: World) -> None:
        a = w.one("a", "u4")
        w.launch([a])
        w.expect(a, 0)

    result = checked(one(kernel("if (*a) *a = 0;", "u32* a"), nothing))
    assert word(result) == "NOT PROVED"
    assert "is true before any kernel runs" in result.verdict


def test_a_seed_is_replayed_alone() -> None:
    found = checked(pushing(load="load_relaxed_sys"), quick=True).details["findings"]
    seed = next(one["seed"] for one in found if (one["kind"], one["engine"]) == ("WRONG DATA", "random"))
    again = checked(pushing(load="load_relaxed_sys"), replay=seed)
    assert [row["tried"] for row in again.rows] == ["1 seed"]
    assert word(again) == "WRONG DATA"
    assert "repair" not in again.details


def test_what_the_verdict_rests_on_is_said() -> None:
    said = {one["about"]: one for one in checked(pushing(), quick=True).details["assumptions"]}
    assert said["atomics on another rank's memory (pcie)"]["value"].startswith("a read, then a write")
    assert said["vectors in peer memory"]["source"].startswith("assumed")
    torn = {one["about"]: one for one in checked(pushing(), quick=True, tear=True).details["assumptions"]}
    assert torn["vectors"] == {"about": "vectors", "value": "each element for itself", "source": "--tear"}


def test_a_kernel_that_the_emulator_does_not_know_is_not_covered() -> None:
    def nothing(w: World) -> None:
        a = w.one("a", "u4")
        w.launch([a])
        w.expect(a, 1)

    unknown = kernel('asm volatile("discard.global.L2 [%0], 128;" :: "l"(a)); *a = 1;', "u32* a")
    result = checked(one(unknown, nothing))
    assert word(result) == "NOT PROVED"
    assert "does not know" in result.verdict
    assert "orderings" not in result.details  # no variant of it would run either


def test_an_access_out_of_bounds_names_thread_line_buffer_and_distance() -> None:
    def writes(w: World) -> None:
        a = w.one("a", "u4", 4)
        w.launch([a], block=6)
        w.expect(a, 7)

    result = checked(one(kernel("a[threadIdx.x] = 7;", "u32* a"), writes))
    assert (result.status, word(result)) == (Status.FAIL, "CRASH")
    assert all(part in result.verdict for part in ("thread 5", "k.cu:3", "'a'", "8 bytes beyond its end"))
    assert word(checked(one(kernel("if (threadIdx.x < 4) a[threadIdx.x] = 7;", "u32* a"), writes))) == "PASS"


def test_a_count_across_a_path_without_atomics_is_told_from_missing_order() -> None:
    def counts(w: World) -> None:
        total = w.pinned("total", "u4")
        w.launch([total])
        w.expect(total, 2)

    adds = kernel("atomicAdd_system(a, 1u);", "u32* a")
    result = checked(one(adds, counts, ranks=2))
    assert word(result) == "WRONG DATA"
    assert result.details["repair"]["edits"] == []
    assert "a path that has none" in result.details["repair"]["advice"]
    apart = kernel("atomicAdd_system(a, 1u);", "u32* a")
    assert word(checked(one(apart, counts, ranks=2), fabric="h200-nvlink2")) == "WRONG DATA"  # the host is PCIe there


HELPER = """#include "slots.cuh"
__device__ __forceinline__ void meet(u32* mine, u32* theirs, u32 epoch) {
    store_relaxed_sys(theirs, epoch);
    while (!reached(load_relaxed_sys(mine), epoch));
}
extern "C" __global__ void k(u32* box, u32* flag, u32* peer_box, u32* peer_flag, u32* out, u32 rank) {
    peer_box[0] = rank + 1;
    meet(flag, peer_flag, 1);
    out[0] = box[0];
    meet(flag, peer_flag, 2);
    peer_box[0] = rank + 11;
    meet(flag, peer_flag, 3);
    out[1] = box[0];
}
"""


def exchanging(w: World) -> None:
    box, flag, out = w.each("box", "u4"), w.each("flag", "u4"), w.each("out", "u4", 2)
    w.launch(lambda r: [box[r], flag[r], box[1 - r], flag[1 - r], out[r], r])
    w.expect(out, lambda r: [2 - r, 12 - r])


def test_a_helper_that_is_called_several_times_is_mended_once() -> None:
    result = checked(one(Kernel("k.cu", "k", text=HELPER), exchanging, ranks=2))
    assert word(result) in ("WRONG DATA", "HANG", "RACE")
    edits = result.details["repair"]["edits"]
    assert [(edit["at"], edit["change"].split()[-1]) for edit in edits] == [
        ("slots.cuh:28", "(st.release.sys)"),
        ("slots.cuh:39", "(ld.acquire.sys)"),
    ]


def test_racing_accesses_made_strong_are_no_repair() -> None:
    def reads(w: World) -> None:
        a, out = w.one("a", "u4"), w.each("out", "u4")
        w.launch(lambda r: [a, out[r], r])
        w.expect_that(out, lambda values, rank: values[0] in (0, 7), "0 or 7")
        w.expect(a, 7)

    result = checked(one(kernel("if (r) *b = *a; else *a = 7;", "u32* a, u32* b, u32 r"), reads, ranks=2))
    assert word(result) == "RACE"
    assert result.details["repair"] is None


@pytest.mark.parametrize("store", ["store_release_sys", "store_relaxed_sys"])
def test_the_number_of_cores_changes_nothing(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what is found, nor which orderings are needed, nor what mends it."""
    monkeypatch.setattr("pcietool.supervision.forks.ALONE_S", -1.0)
    alone, together = (checked(pushing(store), jobs=jobs, seeds=20) for jobs in (1, 3))
    assert alone.verdict == together.verdict
    assert alone.rows == together.rows
    assert alone.details == together.details
