"""Exploring PTX kernels: the same outcomes as litmus tests, what a missing link shows, hangs, refusals."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pcietool.emulator.exploring.explore import KernelExploration
from pcietool.errors import EmulationError
from pcietool.litmus.explore import explore
from pcietool.litmus.text.library import find, load
from pcietool.litmus.text.program import LitmusTest
from pcietool.machines.base import Launch, Machine, Part, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.barrier.config import BarrierConfig
from pcietool.probes.barrier.kernel import DROP, NO_INJECTION, Barrier
from pcietool.probes.common.world import World
from tests.emulator.emulated_programs import ptx_program
from tests.emulator.exploring.explored_programs import LINK_REMOVED, WHOLE, Case, election
from tests.emulator.litmus_kernels import is_translatable, ptx_outcomes

LITMUS_TESTS = [test for test in map(load, find(["all"])) if is_translatable(test)]


@pytest.fixture
def two_gpus() -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("h200-nvlink2", [0, 1]) as machine:
        yield machine


@pytest.mark.parametrize("test", LITMUS_TESTS, ids=lambda test: test.name)
def test_kernels_have_the_outcomes_of_the_litmus_test_they_are_made_from(test: LitmusTest) -> None:
    outcomes, _ = ptx_outcomes(test)
    assert outcomes == set(explore(test).outcomes)


@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.name)
def test_a_whole_kernel_is_explored_to_the_end_without_a_broken_outcome(case: Case) -> None:
    found = case.explore(case.edit)
    assert (found.complete, found.hung) == (True, 0)
    assert found.outcomes
    assert not any(map(case.broken, found.outcomes))


@pytest.mark.parametrize("case", LINK_REMOVED, ids=lambda case: case.name)
def test_a_kernel_with_a_link_removed_has_a_broken_outcome(case: Case) -> None:
    found = case.explore(case.edit)
    broken = [outcome for outcome in found.outcomes if case.broken(outcome)]
    assert found.complete
    assert broken
    lines = found.example(broken[0])
    assert any(re.search(r"though a later store exists|initial value", line) for line in lines)


def test_an_execution_reads_as_one_line_a_step() -> None:
    found = election(("<AcquireSys>", "<RelaxedSys>"), producers=1, consumers=1)
    steps = [re.sub(r" \(PTX line \d+: ([\w.]+) .*?\),", r" \1,", line) for line in found.example((0,))]
    assert steps == [
        "GPU 0 block 0 thread 0: election.cu:5 st.global.u32, 'parts'+0 on GPU 0 <- 1",
        "GPU 0 block 0 thread 0: slots.cuh:24 st.release.sys.global.u32, 'slot'+0 on GPU 1 <- 1",
        "GPU 1 block 0 thread 0: slots.cuh:39 ld.relaxed.sys.global.u32, 'slot'+0 on GPU 1 -> 1 (stored by GPU 0"
        " block 0 thread 0)",
        "GPU 1 block 0 thread 0: election.cu:14 ld.global.u32, 'parts'+0 on GPU 0 -> 0 (initial value, though a later"
        " store exists)",
    ]


def barrier_rounds(machine: Machine, injection: int) -> list[Launch]:
    barrier = Barrier(machine, World.build(machine, "peer", 2, rows=2), "publishing", BarrierConfig(), inject=True)
    return barrier.rounds(1, injection, rank=1, round_=1)


def test_the_barrier_kernel_with_whole_warps_ends_in_every_execution(two_gpus: EmulatedMachine) -> None:
    found = two_gpus.explore(barrier_rounds(two_gpus, NO_INJECTION))
    assert (found.complete, found.hung, list(found.outcomes)) == (True, 0, [()])


def test_a_dropped_signal_hangs_and_says_how(two_gpus: EmulatedMachine) -> None:
    found = two_gpus.explore(barrier_rounds(two_gpus, DROP))
    assert (found.complete, found.outcomes) == (True, {})
    assert found.hung
    looks = [line for line in found.hanging_example() if "looks for ever" in line]
    assert len(looks) == 1
    assert looks[0].startswith("GPU 0 block 0 thread 1: looks for ever: slots.cuh:39 (PTX line ")
    assert looks[0].endswith(", 'slots of rank 0'+512 on GPU 0 -> 0")


@pytest.mark.parametrize(("bound", "complete"), [(1_000_000, True), (50, False)])
def test_whoever_stops_at_the_bound_says_so(bound: int, complete: bool) -> None:
    found = election(None, producers=2, consumers=2, max_states=bound)
    assert (found.complete, found.states <= bound + 10) == (complete, True)


COUNT = """
extern "C" __global__ void count(Watch*, u32* word, u32* shared_sum) {
    __shared__ u32 sum;
    if (threadIdx.x == 0) sum = 0;
    SYNC
    atomicAdd(&sum, 1u);
    atomicAdd(word, 1u);
    __syncthreads();
    if (threadIdx.x == 0) shared_sum[blockIdx.x] = sum;
}
"""


@pytest.mark.parametrize(("sync", "sums"), [("__syncthreads();", {2}), ("", {1, 2})])
def test_shared_memory_belongs_to_its_block(two_gpus: EmulatedMachine, sync: str, sums: set[int]) -> None:
    program = two_gpus.load_text("count.cu", '#include "slots.cuh"\n' + COUNT.replace("SYNC", sync))
    word, shared_sum = two_gpus.alloc(on_device(0), 4, "word"), two_gpus.alloc(on_device(0), 8, "sums")
    launch = Launch(0, program.kernel("count"), 2, 2, (word, shared_sum))
    found = two_gpus.explore([launch], [(word, np.uint32, 1), (shared_sum, np.uint32, 2)])
    assert set(found.outcomes) == {(4, one, other) for one in sums for other in sums}
    assert word.read(np.uint32)[0] == 0


@pytest.mark.parametrize(("fabric", "sums"), [("h200-nvlink2", {2}), ("pcie5-switch4", {1, 2})])
def test_atomics_lose_updates_where_the_link_has_no_native_ones(fabric: str, sums: set[int]) -> None:
    with EmulatedMachine.open(fabric, [0, 1]) as machine:
        word = machine.alloc(on_device(0), 8, "word")
        kernel = ptx_program("atom.add.acq_rel.sys.global.u32 %r1, [%a], 1; ret;").kernel("k")
        found = machine.explore([Launch(gpu, kernel, 1, 1, (word, word)) for gpu in (0, 1)], [(word, np.uint32, 1)])
    assert set(found.outcomes) == {(total,) for total in sums}


def explored_ptx(machine: EmulatedMachine, body: str, threads: int = 2, **options: Any) -> KernelExploration:
    memory = machine.alloc(on_device(0), 64, "memory")
    launch = Launch(0, ptx_program(body, **options).kernel("k"), 1, threads, (memory, memory))
    return machine.explore([launch], [(memory, np.uint32, 4)])


@pytest.mark.parametrize(("tear", "seen"), [(False, {(0, 0), (1, 1)}), (True, {(0, 0), (0, 1), (1, 0), (1, 1)})])
def test_a_vector_is_read_as_one_unless_it_is_to_tear(tear: bool, seen: set[tuple[int, int]]) -> None:
    body = """mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra WRITE;
    ld.global.v2.u32 {%r2, %r3}, [%a]; st.global.v2.u32 [%a+8], {%r2, %r3}; ret;
    WRITE: mov.u32 %r4, 1; st.global.v2.u32 [%a], {%r4, %r4}; ret;"""
    with EmulatedMachine.open("h200-nvlink2", [0, 1], tear=tear) as machine:
        assert {outcome[2:] for outcome in explored_ptx(machine, body).outcomes} == seen


def test_a_warp_vote_hands_values_on_but_nothing_that_was_seen(two_gpus: EmulatedMachine) -> None:
    body = """mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 1;
    @%p1 st.global.u32 [%a], %r2;
    ORDER
    vote.sync.ballot.b32 %r3, %p1, 3;
    @!%p1 ld.global.u32 %r4, [%a]; @!%p1 st.global.u32 [%a+4], %r4; @!%p1 st.global.u32 [%a+8], %r3; ret;"""
    voted = {outcome[1:3] for outcome in explored_ptx(two_gpus, body.replace("ORDER", "")).outcomes}
    assert voted == {(0, 1), (1, 1)}
    ordered = body.replace("ORDER", "bar.warp.sync 3;")
    assert {outcome[1:3] for outcome in explored_ptx(two_gpus, ordered).outcomes} == {(1, 1)}


def test_a_wait_that_is_done_again_with_nothing_between_does_not_hang(two_gpus: EmulatedMachine) -> None:
    body = """mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra WRITE; mov.u32 %r5, 0;
    AGAIN: ld.relaxed.sys.global.u32 %r2, [%a]; setp.ne.u32 %p2, %r2, 1; @%p2 bra AGAIN;
    add.u32 %r5, %r5, 1; setp.ne.u32 %p3, %r5, 3; @%p3 bra AGAIN;
    st.global.u32 [%a+4], %r5; ret;
    WRITE: mov.u32 %r4, 1; st.relaxed.sys.global.u32 [%a], %r4; ret;"""
    found = explored_ptx(two_gpus, body)
    assert ({outcome[:2] for outcome in found.outcomes}, found.hung) == ({(1, 3)}, 0)


def test_a_wait_without_deadline_hangs_though_it_counts(two_gpus: EmulatedMachine) -> None:
    body = """mov.u32 %r5, 0;
    AGAIN: add.u32 %r5, %r5, 1; ld.relaxed.sys.global.u32 %r2, [%a]; setp.ne.u32 %p2, %r2, 1; @%p2 bra AGAIN;
    st.global.u32 [%a+4], %r5; ret;"""
    found = explored_ptx(two_gpus, body, threads=1)
    assert (found.complete, found.outcomes, found.hung) == (True, {}, 1)


def test_a_thread_that_loops_for_ever_keeps_no_other_from_its_steps(two_gpus: EmulatedMachine) -> None:
    body = """mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra WRITE;
    LOOK: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra LOOK; ret;
    WRITE: mov.u32 %r4, 1; st.volatile.shared.u32 [flag], %r4; st.global.u32 [%a], %r4; ret;"""
    found = explored_ptx(two_gpus, body, registers=".shared .align 4 .u32 flag;")
    assert {outcome[0] for outcome in found.outcomes} == {1}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ld.global.u32 %r1, [%a+64]; ret;", "offset 64 of 'memory'"),
        ("ld.global.u32 %r1, [%a+2]; ret;", "misaligned 4 byte access"),
        ("cp.async.bulk.commit_group; ret;", "cp.async.bulk.commit_group is not explored; leave it out"),
        ("fence.proxy.async; ret;", "fence.proxy.async is not explored"),
        ("bar.red.popc.u32 %r1, 0, %p1; ret;", "bar.red.popc.u32 is not explored"),
        ("trap; ret;", "the kernel gave up"),
        ("bar.sync 1, 32; bar.sync 1, 64; ret;", None),
        ("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 1, 32; bar.sync 1, 64; ret;", "thread counts"),
    ],
)
def test_what_cannot_be_explored_is_an_error_that_names_the_instruction(
    two_gpus: EmulatedMachine, body: str, message: str | None
) -> None:
    if message is None:
        assert explored_ptx(two_gpus, body).hung
        return
    with pytest.raises(EmulationError, match=message) as raised:
        explored_ptx(two_gpus, body)
    assert "PTX line" in str(raised.value)


def test_reads_of_one_word_need_no_more_states_than_reads_of_two(two_gpus: EmulatedMachine) -> None:
    """Nobody writes it: in which order they read says nothing."""
    words = two_gpus.alloc(on_device(0), 256, "words")
    shift = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, {apart}; add.u64 %rd1, %a, %rd1;"
    reads = "ld.relaxed.gpu.global.u32 %r2, [%rd1]; ld.relaxed.gpu.global.u32 %r3, [%rd1+64]; ret;"
    states = []
    for apart in (0, 4):
        kernel = ptx_program(shift.format(apart=apart) + reads, parameters=("u64",)).kernel("k")
        found = two_gpus.explore([Launch(0, kernel, 1, 2, (words,))])
        assert found.complete
        states.append(found.states)
    assert states[0] == states[1]


@pytest.mark.parametrize("writer", [0, 1])
def test_a_block_barrier_orders_nothing_in_another_block(two_gpus: EmulatedMachine, writer: int) -> None:
    word, seen = (two_gpus.alloc(on_device(0), 4, name) for name in ("word", "seen"))
    text = (
        f"mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, {writer}; @%p1 bra READ;"
        " bar.sync 0; st.relaxed.gpu.global.u32 [%a], 1; ret;"
        " READ: ld.relaxed.gpu.global.u32 %r2, [%a]; st.global.u32 [%b], %r2; ret;"
    )
    launch = Launch(0, ptx_program(text).kernel("k"), 2, 1, (word, seen))
    assert set(two_gpus.explore([launch], [(seen, np.uint32, 1)]).outcomes) == {(0,), (1,)}


def test_a_trap_that_nothing_reaches_is_explored(two_gpus: EmulatedMachine) -> None:
    word = two_gpus.alloc(on_device(0), 4, "word")
    text = "ld.global.u32 %r1, [%a]; setp.ne.u32 %p1, %r1, 0; @%p1 bra NO; st.global.u32 [%a+0], 7; ret; NO: trap;"
    kernel = ptx_program(text, parameters=("u64",)).kernel("k")
    found = two_gpus.explore([Launch(0, kernel, 1, 1, (word,))], [(word, np.uint32, 1)])
    assert (set(found.outcomes), found.complete) == ({(7,)}, True)


def test_launches_of_one_gpu_run_one_after_the_other(two_gpus: EmulatedMachine) -> None:
    word, seen = (two_gpus.alloc(on_device(0), 4, name) for name in ("word", "seen"))
    store = ptx_program("st.global.u32 [%a], 7; ret;").kernel("k")
    load = ptx_program("ld.global.nc.u32 %r1, [%a]; st.global.u32 [%b], %r1; ret;").kernel("k")
    launches = [Launch(0, store, 1, 2, (word, word)), Launch(0, load, 1, 1, (word, seen))]
    found = two_gpus.explore(launches, [(seen, np.uint32, 1)])
    assert (set(found.outcomes), found.hung, found.complete) == ({(7,)}, 0, True)


def load_buffering(machine: EmulatedMachine, order: tuple[str, str]) -> KernelExploration:
    memory = machine.alloc(on_device(0), 16, "memory")
    body = f"ld.{order[0]}.global.u32 %r1, [%a]; mov.u32 %r2, 1; st.{order[1]}.global.u32 [%b], %r2; ret;"
    kernel = ptx_program(body, parameters=("u64", "u64")).kernel("k")
    beside = Part(memory, 4, 4)
    launches = [Launch(0, kernel, 1, 1, (memory, beside)), Launch(1, kernel, 1, 1, (beside, memory))]
    return machine.explore(launches, [(memory, np.uint32, 2)])


@pytest.mark.parametrize(
    ("order", "gaps"),
    [
        (("relaxed.sys", "relaxed.sys"), ("load buffering",)),
        (("weak", "relaxed.sys"), ("load buffering",)),
        (("acquire.sys", "release.sys"), ()),
        (("acquire.gpu", "release.sys"), ("load buffering",)),
    ],
)
def test_what_load_buffering_may_hide_is_undecided(
    two_gpus: EmulatedMachine, order: tuple[str, str], gaps: tuple[str, ...]
) -> None:
    found = load_buffering(two_gpus, order)
    assert found.gaps == gaps
    assert found.verdict(lambda outcome: outcome == (5, 5)) == ("undecided" if gaps else "forbidden")
    assert found.verdict(lambda outcome: outcome == (1, 1)) == "allowed"


def test_the_bound_in_time_ends_it_and_progress_is_told(two_gpus: EmulatedMachine) -> None:
    told: list[int] = []
    memory = two_gpus.alloc(on_device(0), 64, "memory")
    kernel = ptx_program("atom.relaxed.gpu.global.add.u32 %r1, [%a], 1; st.global.u32 [%a+4], %r1; ret;").kernel("k")
    launch = Launch(0, kernel, 4, 1, (memory, memory))
    found = two_gpus.explore([launch], [(memory, np.uint32, 1)], max_seconds=0.0, progress=told.append)
    assert (found.stopped, found.hangs) == ("seconds", "undecided")
    assert told


@pytest.mark.parametrize(("stream", "values"), [(0, {7}), (1, {0, 7})])
def test_launches_of_two_streams_run_at_once(two_gpus: EmulatedMachine, stream: int, values: set[int]) -> None:
    word, seen = (two_gpus.alloc(on_device(0), 4, name) for name in ("word", "seen"))
    store = ptx_program("st.global.u32 [%a], 7; ret;").kernel("k")
    load = ptx_program("ld.global.u32 %r1, [%a]; st.global.u32 [%b], %r1; ret;").kernel("k")
    launches = [Launch(0, store, 1, 1, (word, word)), Launch(0, load, 1, 1, (word, seen), stream=stream)]
    found = two_gpus.explore(launches, [(seen, np.uint32, 1)])
    assert {value for (value,) in found.outcomes} == values


@pytest.mark.parametrize(
    ("body", "overlaps", "values"),
    [
        ("LOAD", False, {7}),
        ("LOAD", True, {0, 7}),
        ("griddepcontrol.wait; LOAD", True, {7}),
        ("LOAD griddepcontrol.wait;", True, {0, 7}),
    ],
)
def test_a_launch_that_may_begin_early_has_to_wait(
    two_gpus: EmulatedMachine, body: str, overlaps: bool, values: set[int]
) -> None:
    word, seen = (two_gpus.alloc(on_device(0), 4, name) for name in ("word", "seen"))
    store = ptx_program("griddepcontrol.launch_dependents; st.global.u32 [%a], 7; ret;").kernel("k")
    load = ptx_program(body.replace("LOAD", "ld.global.u32 %r1, [%a];") + "st.global.u32 [%b], %r1; ret;").kernel("k")
    launches = [Launch(0, store, 1, 1, (word, word)), Launch(0, load, 1, 1, (word, seen), overlaps=overlaps)]
    found = two_gpus.explore(launches, [(seen, np.uint32, 1)])
    assert ({value for (value,) in found.outcomes}, found.hangs) == (values, "forbidden")


def test_a_launch_begins_once_it_is_let(two_gpus: EmulatedMachine) -> None:
    """Whatever it does comes behind that."""
    word, seen = (two_gpus.alloc(on_device(0), 4, name) for name in ("word", "seen"))
    load = "ld.global.u32 %r1, [%a]; st.global.u32 [%b], %r1;"
    first, last = (
        ptx_program(body).kernel("k")
        for body in (f"{load} griddepcontrol.launch_dependents; ret;", f"griddepcontrol.launch_dependents; {load} ret;")
    )
    store = ptx_program("st.global.u32 [%a], 7; ret;").kernel("k")
    dependent = Launch(0, store, 1, 1, (word, word), overlaps=True)
    for kernel, values in ((first, {0}), (last, {0, 7})):
        launches = [Launch(0, kernel, 1, 1, (word, seen)), dependent]
        found = two_gpus.explore(launches, [(seen, np.uint32, 1)])
        assert {value for (value,) in found.outcomes} == values
