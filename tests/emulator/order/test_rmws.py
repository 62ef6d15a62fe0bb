"""Read-modify-writes in random order: one that changes nothing writes back where atomics are not native, and what each
hands on."""

import numpy as np
import pytest

from pcietool.contract.outcomes import UnorderedAccess
from pcietool.emulator.engine.variants import OrderName
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program

NATIVE, NOT_NATIVE = "h200-nvlink4", "pcie5-switch4"
THREE = ("u64", "u64", "u64")
WITHOUT_EFFECT = {
    "cas": "cas.b32 %r1, [%a], 7, 8",
    "add": "add.u32 %r1, [%a], 0",
    "min": "min.u32 %r1, [%a], 100",
    "max": "max.u32 %r1, [%a], 0",
    "and": "and.b32 %r1, [%a], 0xffffffff",
    "or": "or.b32 %r1, [%a], 0",
    "xor": "xor.b32 %r1, [%a], 0",
}


def left_of_a_store(form: str, fabric: str, order: OrderName) -> set[int]:
    """What a word holds at the end, in some seeds: 5, which its owner stores, or the 1 that was there before."""
    texts = [
        "nanosleep.u32 6000; st.relaxed.sys.global.u32 [%a], 5; ret;",
        f"mov.u32 %r2, 0; ON: atom.relaxed.sys.global.{form}; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 10;"
        " @%p1 bra ON; ret;",
    ]
    left = set()
    for seed in range(12):
        with EmulatedMachine.open(fabric, [0, 1], seed, order) as machine:
            word = machine.alloc(on_device(0), 4, "word")
            word.write(np.array([1], np.uint32))
            launches = [
                Launch(gpu, ptx_program(text, order).kernel("k"), 1, 1, (word, word)) for gpu, text in enumerate(texts)
            ]
            assert machine.run(launches, 0.01).finished
            left.add(int(word.read(np.uint32)[0]))
    return left


@pytest.mark.parametrize("order", ["timing", "random"])
@pytest.mark.parametrize("form", WITHOUT_EFFECT)
def test_one_that_changes_nothing_undoes_a_store_where_atomics_are_not_native(form: str, order: OrderName) -> None:
    assert 1 in left_of_a_store(WITHOUT_EFFECT[form], NOT_NATIVE, order)


@pytest.mark.parametrize("form", ["cas", "add"])
def test_at_a_native_home_it_undoes_nothing(form: str) -> None:
    assert left_of_a_store(WITHOUT_EFFECT[form], NATIVE, "random") == {5}


SEND = "st.global.u32 [%a], 7; {release} ret;"
FORWARD = "LOOK: ld.relaxed.sys.global.u32 %r1, [%b]; setp.eq.u32 %p1, %r1, 0; @%p1 bra LOOK; {rmw} ret;"
RECEIVE = """LOOK: ld.acquire.sys.global.u32 %r1, [%b]; setp.lt.u32 %p1, %r1, {last}; @%p1 bra LOOK;
    ld.global.u32 %r2, [%a]; ld.param.u64 %rd1, [p3]; st.global.u32 [%rd1], %r2; ret;"""
RELEASE = "st.release.sys.global.u32 [%b], 1;"


def forwarded(
    fabric: str, release: str, rmw: str, last: int, gpus: tuple[int, int, int] = (0, 1, 2)
) -> tuple[set[int], list[UnorderedAccess]]:
    """One GPU sends, one performs an RMW on the flag once it is set, one waits for `last` and reads: what it got, and
    what was unordered, in some seeds."""
    texts = [SEND.format(release=release), FORWARD.format(rmw=rmw), RECEIVE.format(last=last)]
    kernels = [ptx_program(text, "random", parameters=THREE).kernel("k") for text in texts]
    got: set[int] = set()
    unordered: list[UnorderedAccess] = []
    for seed in range(12):
        with EmulatedMachine.open(fabric, [0, 1, 2], seed, "random") as machine:
            data, flag, seen = (machine.alloc(on_device(2), 4, name) for name in ("data", "flag", "seen"))
            launches = [
                Launch(gpu, kernel, 1, 1, (data, flag, seen), stream=stream)
                for stream, (gpu, kernel) in enumerate(zip(gpus, kernels, strict=True))
            ]
            outcome = machine.run(launches, 0.01)
            assert outcome.finished
            got.add(int(seen.read(np.uint32)[0]))
            unordered += outcome.unordered
    return got, unordered


@pytest.mark.parametrize(
    "rmw", ["red.relaxed.sys.global.add.u32 [%b], 1;", "atom.relaxed.sys.global.exch.b32 %r2, [%b], 2;"]
)
def test_one_hands_on_the_release_that_it_read(rmw: str) -> None:
    assert forwarded(NATIVE, RELEASE, rmw, 2) == ({7}, [])


def test_one_of_another_scope_hands_on_nothing() -> None:
    _, unordered = forwarded(NATIVE, RELEASE, "red.relaxed.gpu.global.add.u32 [%b], 1;", 2)
    assert {"'data'+0 on GPU 2", "'flag'+0 on GPU 2"} == {one.address for one in unordered}


@pytest.mark.parametrize(("scope", "ordered"), [("sys", True), ("gpu", False)])
def test_one_hands_on_to_its_own_gpu_only_what_it_may_read_itself(scope: str, ordered: bool) -> None:
    """One of gpu scope is morally strong with whoever waits on its GPU, but not with the store of another one."""
    _, unordered = forwarded(NATIVE, RELEASE, f"red.relaxed.{scope}.global.add.u32 [%b], 1;", 2, gpus=(0, 1, 1))
    assert ("'data'+0 on GPU 2" in {one.address for one in unordered}) != ordered


@pytest.mark.parametrize(("fabric", "writes"), [(NATIVE, False), (NOT_NATIVE, True)])
@pytest.mark.parametrize("expected", [1, 7])
def test_a_refused_compare_and_swap_is_a_read_where_atomics_are_native(
    fabric: str, writes: bool, expected: int
) -> None:
    """Beside a weak load of the same word, which holds 1, it is no race; one that swaps is, and one written back."""
    texts = ["ld.global.u32 %r1, [%a]; ret;", f"atom.relaxed.sys.global.cas.b32 %r1, [%a], {expected}, 8; ret;"]
    kernels = [ptx_program(text, "random").kernel("k") for text in texts]
    found = False
    for seed in range(12):
        with EmulatedMachine.open(fabric, [0, 1], seed, "random") as machine:
            word = machine.alloc(on_device(0), 4, "word")
            word.write(np.array([1], np.uint32))
            launches = [Launch(gpu, kernel, 1, 1, (word, word)) for gpu, kernel in enumerate(kernels)]
            found |= bool(machine.run(launches, 0.01).unordered)
    assert found == (writes or expected == 1)


def test_a_refused_compare_and_swap_writes_back_what_it_read_with_its_release() -> None:
    refused = "atom.relaxed.sys.global.cas.b32 %r2, [%b], 7, 8;"
    assert forwarded(NOT_NATIVE, RELEASE, refused, 1) == ({7}, [])


def test_a_refused_compare_and_swap_releases_nothing_itself() -> None:
    """GPU 1 has acquired the data, and its failing swap is a release: no write of PTX that anybody could acquire."""
    acquired = "ld.acquire.sys.global.u32 %r3, [%b]; atom.acq_rel.sys.global.cas.b32 %r2, [%b], 7, 8;"
    relaxed = "fence.acq_rel.gpu; st.relaxed.sys.global.u32 [%b], 1;"
    _, unordered = forwarded(NOT_NATIVE, relaxed, acquired, 1)
    assert {one.address for one in unordered} == {"'data'+0 on GPU 2"}


@pytest.mark.parametrize(("tear", "expected"), [(False, {1}), (True, {0, 1})])
def test_a_vector_is_whole_also_for_who_has_seen_one_element_by_an_rmw(tear: bool, expected: set[int]) -> None:
    """An RMW reads the newest flag, which its GPU may not have come to see yet; a load of both is no older."""
    texts = [
        "nanosleep.u32 3000; st.volatile.global.v2.u32 [%a], {1, 1}; ret;",
        "LOOK: atom.relaxed.sys.global.or.b32 %r1, [%a+4], 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra LOOK;"
        " ld.volatile.global.v2.u32 {%r2, %r3}, [%a]; st.global.u32 [%b], %r2; ret;",
    ]
    kernels = [ptx_program(text, "random").kernel("k") for text in texts]
    data = set()
    for seed in range(60):
        with EmulatedMachine.open(NATIVE, [0, 1], seed, "random", tear=tear) as machine:
            words, seen = machine.alloc(on_device(1), 8, "words"), machine.alloc(on_device(1), 4, "seen")
            launches = [Launch(gpu, kernel, 1, 1, (words, seen)) for gpu, kernel in enumerate(kernels)]
            assert machine.run(launches, 0.01).finished
            data.add(int(seen.read(np.uint32)[0]))
    assert data == expected
