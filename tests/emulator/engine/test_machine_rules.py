"""The rules a kernel must keep: bounds, alignment, lifetime, barriers. Each is caught, and named, when broken."""

from collections.abc import Sequence

import numpy as np
import pytest

from pcietool.emulator.memory import Memory
from pcietool.errors import EmulationError, PtxError
from pcietool.machines.base import HOST, Launch, Machine, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program, run_ptx

ONLY_THREAD_1 = "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 1; @%p1 ret;\n"
SHARED = ".shared .align 16 .b8 space[64]; .local .align 16 .b8 own[32];"

BROKEN = {
    "beyond the end, weak load": ("ld.global.u32 %r1, [%a+16];", "beyond (the|its) end|only 16 bytes"),
    "beyond the end, strong load": ("ld.relaxed.sys.global.u32 %r1, [%a+16];", "offset 16 of 'inputs'.*only 16 bytes"),
    "beyond the end, strong store": ("st.relaxed.sys.global.u32 [%a+1000], 1;", "offset 1000 of 'inputs'.*GPU 0"),
    "beyond the end, weak store": ("st.global.u32 [%a+16], 1;", "beyond (the|its) end|only 16 bytes"),
    "half beyond the end": ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%b];", "beyond (the|its) end|only 4 bytes"),
    "before the start, weak load": ("ld.global.u32 %r1, [%a+-4];", "4 bytes before the start of 'inputs'"),
    "before the start, atomic": ("red.global.add.u32 [%a+-28], 1;", r"28 bytes before the start of 'inputs' \(GPU 0\)"),
    "misaligned, generic address of shared memory": (
        "mov.u64 %rd2, space; cvta.shared.u64 %rd1, %rd2; ld.u32 %r1, [%rd1+2];",
        "misaligned 4 byte access .*shared memory",
    ),
    "beyond shared memory, generic address": (
        "mov.u64 %rd2, space; cvta.shared.u64 %rd1, %rd2; st.u32 [%rd1+64], 1;",
        "shared memory, 4 bytes beyond its end",
    ),
    "misaligned atomic, generic address of shared memory": (
        "mov.u64 %rd2, space; cvta.shared.u64 %rd1, %rd2; atom.add.u32 %r1, [%rd1+1], 1;",
        "misaligned 4 byte access .*shared memory",
    ),
    "misaligned mbarrier": (
        "mov.u32 %r1, space; mbarrier.init.shared.b64 [%r1+4], 1;",
        "mbarrier at offset 4 of shared memory: misaligned",
    ),
    "mbarrier without arrivals": (
        "mov.u32 %r1, space; mbarrier.init.shared.b64 [%r1], 0;",
        "initialised for 0 arrivals",
    ),
    "mbarrier beyond shared memory": (
        "mov.u32 %r1, space; mbarrier.init.shared.b64 [%r1+64], 1;",
        "offset 64 of shared memory, which has only 64 bytes",
    ),
    "no whole warps at a barrier": ("mov.u32 %r1, 40; bar.sync 1, %r1;", "barrier 1 for 40 threads"),
    "a vote outside its mask": ("vote.sync.any.pred %p2, %p1, 1;", "lane 1 is not in the mask 0x00000001"),
    "beyond the end, atomic": ("red.global.add.u32 [%a+16], 1;", "offset 16 of 'inputs'"),
    "misaligned weak load": ("ld.global.u32 %r1, [%a+2];", "misaligned 4 byte access at offset 2 of 'inputs'"),
    "misaligned strong store": ("st.relaxed.sys.global.u32 [%a+1], 1;", "misaligned 4 byte access at offset 1"),
    "misaligned vector": ("ld.global.v2.u32 {%r1, %r2}, [%a+4];", "misaligned 8 byte access at offset 4"),
    "misaligned shared load": (
        "ld.shared.u32 %r1, [space+2];",
        "misaligned 4 byte access to shared memory at offset 2",
    ),
    "misaligned shared atomic": ("atom.shared.add.u32 %r1, [space+1], 1;", "misaligned 4 byte access to shared memory"),
    "beyond shared memory": ("st.shared.u32 [space+64], 1;", "beyond its end at"),
    "before shared memory": ("st.shared.u32 [space+-4], 1;", "before the start of shared memory"),
    "beyond local memory": ("ld.local.u32 %r1, [own+32];", "beyond its end at"),
    "before local memory": ("st.local.u32 [own+-4], %r1;", "before the start of local memory"),
    "misaligned local store": ("st.local.v2.u32 [own+4], {%r1, %r2};", "misaligned 8 byte access to local memory at"),
    "trap": ("trap;", r"the kernel gave up \(trap\)"),
    "nowhere": ("mov.u64 %rd1, 64; st.global.u32 [%rd1], 1;", "0x40 that belongs to no allocation"),
    "no such barrier": ("bar.sync 16;", "a block has barriers 0 to 15"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_names_thread_and_instruction(emulated: EmulatedMachine, rule: str) -> None:
    text, what = BROKEN[rule]
    with pytest.raises(EmulationError, match=what) as error:
        run_ptx(emulated, ONLY_THREAD_1 + text + "\nret;", (0,) * 4, block=2, registers=SHARED)
    message = str(error.value)
    assert "GPU 0 block 0 thread 1, kernel k: " in message
    assert text.split("; ")[-1].rstrip(";") in message
    assert "\n" not in message


def test_kept_rules_are_fine(emulated: EmulatedMachine) -> None:
    """Negative control: the last word that there is of each."""
    text = "ld.global.u32 %r1, [%a+12]; st.shared.u32 [space+60], %r1; ld.shared.u32 %r2, [space+60]; bar.sync 15;"
    assert run_ptx(emulated, f"{text} st.global.u32 [%b], %r2; ret;", (0, 0, 0, 9), registers=SHARED)[0] == 9


@pytest.mark.parametrize("access", ["ld.global.u32 %r1, [%a];", "st.relaxed.sys.global.u32 [%a], 1;"])
def test_use_after_free(emulated: EmulatedMachine, access: str) -> None:
    gone = emulated.alloc(on_device(0), 64, "short-lived")
    address = gone.address
    gone.free()
    kernel = ptx_program(f"{access} ret;").kernel("k")
    with pytest.raises(EmulationError, match="'short-lived', which was freed"):
        emulated.run([Launch(0, kernel, 1, 1, (address, 0))], 0.01)


def test_remote_and_host_memory_are_checked_too(emulated: EmulatedMachine) -> None:
    for place, where in ((on_device(2), "GPU 2"), (HOST, "host memory")):
        buffer = emulated.alloc(place, 64, "elsewhere")
        kernel = ptx_program("st.global.u32 [%a+64], 1; ret;").kernel("k")
        with pytest.raises(EmulationError, match=rf"offset 64 of 'elsewhere' \({where}\)"):
            emulated.run([Launch(0, kernel, 1, 1, (buffer, 0))], 0.01)


def test_two_thread_counts_on_one_barrier(emulated: EmulatedMachine) -> None:
    body = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra FIRST;
        bar.sync 1, 64; ret; FIRST: bar.sync 1, 96; ret;"""
    with pytest.raises(
        EmulationError, match=r"two thread counts on barrier 1 of one block: .*bar\.sync 1, 64 .*bar\.sync 1, 96"
    ):
        run_ptx(emulated, body, block=64)


def test_named_barriers_and_arrivals(emulated: EmulatedMachine) -> None:
    """Warp 0 waits for warp 1's word at barrier 1; warp 1 only arrives, and warp 2 takes no part."""
    body = """mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 1; @%p1 bra WRITER;
        setp.eq.u32 %p1, %r2, 2; @%p1 ret;
        bar.sync 1, 64; ld.shared.u32 %r3, [space]; st.global.u32 [%b], %r3; ret;
        WRITER: nanosleep.u32 5000; st.shared.u32 [space], 42; bar.arrive 1, 64; ret;"""
    assert run_ptx(emulated, body, block=96, registers=SHARED)[0] == 42


def test_the_last_warp_of_a_block_counts_whole_at_a_barrier(emulated: EmulatedMachine) -> None:
    """A guess until it was seen on a GPU: barriers count warps, so 40 threads are two of them."""
    assert run_ptx(emulated, "bar.sync 1, 64; st.global.u32 [%b], 7; ret;", block=40)[0] == 7


BRANCHES = """mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; mul.wide.u32 %rd1, %r1, 4;
    add.u64 %rd1, %b, %rd1; @%p1 bra ODD; {even} bra ON; ODD: nanosleep.u32 500; {odd}
    ON: st.global.u32 [%rd1], %r3; ret;"""


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;", [lane ^ 1 for lane in range(32)]),
        ("vote.sync.ballot.b32 %r3, %p1, -1;", [0xAAAAAAAA] * 32),
        ("mov.u32 %r3, 5; bar.warp.sync -1;", [5] * 32),
    ],
)
def test_lanes_meet_at_one_operation_from_both_sides_of_a_branch(
    emulated: EmulatedMachine, operation: str, expected: list[int]
) -> None:
    body = BRANCHES.format(even=operation, odd=operation)
    assert list(run_ptx(emulated, body, outputs=32, block=32)) == expected


def test_a_lane_that_exits_is_not_waited_for(emulated: EmulatedMachine) -> None:
    body = """mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; @!%p1 bra WAIT; nanosleep.u32 1000; ret;
        WAIT: bar.warp.sync -1; st.global.u32 [%b], 7; ret;"""
    assert run_ptx(emulated, body, block=32)[0] == 7


def test_atomics_through_generic_addresses_of_shared_memory(emulated: EmulatedMachine) -> None:
    body = """mov.u64 %rd2, space; cvta.shared.u64 %rd1, %rd2; atom.add.u32 %r1, [%rd1], 5;
        ld.shared.u32 %r2, [space]; st.global.u32 [%b], %r2; ret;"""
    assert run_ptx(emulated, body, registers=SHARED)[0] == 5


def test_a_barrier_waits_for_all_threads(emulated: EmulatedMachine) -> None:
    body = """mov.u32 %r1, %tid.x; mov.u64 %rd1, %globaltimer; setp.ne.u32 %p1, %r1, 7; @%p1 bra ON; nanosleep.u32 9000;
        ON: bar.sync 0; mov.u64 %rd2, %globaltimer; sub.u64 %rd3, %rd2, %rd1; cvt.u32.u64 %r2, %rd3;
        mul.wide.u32 %rd4, %r1, 4; add.u64 %rd5, %b, %rd4; st.global.u32 [%rd5], %r2; ret;"""
    assert (run_ptx(emulated, body, outputs=64, block=64) > 8000).all()
    assert (run_ptx(emulated, body.replace("nanosleep.u32 9000;", ""), outputs=64, block=64) < 1000).all()


def test_atomics_on_one_gpu_never_lose(emulated: EmulatedMachine) -> None:
    assert run_ptx(emulated, "red.global.add.u32 [%b], 1; ret;", grid=10, block=64)[0] == 640


def counted(machine: Machine, ranks: Sequence[int], home: int, adds: int = 200) -> int:
    """What a word at `home` holds after each of these GPUs added so many times, one at a time."""
    word = machine.alloc(on_device(home), 64, "word")
    body = f"""mov.u32 %r1, 0; A: atom.global.sys.add.u32 %r2, [%a], 1; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, {adds}; @%p1 bra A; ret;"""
    kernel = ptx_program(body).kernel("k")
    outcome = machine.run([Launch(rank, kernel, 1, 1, (word, 0)) for rank in ranks], 1.0)
    assert outcome.finished
    return int(word.read(np.uint32, 1)[0])


def test_one_requester_loses_nothing(emulated: EmulatedMachine) -> None:
    assert counted(emulated, [1], home=0) == 200


@pytest.mark.parametrize("ranks", [(1, 2), (1, 2, 3)])
def test_several_requesters_of_a_home_without_native_atomics_lose_all_but_one_share(
    emulated: EmulatedMachine, ranks: tuple[int, ...]
) -> None:
    lost = 1 - counted(emulated, ranks, home=0) / (200 * len(ranks))
    assert lost == pytest.approx(1 - 1 / len(ranks), abs=0.1)


def test_a_native_home_loses_nothing() -> None:
    with EmulatedMachine.open("h200-nvlink2") as native:
        assert counted(native, (0, 1), home=0) == 400


def test_clusters_of_two_dimensions_are_refused_at_load(emulated: EmulatedMachine) -> None:
    text = 'extern "C" __global__ void {} k(unsigned* out) {{ *out = 1; }}'
    with pytest.raises(PtxError, match="kernel k: the emulator knows clusters along x only"):
        emulated.load_text("clusters.cu", text.format("__cluster_dims__(2, 2, 1)"))
    for allowed in ("__cluster_dims__(2, 1, 1)", ""):
        emulated.load_text("clusters.cu", text.format(allowed))


@pytest.mark.parametrize(
    ("offset", "nbytes", "message"),
    [
        (30, 1, None),
        (31, 1, "1 byte access at offset 31 .* only 31 bytes"),
        (28, 4, "4 byte access at offset 28 .* only 31 bytes"),
        (16, 16, "16 byte access at offset 16 .* only 31 bytes"),
        (0, 16, None),
        (8, 16, "misaligned 16 byte access at offset 8"),
        (4, 8, "misaligned 8 byte access at offset 4"),
    ],
)
def test_the_last_byte_is_the_last_and_whole_vectors_are_aligned(offset: int, nbytes: int, message: str | None) -> None:
    memory = Memory(1)
    segment = memory.alloc(0, 31, "odd")
    if message is None:
        assert memory.find(segment.address + offset, nbytes) == (segment, offset)
        return
    with pytest.raises(EmulationError, match=message):
        memory.find(segment.address + offset, nbytes)
