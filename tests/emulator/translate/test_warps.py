"""What the lanes of a warp, and the threads of a block, do together: instructions/warp.txt on any machine."""

import itertools

import numpy as np
import pytest

from pcietool.emulator.translate.instructions import BARRIER_VOTES, MATCHES, REDUCTIONS, SHUFFLES
from pcietool.machines.base import Buffer, Machine, Program
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import run, run_ptx
from tests.emulator.translate.instruction_cases import HEAD, Case, read_cases

VOTE = """
extern "C" __global__ void vote_{kind}(Watch*, const u64* input, u64* output) {{
    u32 result;
    asm volatile("{{ .reg .pred p, q; setp.ne.u32 p, %1, 0; {vote} }}"
                 : "=r"(result) : "r"((u32)(input[0] >> threadIdx.x & 1)));
    output[threadIdx.x] = result;
}}
"""
SHUFFLE = """
extern "C" __global__ void shfl_{kind}(Watch*, const u64* input, u64* output) {{
    u32 value, in_range;
    asm volatile("{{ .reg .pred p; shfl.sync.{kind}.b32 %0|p, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, p; }}"
                 : "=r"(value), "=r"(in_range) : "r"(1000 + threadIdx.x), "r"((u32)input[0]), "r"((u32)input[1]));
    output[threadIdx.x] = value;
    output[32 + threadIdx.x] = in_range;
}}
"""
REDUX = """
extern "C" __global__ void redux_{name}(Watch*, const u64* input, u64* output) {{
    u32 result;
    asm volatile("redux.sync.{form} %0, %1, 0xffffffff;"
                 : "=r"(result) : "r"((u32)input[0] + (u32)input[1] * threadIdx.x));
    output[threadIdx.x] = result;
}}
"""
MATCH = """
extern "C" __global__ void match_{kind}(Watch*, const u64* input, u64* output) {{
    u32 lanes, wide, all = 2;
    const u32 value = threadIdx.x & (u32)input[0];
    asm volatile("{{ .reg .pred p; setp.ne.u32 p, 1, 0; match.{kind}.sync.b32 %0{pair}, %2, 0xffffffff;"
                 " selp.u32 %1, 1, 0, p; }}" : "=r"(lanes), "=r"(all) : "r"(value));
    asm volatile("match.{kind}.sync.b64 %0, %1, 0xffffffff;" : "=r"(wide) : "l"((u64)value << 32));
    output[threadIdx.x] = lanes;
    output[32 + threadIdx.x] = all;
    output[64 + threadIdx.x] = wide;
}}
"""
BARRIER = """
extern "C" __global__ void bar_red_{kind}(Watch*, const u64* input, u64* output) {{
    u32 result;
    asm volatile("{{ .reg .pred p, q; setp.ne.u32 p, %1, 0; {instruction} }}"
                 : "=r"(result) : "r"((u32)(input[0] >> (threadIdx.x & 31) & 1)) : "memory");
    output[threadIdx.x] = result;
}}
"""


@pytest.fixture(scope="module")
def program(machine: Machine) -> Program:
    votes = {
        kind: f"vote.sync.{kind}.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q;" for kind in ("all", "any", "uni")
    } | {"ballot": "vote.sync.ballot.b32 %0, p, 0xffffffff;"}
    barriers = {kind: f"bar.red.{kind}.pred q, 0, p; selp.u32 %0, 1, 0, q;" for kind in ("and", "or")} | {
        "popc": "bar.red.popc.u32 %0, 3, 64, p;"
    }
    kernels = (
        (VOTE.format(kind=kind, vote=vote) for kind, vote in votes.items()),
        (SHUFFLE.format(kind=kind) for kind in sorted(SHUFFLES)),
        (REDUX.format(name=form.replace(".", "_"), form=form) for form in sorted(REDUCTIONS)),
        (MATCH.format(kind=kind, pair="|p" if kind == "all" else "") for kind in sorted(MATCHES)),
        (BARRIER.format(kind=kind, instruction=barriers[kind]) for kind in sorted(BARRIER_VOTES)),
    )
    return machine.load_text("warp.cu", HEAD + "".join(itertools.chain(*kernels)))


def results(machine: Machine, buffers: list[Buffer], program: Program, case: Case, threads: int = 32) -> list[int]:
    """96 numbers of the case's kernel."""
    buffers[0].write(np.array([*case.operands, 0], np.uint64))
    run(machine, program.kernel(case.form.replace(".", "_")), buffers, threads)
    return [int(value) for value in buffers[1].read(np.uint64, 96)]


def cases(prefix: str) -> list[Case]:
    return [case for case in read_cases("warp") if case.form.startswith(prefix)]


@pytest.mark.parametrize(("prefix", "threads"), [("vote", 32), ("redux", 32), ("bar.red", 64)])
def test_all_lanes_get_one_result(
    machine: Machine, buffers: list[Buffer], program: Program, prefix: str, threads: int
) -> None:
    for case in cases(prefix):
        seen = results(machine, buffers, program, case, threads)[:threads]
        assert set(seen) == {int(case.results[0], 16)}, case


def test_shuffles(machine: Machine, buffers: list[Buffer], program: Program) -> None:
    for case in cases("shfl"):
        values = results(machine, buffers, program, case)
        *sources, _, in_range = case.results
        assert [value - 1000 for value in values[:32]] == [int(source) for source in sources], case
        assert sum(flag << lane for lane, flag in enumerate(values[32:64])) == int(in_range, 16), case


def test_matches(machine: Machine, buffers: list[Buffer], program: Program) -> None:
    for case in cases("match"):
        values = results(machine, buffers, program, case)
        masks = case.results[: case.results.index("|")] if "|" in case.results else case.results
        assert values[:32] == values[64:] == [int(masks[lane % len(masks)], 16) for lane in range(32)], case
        if "|" in case.results:
            assert set(values[32:64]) == {int(case.results[-1])}, case


def test_other_predicates_give_another_result(machine: Machine, buffers: list[Buffer], program: Program) -> None:
    """Negative control: the result is that of these very lanes."""
    case = next(case for case in cases("bar.red.popc") if int(case.results[0], 16))
    other = type(case)(case.form, (case.operands[0] ^ 1,), case.results)
    assert results(machine, buffers, program, case, 64)[0] == results(machine, buffers, program, other, 64)[0] + 2


LANES = """
extern "C" __global__ void lanes(Watch*, const u64* input, u64* output) {
    u32 eq, lt, le, gt, ge, lane;
    asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
    asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(le));
    asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
    asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    u64* mine = output + 6 * threadIdx.x;
    mine[0] = lane; mine[1] = eq; mine[2] = lt; mine[3] = le; mine[4] = gt; mine[5] = ge;
}
"""


def test_lane_masks(machine: Machine, buffers: list[Buffer]) -> None:
    run(machine, machine.load_text("lanes.cu", HEAD + LANES).kernel("lanes"), buffers, 40)
    seen = buffers[1].read(np.uint64, 6 * 40).reshape(40, 6).tolist()
    for thread, (lane, *masks) in enumerate(seen):
        own, full = 1 << thread % 32, (1 << 32) - 1
        assert lane == thread % 32
        assert masks == [own, own - 1, 2 * own - 1, full - 2 * own + 1, full - own + 1]


ACTIVE = r"""
extern "C" __global__ void active(Watch*, const u64* input, u64* output) {
    if (threadIdx.x >= (u32)input[0]) return;
    u32 lanes;
    asm volatile("activemask.b32 %0;" : "=r"(lanes));
    output[threadIdx.x] = lanes;
}
"""


def test_active_lanes(machine: Machine, buffers: list[Buffer]) -> None:
    """Which lanes run together is the machine's business; a lane itself always does, a lane that is none never."""
    kernel = machine.load_text("active.cu", HEAD + ACTIVE).kernel("active")
    for threads in (32, 5):
        buffers[0].write(np.array([threads], np.uint64))
        run(machine, kernel, buffers, threads)
        for lane, mask in enumerate(buffers[1].read(np.uint64, threads)):
            assert int(mask) >> lane & 1
            assert int(mask) < 1 << threads


ELECT = """
extern "C" __global__ void elects(Watch*, const u64* input, u64* output) {
    u32 lane, chosen;
    if (threadIdx.x < 3) return;
    asm volatile("{ .reg .pred p; elect.sync %0|p, 0xfffffff8; selp.u32 %1, 1, 0, p; }" : "=r"(lane), "=r"(chosen));
    output[threadIdx.x] = lane;
    output[32 + threadIdx.x] = chosen;
}
"""


def test_one_lane_is_elected(machine: Machine, buffers: list[Buffer]) -> None:
    """Which one, PTX leaves open; here it is the lowest."""
    run(machine, machine.load_text("elect.cu", HEAD + ELECT).kernel("elects"), buffers, 32)
    lanes, chosen = buffers[1].read(np.uint64, 64).reshape(2, 32)[:, 3:].tolist()
    assert len(set(lanes)) == 1
    assert chosen == [int(lane == lanes[0]) for lane in range(3, 32)]


EXIT = """
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, {lane}; @%p1 ret;
shl.b32 %r3, 1, %r1; and.b32 %r4, %r3, {mask}; setp.eq.u32 %p2, %r4, 0; @%p2 ret;
bar.warp.sync {mask}; mul.lo.u32 %r5, %r1, 4; cvt.u64.u32 %rd1, %r5; add.u64 %rd2, %b, %rd1;
st.global.u32 [%rd2], 1; ret;
"""


@pytest.mark.parametrize(
    ("lane", "mask"), [(0, 0xFFFFFFFF), (31, 0xFFFFFFFF), (1, 0b11), (0, 0b11), (2, 0b1100), (31, 0x80000001)]
)
def test_lanes_that_have_ended_are_not_waited_for(emulated: EmulatedMachine, lane: int, mask: int) -> None:
    seen = run_ptx(emulated, EXIT.format(lane=lane, mask=mask), outputs=32, block=32)
    assert list(seen) == [int(n != lane and bool(mask >> n & 1)) for n in range(32)]


@pytest.mark.parametrize("mask", ["-1", "0xffffffff"])
def test_all_lanes_elect_one_by_either_spelling_of_the_mask(emulated: EmulatedMachine, mask: str) -> None:
    text = f"elect.sync %r2|%p1, {mask}; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%b], %r2; ret;"
    assert list(run_ptx(emulated, text, block=32)) == [0]


@pytest.mark.parametrize("ends_ns", [0, 20_000, 80_000])
def test_lanes_that_live_are_waited_for_though_another_has_ended(emulated: EmulatedMachine, ends_ns: int) -> None:
    """The first comes 50 us late, with what the others read behind the barrier."""
    text = (
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 31; @%p1 bra END; setp.ne.u32 %p2, %r1, 0; @%p2 bra MEET;"
        " nanosleep.u32 50000; st.shared.u32 [own], 7; MEET: bar.warp.sync 0x7fffffff; ld.shared.u32 %r2, [own];"
        " mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %b, %rd1; st.global.u32 [%rd2], %r2; ret;"
        f" END: nanosleep.u32 {ends_ns}; ret;"
    )
    seen = run_ptx(emulated, text, outputs=32, block=32, registers=".shared .align 4 .b8 own[4];", deadline_s=0.1)
    assert list(seen) == [7] * 31 + [0]
