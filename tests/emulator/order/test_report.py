"""What random order reports of unordered accesses: first what changed a value, each with what would order it."""

from itertools import pairwise

import numpy as np
import pytest

from pcietool.contract.outcomes import UnorderedAccess, told
from pcietool.emulator.engine.variants import OrderName
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program

TWO_WARPS = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra SECOND;"
SHARED = ".shared .align 16 .b8 tile[64];"
WAIT = "LOOK: ld.relaxed.{scope}.global.u32 %r2, [%b]; setp.eq.u32 %p2, %r2, 0; @%p2 bra LOOK;"


def reported(text: str, *, gpus: int = 1, grid: int = 1, block: int = 1, seed: int = 0) -> tuple[UnorderedAccess, ...]:
    """Of a kernel that all GPUs run with %a and %b on GPU 0."""
    with EmulatedMachine.open("h200-nvlink4", seed=seed, order="random") as machine:
        a, b = (machine.alloc(on_device(0), 256, name) for name in "ab")
        kernel = ptx_program(text, "random", registers=SHARED).kernel("k")
        outcome = machine.run([Launch(gpu, kernel, grid, block, (a, b)) for gpu in range(gpus)], 0.01)
        assert outcome.finished
        return outcome.unordered


def test_writes_of_the_same_value_made_no_difference() -> None:
    (pair,) = reported("st.global.u32 [%a], 1; ret;", block=2)
    assert (pair.kind, pair.effect, pair.count) == ("overwrite", "none", 1)


def test_of_writes_of_different_values_one_stays() -> None:
    (pair,) = reported("mov.u32 %r1, %tid.x; st.global.u32 [%a], %r1; ret;", block=4)
    assert (pair.kind, pair.effect) == ("overwrite", "either value")


def test_a_write_after_a_read_made_no_difference() -> None:
    """The reader is done when the writer comes, in any seed; nothing says so to the writer."""
    text = (
        f"{TWO_WARPS} ld.global.u32 %r2, [%a]; ret;"
        "SECOND: setp.gt.u32 %p2, %r1, 32; @%p2 ret; nanosleep.u32 500000; st.global.u32 [%a], 1; ret;"
    )
    (pair,) = reported(text, block=64)
    assert (pair.kind, pair.effect) == ("overwrite", "none")


def test_a_read_of_an_old_value_stands_first() -> None:
    """Block 1 sees the flag that block 0 stores behind the data, and not the data; both then store the same word."""
    text = (
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra READER;"
        "st.global.u32 [%a+64], 5; st.global.u32 [%a], 1; st.relaxed.gpu.global.u32 [%b], 1; ret;"
        f"READER: {WAIT.format(scope='gpu')} st.global.u32 [%a+64], 5; ld.global.u32 %r3, [%a];"
        "st.global.u32 [%b+64], %r3; ret;"
    )
    runs = [reported(text, grid=2, seed=seed) for seed in range(60)]
    effects = [[pair.effect for pair in run] for run in runs]
    assert {tuple(one) for one in effects} == {("old value", "none"), ("either value", "none")}


def test_what_made_no_difference_is_folded_into_a_count_where_something_did() -> None:
    grave, slight = (
        UnorderedAccess("read", 0, 0, 0, "k.cu:1", "'a'+0 on GPU 0", "GPU 1 block 0 thread 0", "k.cu:2", 3, effect, "x")
        for effect in ("old value", "none")
    )
    assert told([slight]) == [str(slight)]
    assert told([grave]) == [str(grave)]
    assert told([grave, slight, slight]) == [str(grave), "2 more pairs on which no value depended in this run"]


@pytest.mark.parametrize(
    ("text", "shape", "mend"),
    [
        ("mov.u32 %r1, %tid.x; st.global.u32 [%a], %r1; ret;", {"block": 2}, "__syncthreads() or __syncwarp()"),
        ("mov.u32 %r1, %tid.x; st.shared.u32 [tile], %r1; ret;", {"block": 64}, "__syncthreads() or __syncwarp()"),
        ("mov.u32 %r1, %ctaid.x; st.global.u32 [%a], %r1; ret;", {"grid": 2}, "acquire before the second, of .gpu"),
        *(
            (
                f"mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, {late}; @%p1 nanosleep.u32 500000;"
                " st.global.u32 [%a], %r1; ret;",
                {"grid": 2},
                "acquire before the second, of .gpu",
            )
            for late in (0, 1)
        ),
        ("mov.u32 %r1, %smid; st.global.u32 [%a], %r1; ret;", {"gpus": 2}, "acquire before the second, of .sys"),
        ("red.relaxed.gpu.global.add.u32 [%a], 1; ret;", {"gpus": 2}, "accesses of .sys scope"),
        (
            "st.relaxed.gpu.global.u16 [%a], 1; ld.relaxed.gpu.global.u32 %r5, [%a]; ret;",
            {"block": 2},
            "accesses of the same size",
        ),
        ("st.global.u32 [%a], 1; ld.global.nc.u32 %r5, [%a]; ret;", {}, "without .nc, __ldg, or const __restrict__"),
        (
            "st.shared.u32 [tile], 1; cp.async.bulk.global.shared::cta.bulk_group [%a], [tile], 16;"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;",
            {},
            "fence.proxy.async between the two",
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%a], [tile], 16; cp.async.bulk.commit_group;"
            "cp.async.bulk.wait_group.read 0; ld.global.u32 %r2, [%a]; st.global.u32 [%a], %r2; ret;",
            {},
            "wait for the copy",
        ),
    ],
)
def test_the_report_says_what_would_order_the_two(text: str, shape: dict[str, int], mend: str) -> None:
    pairs = reported(text, **shape)
    assert pairs
    assert all(mend in pair.mend for pair in pairs), [str(pair) for pair in pairs]


def test_an_access_to_shared_memory_is_named_by_its_variable() -> None:
    (pair,) = reported("mov.u32 %r1, %tid.x; st.shared.u32 [tile+8], %r1; ret;", block=64)
    assert pair.address == "'tile'+8 in shared memory of GPU 0 block 0"


@pytest.mark.parametrize(("fence", "orders"), [(".global", False), (".shared::cta", True), ("", True)])
def test_a_proxy_fence_of_one_space_orders_nothing_of_the_other(fence: str, orders: bool) -> None:
    """A tile, written and then sent."""
    text = f"""st.shared.u32 [tile], 1; fence.proxy.async{fence};
        cp.async.bulk.global.shared::cta.bulk_group [%a], [tile], 16; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0; ret;"""
    assert [pair.address for pair in reported(text)] == ["'tile'+0 in shared memory of GPU 0 block 0"] * (not orders)


@pytest.mark.parametrize("order", ["timing", "random"])
def test_what_an_earlier_launch_wrote_may_be_read_through_the_non_coherent_path(order: OrderName) -> None:
    """Each launch reads what the one before it wrote, and writes beside it: nothing during the launch."""
    text = "ld.global.nc.u32 %r1, [%a]; add.u32 %r1, %r1, 1; st.global.u32 [%b], %r1; ret;"
    kernel = ptx_program(text, order).kernel("k")
    for seed in range(5):
        with EmulatedMachine.open("h200-nvlink4", [0], seed, order) as machine:
            words = machine.alloc(on_device(0), 64, "words")
            step = [words.address + 4 * n for n in range(4)]
            outcome = machine.run([Launch(0, kernel, 1, 1, pair) for pair in pairwise(step)], 0.01)
            assert outcome.unordered == ()
            assert words.read(np.uint32, 4).tolist() == [0, 1, 2, 3]
