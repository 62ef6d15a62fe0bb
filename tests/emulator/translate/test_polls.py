"""What counts as a wait loop: nothing that does more than wait."""

import pytest

from pcietool.compiler import compile_source
from pcietool.data import kernel_source
from pcietool.emulator.translate.polls import wait_loops
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.ptx.model import Register
from pcietool.ptx.parser import parse
from tests.emulator.emulated_programs import ptx_program


def polls_of(body: str) -> list[str]:
    """Texts of the loads that poll."""
    function = ptx_program(body, registers=".shared .align 4 .b32 word; .local .b32 own;").module.entries["k"]
    found = wait_loops(function)
    return [i.text for block in function.blocks for i in block.instructions if id(i) in found]


@pytest.mark.parametrize("architecture", ["sm_90", "sm_120"])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("order", range(4))
def test_the_barrier_waits_in_wait_loops(architecture: str, order: int, blocks: int) -> None:
    source = kernel_source("barrier.cu")
    defines = {"ORDER": order, "BLOCKS": blocks}
    compiled = compile_source(source, name="barrier.cu", architecture=architecture, defines=defines)
    function = parse(compiled.ptx).entries["barrier_rounds"]
    found = wait_loops(function)
    polls = [i for block in function.blocks for i in block.instructions if id(i) in found]
    assert any(i.has("sys", "volatile") for i in polls), "the slot"
    assert any(i.has("relaxed") and i.has("gpu") for i in polls) == (blocks > 1), "the word that lets other blocks go"


def test_without_waiting_there_is_no_wait_loop() -> None:
    """Negative control of the test above."""
    source = kernel_source("barrier.cu")
    compiled = compile_source(source, name="barrier.cu", architecture="sm_90", defines={"NO_WAIT": 1, "ORDER": 0})
    assert wait_loops(parse(compiled.ptx).entries["barrier_rounds"]) == {}


WAIT = "ld.acquire.sys.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0;"

WAITING = {
    "a plain spin": f"A: {WAIT} @%p1 bra A; ret;",
    "with fences": f"A: membar.sys; {WAIT} fence.acq_rel.gpu; @%p1 bra A; ret;",
    "with sleep": f"A: nanosleep.u32 100; {WAIT} @%p1 bra A; ret;",
    "with arithmetic": f"A: sqrt.rn.f32 %r2, %r1; rcp.rn.f32 %r2, %r2; activemask.b32 %r3; {WAIT} @%p1 bra A; ret;",
    "with a carry": f"A: {WAIT} add.cc.u32 %r2, %r1, -1; addc.u32 %r3, 0, 0; setp.eq.u32 %p1, %r3, 0; @%p1 bra A; ret;",
    "volatile": "A: ld.volatile.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;",
}
NOT_WAITING = {
    "until a timer of its own": f"""A: {WAIT} @!%p1 bra DONE; mov.u64 %rd1, %globaltimer; setp.gt.u64 %p2, %rd1, %rd2;
        @%p2 bra DONE; bra A; DONE: ret;""",
    "a loop that sums so many loads": """mov.u32 %r2, 0; A: ld.volatile.global.u32 %r1, [%a]; add.u32 %r3, %r3, %r1;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 100; @%p1 bra A; ret;""",
    "a loop that stores": f"A: st.relaxed.sys.global.u32 [%b], 1; {WAIT} @%p1 bra A; ret;",
    "a loop that adds": f"A: red.global.add.u32 [%b], 1; {WAIT} @%p1 bra A; ret;",
    "a loop with a barrier": f"A: bar.sync 0; {WAIT} @%p1 bra A; ret;",
    "so many looks and no more": f"""mov.u32 %r2, 0; A: {WAIT} @!%p1 bra DONE; add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, 100; @%p2 bra A; DONE: ret;""",
    "shared memory": "A: ld.volatile.shared.u32 %r1, [word]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;",
    "shared memory may end it too": f"""A: {WAIT} @!%p1 bra DONE; ld.volatile.shared.u32 %r2, [word];
        setp.eq.u32 %p2, %r2, 0; @%p2 bra A; DONE: ret;""",
    "shared memory may end it too, and so may time": f"""A: {WAIT} @!%p1 bra DONE; ld.volatile.shared.u32 %r2, [word];
        setp.ne.u32 %p2, %r2, 0; @%p2 bra DONE; mov.u64 %rd1, %globaltimer; setp.lt.u64 %p3, %rd1, %rd2; @%p3 bra A;
        DONE: ret;""",
    "shared memory may end it too, beside a look at the time": f"""A: {WAIT} @!%p1 bra DONE; mov.u64 %rd1, %globaltimer;
        ld.volatile.shared.u32 %r2, [word]; setp.eq.u32 %p2, %r2, 0; @%p2 bra A; DONE: ret;""",
    "shared memory in the same condition": f"""A: {WAIT} ld.volatile.shared.u32 %r2, [word];
        setp.eq.u32 %p2, %r2, 0; and.pred %p3, %p1, %p2; @%p3 bra A; ret;""",
    "a weak load in the same condition": f"""A: {WAIT} ld.global.u32 %r2, [%b];
        setp.eq.u32 %p2, %r2, 0; and.pred %p3, %p1, %p2; @%p3 bra A; ret;""",
    "memory of its own": """A: ld.volatile.local.u32 %r1, [own]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;""",
    "a weak load may end it too": f"""A: {WAIT} @!%p1 bra DONE; ld.global.u32 %r2, [%b];
        setp.eq.u32 %p2, %r2, 0; @%p2 bra A; DONE: ret;""",
    "a weak load alone": "A: ld.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;",
    "no way out": f"A: {WAIT} bra A;",
    "no loop": f"{WAIT} ret;",
}


@pytest.mark.parametrize("what", WAITING)
def test_wait_loops(what: str) -> None:
    assert len(polls_of(WAITING[what])) == 1


@pytest.mark.parametrize("what", NOT_WAITING)
def test_other_loops(what: str) -> None:
    assert polls_of(NOT_WAITING[what]) == []


WAIT_FOR_SLOT = """
#include "slots.cuh"
__device__ __forceinline__ bool is_there(u32 got, u32 wanted) {{
    u32 also;
    asm volatile("{also}" : "=r"(also) : "r"(got));
    return got >= wanted && also != 1;
}}
extern "C" __global__ void wait(Watch* watch, const u32* slot) {{
    wait_slot<RelaxedSys, 0, is_there>(slot, 1, deadline_from(watch), 0, 0, 0, 0);
}}
"""


@pytest.mark.parametrize(
    "also", ["add.u32 %0, %1, 1;", "sqrt.rn.f32 %0, %1;", "rcp.rn.f32 %0, %1;", "activemask.b32 %0;"]
)
def test_a_hang_is_proved_at_once_whatever_the_wait_computes(emulated: EmulatedMachine, also: str) -> None:
    """It costs a few events, not one for each look until the deadline."""
    slot = emulated.alloc(on_device(0), 4, "slot")
    kernel = emulated.load_text("wait.cu", WAIT_FOR_SLOT.format(also=also)).kernel("wait")
    hang = emulated.run([Launch(0, kernel, 1, 1, (slot,))], 2.0).hang
    assert hang is not None
    assert hang.limit == "device deadline"
    assert "'slot'+0 on GPU 0" in [blocked.address for blocked in hang.proof]
    assert emulated.engine.events < 100


COUNTED = """mov.u32 %r2, 0; A: ld.relaxed.sys.global.u32 %r1, [%a]; setp.ne.s32 %p1, %r1, 7; add.u32 %r3, %r2, 1;
    setp.lt.u32 %p2, %r3, 32; CHOICE and.pred %p3, %p2, %p1; @%p3 bra A; ret;"""


@pytest.mark.parametrize(
    "choice",
    ["mov.u32 %r2, %r3;", "selp.b32 %r2, %r3, %r2, %p1;", "setp.eq.s32 %p4, %r1, 5; selp.b32 %r2, %r3, %r2, %p4;"],
)
def test_a_count_that_may_end_the_wait_keeps_the_thread_awake(choice: str) -> None:
    function = ptx_program(COUNTED.replace("CHOICE", choice)).module.entries["k"]
    (poll,) = wait_loops(function).values()
    assert "%r2" in poll.carried


def test_looks_between_two_looks_at_the_deadline_are_not_counted() -> None:
    """The all-reduce looks 32 times before it looks at the time: it may be parked all the same."""
    compiled = compile_source(
        kernel_source("allreduce.cu"), name="allreduce.cu", architecture="sm_90", defines={"GPUS": 4}
    )
    function = parse(compiled.ptx).entries["allreduce_once"]
    counts = {i.operands[0] for block in function.blocks for i in block.instructions if i.form == "add.s32"}
    polls = wait_loops(function).values()
    assert len(polls) == 2
    assert not any(Register(name) in counts for poll in polls for name in poll.carried)


RETURNS = 'extern "C" __global__ void k(Watch*, u32* box, u32* seen) {{ u32 got, i = 0, turns = 0; {} }}'
LEAVES = {
    "so many looks": "do got = load_relaxed_sys(box); while (got == 0 && ++i < 3); *seen = 1 + i;",
    "a timer of its own": """const u64 began = timer_ns();
        do { i = 0;
        #pragma unroll 1
        do got = load_relaxed_sys(box); while (got == 0 && ++i < 32);
        } while (got == 0 && timer_ns() - began < 2000); *seen = 4;""",
    "another word that it looks at less often": """do {
        #pragma unroll 1
        for (i = 0; i < 100 && load_relaxed_sys(box) == 0; ++i); } while (load_relaxed_sys(box + 1) != 0);
        *seen = 4;""",
}


@pytest.mark.parametrize("leaves", LEAVES)
def test_a_loop_that_something_else_may_end_is_left(emulated: EmulatedMachine, leaves: str) -> None:
    """At its time, not at the deadline."""
    box, seen = (emulated.alloc(on_device(0), 8, name) for name in ("box", "seen"))
    kernel = emulated.load_text("k.cu", '#include "slots.cuh"\n' + RETURNS.format(LEAVES[leaves])).kernel("k")
    outcome = emulated.run([Launch(0, kernel, 1, 1, (box, seen))], 0.01)
    assert outcome.finished
    assert outcome.elapsed_ns[0] < 1e6
    assert int(seen.read("u4")[0]) == 4


def test_turns_that_are_left_out_are_counted(emulated: EmulatedMachine) -> None:
    """200 us in turns of 200 ns and a look."""
    text = """#include "slots.cuh"
    extern "C" __global__ void k(Watch*, u32* box, u32* seen) {
        u32 turns = 0;
        if (threadIdx.x == 1) {
            for (u32 i = 0; i < 1000; ++i) __nanosleep(200);
            store_relaxed_sys(box, 1);
        } else {
            while (load_relaxed_sys(box) == 0) { ++turns; __nanosleep(200); }
            *seen = turns;
        }
    }"""
    box, seen = (emulated.alloc(on_device(0), 4, name) for name in ("box", "seen"))
    assert emulated.run([Launch(0, emulated.load_text("k.cu", text).kernel("k"), 1, 2, (box, seen))], 0.01).finished
    factor, look = emulated.spec.gpu.nanosleep_factor.value, emulated.spec.gpu.l2_round_trip_ns.value
    expected = 1000 * 200 * factor / (200 * factor + look)
    assert int(seen.read("u4")[0]) == pytest.approx(expected, rel=0.05)
