"""Launches of one GPU in several streams: at the same time, beside each other on its SMs, and nothing orders them."""

from dataclasses import replace

import numpy as np
import pytest

from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program

# %a: the word that one stores and the other waits for
WAITS = "A: ld.relaxed.gpu.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; st.global.u32 [%b], 7; ret;"
STORES = "nanosleep.u32 5000; st.relaxed.gpu.global.u32 [%a], 1; ret;"
WHOLE = 200 * 1024
"""Shared memory that fills an SM."""


def launches(machine: EmulatedMachine, first: int, second: int, grid: int = 1, shared: int = 0) -> list[Launch]:
    """What waits, and then what it waits for."""
    words = machine.alloc(on_device(0), 64, "flag"), machine.alloc(on_device(0), 64, "out")
    waits, stores = (ptx_program(body, machine.order).kernel("k") for body in (WAITS, STORES))
    return [
        Launch(0, waits, grid, 1, words, shared, stream=first),
        Launch(0, stores, 1, 1, words, shared, stream=second),
    ]


def test_streams_run_at_once(emulated: EmulatedMachine) -> None:
    assert emulated.run(launches(emulated, 0, 1), 0.01).finished
    assert emulated.run(launches(emulated, 2, 1), 0.01).finished


def test_one_stream_runs_in_order(emulated: EmulatedMachine) -> None:
    """Negative control."""
    hang = emulated.run(launches(emulated, 1, 1), 0.01).hang
    assert hang is not None
    assert [(one.block, one.address) for one in hang.proof] == [(0, "'flag'+0 on GPU 0")]
    assert emulated.run(launches(emulated, 0, 1), 0.01).finished, "nothing is left over"


def test_places_are_shared(emulated: EmulatedMachine) -> None:
    """A grid that fills the GPU leaves no place for the one that it waits for; one block less does."""
    sms = emulated.devices[0].sms
    waits, stores = launches(emulated, 0, 1, sms, WHOLE)
    before = replace(stores, kernel=ptx_program("nanosleep.u32 9000; ret;").kernel("k"), shared=0)
    hang = emulated.run([waits, before, stores], 1e-4).hang
    assert hang is not None
    assert any("hold all places that 1 others wait for" in one.address for one in hang.proof)
    assert emulated.run([replace(waits, grid=sms - 1), before, stores], 1e-3).finished


def test_a_place_that_becomes_free_goes_to_the_other_stream(emulated: EmulatedMachine) -> None:
    words = emulated.alloc(on_device(0), 64, "flag"), emulated.alloc(on_device(0), 64, "out")
    sleeps, stores = (ptx_program(body).kernel("k") for body in ("nanosleep.u32 9000; ret;", STORES))
    both = [
        Launch(0, sleeps, emulated.devices[0].sms, 1, words, WHOLE, stream=0),
        Launch(0, stores, 1, 1, words, WHOLE, stream=1),
    ]
    assert emulated.run(both, 0.01).finished
    assert words[0].read(np.uint32)[0] == 1


@pytest.mark.parametrize(("streams", "found"), [((0, 1), True), ((3, 3), False)])
def test_nothing_orders_streams(streams: tuple[int, int], found: bool) -> None:
    with EmulatedMachine.open("pcie5-switch4", order="random") as machine:
        words = machine.alloc(on_device(0), 64, "data"), machine.alloc(on_device(0), 64, "out")
        kernels = [
            ptx_program(body, "random").kernel("k")
            for body in ("st.global.u32 [%a], 5; ret;", "ld.global.u32 %r1, [%a]; st.global.u32 [%b], %r1; ret;")
        ]
        both = [Launch(0, kernel, 1, 1, words, stream=stream) for kernel, stream in zip(kernels, streams, strict=True)]
        unordered = machine.run(both, 0.01).unordered
        assert bool(unordered) == found
        assert all(0 <= one.block < 2 for one in unordered)


LETS, AWAITS, STORE = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;", "st.global.u32 [%a], 5;"
SLEEP = "nanosleep.u32 5000;"
LOAD = "ld.global.u32 %r1, [%a]; st.global.u32 [%b], %r1;"


@pytest.mark.parametrize(
    ("first", "second", "overlaps", "seen", "unordered"),
    [
        (f"{LETS} {SLEEP} {STORE}", LOAD, True, 0, True),
        (f"{LETS} {SLEEP} {STORE}", f"{AWAITS} {LOAD}", True, 5, False),
        (f"{LETS} {SLEEP} {STORE}", LOAD, False, 5, False),
        (f"{SLEEP} {STORE} {LETS}", LOAD, True, 5, True),
        (f"{SLEEP} {STORE}", LOAD, True, 5, True),
        (f"{SLEEP} {STORE}", f"{AWAITS} {LOAD}", True, 5, False),
    ],
)
def test_a_launch_that_may_overlap_begins_once_it_is_let(
    first: str, second: str, overlaps: bool, seen: int, unordered: bool
) -> None:
    """In timing order it then sees what is there; in random order nothing orders the two unless it waits."""
    for order in ("timing", "random"):
        with EmulatedMachine.open("pcie5-switch4", order=order) as machine:
            words = machine.alloc(on_device(0), 64, "data"), machine.alloc(on_device(0), 64, "out")
            kernels = [ptx_program(f"{body} ret;", order).kernel("k") for body in (first, second)]
            both = [Launch(0, kernels[0], 1, 1, words), Launch(0, kernels[1], 1, 1, words, overlaps=overlaps)]
            outcome = machine.run(both, 0.01)
            assert outcome.finished
            if order == "timing":
                assert words[1].read(np.uint32)[0] == seen
            else:
                assert bool(outcome.unordered) == unordered


def test_the_third_launch_waits_for_the_first_too(emulated: EmulatedMachine) -> None:
    """Though the one between them has ended; and it begins only when all blocks of that have let it."""
    words = emulated.alloc(on_device(0), 64, "data"), emulated.alloc(on_device(0), 64, "out")
    kernels = [
        ptx_program(f"{body} ret;").kernel("k")
        for body in (f"{LETS} {SLEEP} {SLEEP} {STORE}", LETS, f"{AWAITS} {LOAD}", LOAD)
    ]
    launches = [Launch(0, kernels[0], 1, 1, words)]
    launches += [Launch(0, kernel, 2, 1, words, overlaps=True) for kernel in kernels[1:3]]
    assert emulated.run(launches, 0.01).finished
    assert words[1].read(np.uint32)[0] == 5
    words[0].fill(0)
    assert emulated.run([*launches[:2], Launch(0, kernels[3], 1, 1, words)], 0.01).finished
    assert words[1].read(np.uint32)[0] == 5


def test_who_waits_for_a_launch_that_hangs_is_named(emulated: EmulatedMachine) -> None:
    words = emulated.alloc(on_device(0), 64, "data"), emulated.alloc(on_device(0), 64, "out")
    spin = f"{LETS} A: ld.relaxed.sys.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;"
    kernels = [ptx_program(body).kernel("k") for body in (spin, f"{AWAITS} ret;")]
    hang = emulated.run([Launch(0, kernel, 1, 1, words, overlaps=True) for kernel in kernels], 0.001).hang
    assert hang is not None
    assert any("waits for the launches before it" in one.address for one in hang.proof)


def test_a_launch_ends_when_its_stores_have_arrived(emulated: EmulatedMachine) -> None:
    """It lasts longer by what a store is on its way to another GPU, and the next launch of its stream sees it."""
    out = emulated.alloc(on_device(0), 64, "out")
    stores, reads = (
        ptx_program(body).kernel("k")
        for body in (
            "st.global.u32 [%a], 5; ret;",
            "ld.relaxed.sys.global.u32 %r1, [%a]; st.global.u32 [%b], %r1; ret;",
        )
    )
    times = []
    for home in (0, 1):
        word = emulated.alloc(on_device(home), 64, "word")
        both = [Launch(0, kernel, 1, 1, (word, out)) for kernel in (stores, reads)]
        times.append(emulated.run(both[:1], 0.01).elapsed_ns[0])
        assert emulated.run(both, 0.01).finished
        assert out.read(np.uint32)[0] == 5
    assert times[1] - times[0] > 0.9 * emulated.engine.fabric.routes[0, 1].latency > 0
