"""Bulk copies: what they move, what a wait for them means, and what is refused."""

import numpy as np
import pytest

from pcietool.emulator.engine.variants import OrderName
from pcietool.errors import EmulationError, PtxError
from pcietool.machines.base import HOST, Launch, Machine, Place, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program, run_ptx

TILE = 4096
SHARED = ".shared .align 128 .b8 space[256];\n.shared .align 8 .b64 bar;"
COPY = """
#include "slots.cuh"
// Moves one tile from -> shared memory -> to, and says when by the timer: [begin, source read, all done].
extern "C" __global__ void tile(Watch*, const char* from, char* to, u32 bytes, u64* times) {
    extern __shared__ __align__(128) char space[];
    __shared__ __align__(8) u64 full;
    const u32 tile = static_cast<u32>(__cvta_generic_to_shared(space));
    const u32 barrier = static_cast<u32>(__cvta_generic_to_shared(&full));
    if (threadIdx.x) return;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(tile), "l"(from), "r"(bytes), "r"(barrier) : "memory");
    u32 done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier) : "memory");
    }
    times[0] = timer_ns();
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(to), "r"(tile), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    times[1] = timer_ns();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    times[2] = timer_ns();
}
"""


def move(machine: Machine, source: Place, target: Place, bytes_: int = TILE) -> tuple[list[float], bool]:
    """[begin, read, done] in ns of one tile from place to place, and whether the bytes came through."""
    kernel = machine.load_text("tile.cu", COPY).kernel("tile")
    wanted = np.random.default_rng(1).integers(0, 256, TILE, dtype=np.uint8)
    start, end = machine.alloc(source, TILE, "source"), machine.alloc(target, TILE, "target")
    start.write(wanted)
    end.fill(0xA5)
    times = machine.alloc(on_device(0), 24, "times")
    assert machine.run([Launch(0, kernel, 1, 32, (start, end, bytes_, times), shared=TILE)], 1.0).finished
    got = end.read()
    intact = bool((got[:bytes_] == wanted[:bytes_]).all() and (got[bytes_:] == 0xA5).all())
    return [float(time) for time in times.read(np.uint64)], intact


@pytest.mark.parametrize("nbytes", [16, 1008, TILE])
@pytest.mark.parametrize("place", [on_device(0), HOST])
def test_a_tile_arrives_byte_by_byte(machine: Machine, place: Place, nbytes: int) -> None:
    _, intact = move(machine, on_device(0), place, nbytes)
    assert intact


def test_a_read_wait_is_not_enough(emulated: EmulatedMachine) -> None:
    """The source may be reused long before the data has arrived at another GPU."""
    (begin, read, done), _ = move(emulated, on_device(0), on_device(1))
    link = emulated.spec.peer
    assert read - begin < link.write_latency_ns.value
    assert done - begin >= link.acknowledge_ns.value


def test_a_larger_copy_takes_the_link_longer(emulated: EmulatedMachine) -> None:
    small, large = (move(emulated, on_device(0), on_device(1), nbytes)[0] for nbytes in (16, TILE))
    assert (large[2] - large[0]) - (small[2] - small[0]) >= 0.9 * TILE / emulated.spec.peer.bandwidth_gb_s.value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("cp.async.bulk.global.shared::cta.bulk_group [%b], [space], 12;", "multiples of 16"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%b+4], [space], 16;", "misaligned"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%b], [space], 512;", "of 264 bytes shared memory|bytes long"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%b], [space], 64;", "only 32 bytes long"),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [space], [%a], 16, [bar];",
            "never initialised",
        ),
    ],
)
def test_what_a_bulk_copy_must_not_do(emulated: EmulatedMachine, body: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run_ptx(emulated, f"{body}\nret;", (0,) * 4, 8, registers=SHARED)


def test_bytes_that_never_come_are_a_proved_hang(emulated: EmulatedMachine) -> None:
    body = """mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; ret;"""
    kernel = ptx_program(body, registers=SHARED).kernel("k")
    buffers = [emulated.alloc(on_device(0), 16, name) for name in "ab"]
    outcome = emulated.run([Launch(0, kernel, 1, 1, tuple(buffers))], 0.01)
    assert outcome.hang is not None
    assert outcome.hang.limit == "host join timeout"
    assert "64 bytes are missing" in outcome.hang.proof[0].address


def test_waits_that_only_look(emulated: EmulatedMachine) -> None:
    """test_wait says at once whether the phase of a parity, or of an arrival, has ended."""
    body = """mbarrier.init.shared::cta.b64 [bar], 2;
        mbarrier.arrive.shared::cta.b64 %rd1, [bar];
        mbarrier.test_wait.shared::cta.b64 %p1, [bar], %rd1;
        mbarrier.arrive.shared::cta.b64 %rd2, [bar];
        mbarrier.test_wait.shared::cta.b64 %p2, [bar], %rd1;
        mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0;
        mbarrier.try_wait.shared::cta.b64 %p4, [bar], %rd1;
        selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; selp.u32 %r3, 4, 0, %p3; selp.u32 %r4, 8, 0, %p4;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; st.global.u32 [%b], %r1; ret;"""
    assert run_ptx(emulated, body, registers=SHARED)[0] == 2 + 4 + 8


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mbarrier.arrive.shared.b64 %rd1, [bar+4];", "misaligned"),
        ("mbarrier.arrive.shared.b64 %rd1, [bar+4096];", "which has only"),
        ("mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar], 1;", "is initialised again"),
        (
            "mbarrier.init.shared.b64 [bar], 1; st.shared.u32 [bar+4], 0; mbarrier.arrive.shared.b64 %rd1, [bar];",
            "over",
        ),
    ],
)
@pytest.mark.parametrize("order", ["timing", "random"])
def test_what_an_mbarrier_must_not_bear(order: OrderName, body: str, message: str) -> None:
    with EmulatedMachine.open("pcie5-switch4", order=order) as machine:
        kernel = ptx_program(f"{body} ret;", order, registers=SHARED).kernel("k")
        buffers = [machine.alloc(on_device(0), 16, name) for name in "ab"]
        with pytest.raises(EmulationError, match=message):
            machine.run([Launch(0, kernel, 1, 1, tuple(buffers))], 0.01)


def test_memory_of_an_invalid_mbarrier_may_be_used_again(emulated: EmulatedMachine) -> None:
    body = """mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar]; st.shared.u32 [bar], 5;
        mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 %rd1, [bar]; ld.shared.u64 %rd2, [bar];
        setp.ne.u64 %p1, %rd2, 0; selp.u32 %r1, 7, 0, %p1; st.global.u32 [%b], %r1; ret;"""
    assert run_ptx(emulated, body, registers=SHARED)[0] == 7


def test_a_barrier_that_is_gone_is_no_barrier(emulated: EmulatedMachine) -> None:
    body = "mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar]; mbarrier.arrive.shared.b64 %rd1, [bar];"
    with pytest.raises(EmulationError, match="never initialised"):
        run_ptx(emulated, f"{body} ret;", registers=SHARED)


@pytest.mark.parametrize(
    "form",
    [
        "cp.async.cg.shared.global [space], [%a], 8;",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%b], [space], 16;",
        "mbarrier.pending_count.b64 %r1, %rd1;",
    ],
)
def test_other_copies_are_refused_at_load(emulated: EmulatedMachine, form: str) -> None:
    with pytest.raises(PtxError, match="does not know"):
        run_ptx(emulated, f"{form}\nret;", registers=SHARED)


@pytest.mark.parametrize(("allowed", "waits_for_the_large_one"), [(1, False), (0, True)])
def test_a_wait_that_allows_the_youngest_group_does_not_wait_for_it(
    emulated: EmulatedMachine, allowed: int, waits_for_the_large_one: bool
) -> None:
    """16 bytes in the first group, 16 KiB in the second; the times before and behind the wait."""
    body = f""".shared .align 16 .b8 tile[16400]; .reg .b32 %s; mov.u32 %s, tile; mov.u64 %rd1, %globaltimer;
        st.global.u64 [%b], %rd1; fence.proxy.async.shared::cta;
        cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 16; cp.async.bulk.commit_group; add.s64 %a, %a, 16;
        cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 16384; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group {allowed}; mov.u64 %rd1, %globaltimer; st.global.u64 [%b+8], %rd1;
        cp.async.bulk.wait_group 0; ret;"""
    target, times = emulated.alloc(on_device(1), 1 << 15, "target"), emulated.alloc(on_device(0), 16, "times")
    assert emulated.run([Launch(0, ptx_program(body).kernel("k"), 1, 1, (target, times))], 0.01).finished
    begin, end = times.read(np.uint64).tolist()
    large_ns = 16384 / emulated.spec.peer.bandwidth_gb_s.value
    acknowledged_ns = emulated.spec.peer.acknowledge_ns.value
    assert end - begin >= 0.9 * acknowledged_ns
    assert (end - begin >= acknowledged_ns + large_ns / 2) == waits_for_the_large_one
