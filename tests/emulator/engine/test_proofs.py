"""A deadlock that is shown is one: no wait is parked whose next turn would leave, and no hang is without a proof."""

import numpy as np
import pytest

from pcietool.contract.outcomes import Hang
from pcietool.emulator.engine.variants import OrderName
from pcietool.machines.base import Buffer, Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program

# GPU 1 writes `count` words of GPU 0 in some order; how GPU 0 waits for them is `turn`.
BOXES = """
#include "slots.cuh"
__device__ __forceinline__ u32 look(const u32* word) {{
    u32 seen;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(word));
    return seen;
}}
extern "C" __global__ void boxes(Watch*, u32 rank, u32* box, u32 count, u32 first, s32 step, u32 missing, u32* out) {{
    if (rank == 1) {{
        for (u32 n = 0; n < count - missing; ++n) {{
            store_relaxed_sys(box + 32 * ((first + n * step) % count), 1);
            __nanosleep(3000);
        }}
        return;
    }}
    {turn}
    *out = 1;
}}
"""
TURNS = {
    "two": (2, "for (bool all = false; !all;) all = (look(box) != 0) & (look(box + 32) != 0);"),
    "three": (
        3,
        "for (bool all = false; !all;) all = (look(box) != 0) & (look(box + 32) != 0) & (look(box + 64) != 0);",
    ),
    "one after the other": (
        2,
        "bool a = false, b = false; while (!a || !b) { if (!a) a = look(box); else b = look(box + 32); }",
    ),
    "each once": (
        3,
        "u32 there = 0; while (there != 7) { for (u32 i = 0; i < 3; ++i) there |= look(box + 32 * i) << i; }",
    ),
    "three times in a row": (1, "u32 seen = 0; while (seen < 3) seen = look(box) ? seen + 1 : 0;"),
    "twice the same": (1, "u32 a, b; do { a = look(box); b = look(box); } while (!a || a != b);"),
    "again what is there": (1, "for (u32 i = 1; i < 5; ++i) { while (look(box) * 9 < i) {} }"),
    "and something else": (2, "while (!look(box) || !*(volatile u32*)(box + 32)) {}"),
    "vector": (1, "u32 a, b, c, d; do { asm volatile(\"ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(a),"
                  " \"=r\"(b), \"=r\"(c), \"=r\"(d) : \"l\"(box)); } while (!(a | b | c | d));"),
}  # fmt: skip


def boxes(order: OrderName, what: str, first: int, step: int, missing: int) -> tuple[Hang | None, int]:
    """How it ended, and whether the waiter came out."""
    count, turn = TURNS[what]
    with EmulatedMachine.open("pcie5-switch4", [0, 1], order=order) as machine:
        kernel = machine.load_text("boxes.cu", BOXES.format(turn=turn)).kernel("boxes")
        box, out = machine.alloc(on_device(0), 1024, "box"), machine.alloc(on_device(0), 4, "out")
        launches = [Launch(rank, kernel, 1, 1, (rank, box, count, first, step, missing, out)) for rank in (0, 1)]
        outcome = machine.run(launches, 0.01)
        return outcome.hang, int(out.read(np.uint32)[0])


@pytest.mark.parametrize("order", ["timing", "random"])
@pytest.mark.parametrize("what", TURNS)
def test_no_turn_that_would_leave_is_parked(order: OrderName, what: str) -> None:
    count = TURNS[what][0]
    for first in range(count):
        for step in (1, count - 1) if count > 2 else (1,):
            assert boxes(order, what, first, step, missing=0) == (None, 1)


@pytest.mark.parametrize("what", TURNS)
def test_a_word_that_never_comes_is_proved(what: str) -> None:
    """Negative control."""
    hang, out = boxes("timing", what, 0, 1, missing=1)
    assert hang is not None
    assert out == 0
    assert any("'box'+" in blocked.address for blocked in hang.proof)
    assert all(blocked.device == 0 for blocked in hang.proof)


def hang_of(emulated: EmulatedMachine, body: str, *, block: int = 32, grid: int = 1) -> Hang:
    word = emulated.alloc(on_device(0), 64, "word")
    kernel = ptx_program(body, registers=".shared .align 8 .b64 barrier;").kernel("k")
    hang = emulated.run([Launch(0, kernel, grid, block, (word, word))], 0.01).hang
    assert hang is not None
    return hang


ODD = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1;"
WAITS = {
    "shuffle": (
        f"{ODD} @%p1 bra ON; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; ON: bar.sync 0; ret;",
        "shfl.bfly of lanes 0xffffffff",
    ),
    "ballot": (
        f"{ODD} @%p1 bra ON; vote.sync.ballot.b32 %r3, %p1, -1; ON: bar.sync 0; ret;",
        "vote.ballot of lanes 0xffffffff",
    ),
    "warp barrier": (
        f"{ODD} @%p1 bra ON; bar.warp.sync -1; ON: bar.sync 0; ret;",
        "lanes 0xaaaaaaaa have not arrived",
    ),
    "barrier of another": ("bar.sync 1, 64; ret;", "barrier 1: 32 of 64 threads have arrived"),
    "counted barrier of one that exits": (
        """mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra LATE; bar.sync 1, 64; ret;
        LATE: nanosleep.u32 9000; ret;""",
        "barrier 1: 32 of 64 threads have arrived",
    ),
    "mbarrier": (
        """mov.u32 %r1, barrier; mbarrier.init.shared.b64 [%r1], 2; mbarrier.arrive.shared.b64 %rd1, [%r1];
        A: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra A; ret;""",
        "1 arrivals and 0 bytes are missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WAITS)
def test_whoever_waits_for_other_threads_is_in_the_proof(emulated: EmulatedMachine, what: str) -> None:
    body, said = WAITS[what]
    hang = hang_of(emulated, body, block={"mbarrier": 1, "counted barrier of one that exits": 64}.get(what, 32))
    assert hang.limit == "host join timeout"
    assert any(said in blocked.address for blocked in hang.proof)


def test_blocks_without_a_place_are_in_the_proof(emulated: EmulatedMachine) -> None:
    """The last block is what the others wait for, and it never starts."""
    word = emulated.alloc(on_device(0), 64, "word")
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; sub.u32 %r2, %r2, 1; setp.eq.u32 %p1, %r1, %r2;
        @%p1 bra LAST; A: ld.relaxed.gpu.global.u32 %r3, [%a]; setp.eq.u32 %p2, %r3, 0; @%p2 bra A; ret;
        LAST: st.relaxed.gpu.global.u32 [%a], 1; ret;"""
    kernel = ptx_program(body).kernel("k")
    whole = 200 * 1024
    room = emulated.resident_blocks(0, kernel, 1, whole)
    hang = emulated.run([Launch(0, kernel, room + 1, 1, (word, word), whole, beyond_residency=True)], 1e-4).hang
    assert hang is not None
    assert any("hold all places that 1 others wait for" in blocked.address for blocked in hang.proof)
    word.fill(0)
    assert emulated.run([Launch(0, kernel, room, 1, (word, word), whole)], 1e-4).finished


def spinning(emulated: EmulatedMachine, body: str, deadline_s: float = 2.0) -> tuple[Hang | None, Buffer]:
    word = emulated.alloc(on_device(0), 64, "word")
    kernel = ptx_program(body, registers=".shared .align 4 .b32 near;").kernel("k")
    return emulated.run([Launch(0, kernel, 1, 1, (word, word))], deadline_s).hang, word


SPINS = {
    "nothing": "A: bra A;",
    "weak load": "A: ld.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;",
    "shared memory": "A: ld.volatile.shared.u32 %r1, [near]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;",
    "read-modify-write": "A: atom.global.cas.b32 %r1, [%a], 1, 2; setp.ne.u32 %p1, %r1, 1; @%p1 bra A; ret;",
    "counts": """A: ld.volatile.shared.u32 %r2, [near]; add.u32 %r2, %r2, 1; st.volatile.shared.u32 [near], %r2;
        ld.relaxed.sys.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;""",
}


@pytest.mark.parametrize("what", SPINS)
def test_the_deadline_ends_what_has_none_of_its_own(emulated: EmulatedMachine, what: str) -> None:
    hang, _ = spinning(emulated, SPINS[what])
    assert hang is not None
    assert hang.limit == "host join timeout"
    (runs,) = hang.running
    assert (runs.device, runs.block, runs.thread) == (0, 0, 0)
    assert "kernel k still runs" in runs.address
    assert "PTX line" in runs.source
    assert emulated.engine.events < 2_000_000, "the time is jumped over"
    assert spinning(emulated, "st.global.u32 [%a], 1; ret;")[0] is None, "the machine works on"


def test_a_long_delay_is_no_hang(emulated: EmulatedMachine) -> None:
    """Negative control: half a second of looking at the timer ends by itself, and what is then stored arrives."""
    body = """mov.u64 %rd1, %globaltimer; add.u64 %rd1, %rd1, 500000000;
        A: ld.volatile.shared.u32 %r2, [near]; mov.u64 %rd2, %globaltimer; setp.lt.u64 %p1, %rd2, %rd1; @%p1 bra A;
        st.global.u32 [%a], 7; ret;"""
    hang, word = spinning(emulated, body)
    assert hang is None
    assert word.read(np.uint32)[0] == 7


def test_a_hang_is_of_its_own_round_only(emulated: EmulatedMachine) -> None:
    assert hang_of(emulated, "bar.sync 1, 64; ret;").limit == "host join timeout"
    assert spinning(emulated, "st.global.u32 [%a], 1; ret;")[0] is None
