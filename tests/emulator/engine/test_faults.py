"""What each fault does to single loads, stores, atomics and fences; the healthy fabric is the control."""

from typing import Any, get_args

import numpy as np
import pytest

from pcietool.contract.outcomes import Outcome
from pcietool.emulator.fabric import fault_spec
from pcietool.emulator.fabric.defects import DEFECTS
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import Words, ptx_program

HEALTHY = "pcie5-switch4"
ALL_ONES = 0xFFFFFFFF
STORE = "st.relaxed.sys.global.u32 [%a], 7;"


def run(
    fabric: str, body: str, *, writer: int = 0, owner: int = 1, words: int = 1, deadline_s: float = 0.01, **options: Any
) -> tuple[Outcome, Words, Words]:
    """Runs `body` on one thread of a GPU with %a the address of words of another one, 5 each, and %b that of two words
    of its own. Returns the outcome, the owner's words and the writer's."""
    with EmulatedMachine.open(fabric, **options) as machine:
        far = machine.alloc(on_device(owner), 4 * words, "far")
        far.write(np.full(words, 5, np.uint32))
        near = machine.alloc(on_device(writer), 8, "near")
        kernel = ptx_program(f"{body} ret;").kernel("k")
        outcome = machine.run([Launch(writer, kernel, 1, 1, (far, near))], deadline_s)
        return outcome, far.read(np.uint32), near.read(np.uint32)


WRITE_AND_READ_BACK = f"{STORE} fence.acq_rel.sys; ld.relaxed.sys.global.u32 %r1, [%a]; st.global.u32 [%b], %r1;"
SEEN = {
    # fabric: (what the owner has, what the writer reads back)
    HEALTHY: (7, 7),
    "faulty/private-mirror": (5, 7),
    "faulty/dead-direction": (5, 5),
    "faulty/all-ones-reads": (7, ALL_ONES),
    "faulty/relaxed-ordering": (7, 7),
    "faulty/slow-link": (7, 7),
}


@pytest.mark.parametrize("fabric", SEEN)
def test_what_owner_and_writer_see(fabric: str) -> None:
    outcome, far, near = run(fabric, WRITE_AND_READ_BACK)
    assert outcome.finished
    assert (far[0], near[0]) == SEEN[fabric]


@pytest.mark.parametrize("fabric", ["faulty/dead-direction", "faulty/all-ones-reads"])
def test_other_directions_and_gpus_work(fabric: str) -> None:
    writer, owner = (1, 0) if fabric == "faulty/dead-direction" else (2, 3)
    _, far, near = run(fabric, WRITE_AND_READ_BACK, writer=writer, owner=owner)
    assert (far[0], near[0]) == (7, 7)


LOOP = "mov.u32 %r1, 0; A: {}; add.u32 %r1, %r1, 1; add.u64 %a, %a, 4; setp.lt.u32 %p1, %r1, 400; @%p1 bra A; {}"


def test_a_dropped_write_is_lost_and_hangs_no_fence() -> None:
    body = LOOP.format("st.relaxed.sys.global.u32 [%a], 7", "fence.acq_rel.sys; st.global.u32 [%b], 1;")
    outcome, far, near = run("faulty/dropped-writes", body, words=400)
    assert outcome.finished
    assert near[0] == 1
    lost = int((far == 5).sum())
    assert 5 <= lost <= 45, "one in 20"
    again = run("faulty/dropped-writes", body, words=400)[1]
    other = run("faulty/dropped-writes", body, words=400, seed=1)[1]
    assert (again == far).all()
    assert (other != far).any()
    assert (run(HEALTHY, body, words=400)[1] == 7).all()


@pytest.mark.parametrize("pause", ["", "nanosleep.u32 200;"])
def test_stores_beyond_a_size_are_corrupted_unless_they_pause(pause: str) -> None:
    body = LOOP.format(f"{pause} st.relaxed.sys.global.u32 [%a], 8", "")
    _, far, _ = run("faulty/corrupt-beyond", body, words=400)
    if pause:
        assert (far == 8).all()
    else:
        assert (far[:128] == 8).all(), "512 bytes"
        assert (far[128:] == 9).all()


BULK = """.reg .b32 %s; mov.u32 %s, shared; st.shared.u32 [shared+{last}], 8; fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], {nbytes}; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;"""


@pytest.mark.parametrize(("nbytes", "first_word"), [(512, 0), (528, 1)])
def test_a_bulk_copy_that_is_too_long_is_corrupted(nbytes: int, first_word: int) -> None:
    body = f".shared .align 16 .b8 shared[528]; {BULK.format(last=nbytes - 4, nbytes=nbytes)}"
    outcome, far, _ = run("faulty/corrupt-beyond", body, words=132)
    assert outcome.finished
    assert far[0] == first_word
    assert far[nbytes // 4 - 1] == 8


ATOMIC = "atom.sys.global.add.u32 %r1, [%a], 1; st.global.u32 [%b], %r1;"
ATOMICS = {
    # fabric: (the word afterwards, the value returned)
    HEALTHY: (6, 5),
    "faulty/private-mirror": (5, 5),
    "faulty/dead-direction": (5, 5),
    "faulty/all-ones-reads": (5, ALL_ONES),
}


@pytest.mark.parametrize("fabric", ATOMICS)
def test_atomics_meet_the_same_faults(fabric: str) -> None:
    _, far, near = run(fabric, ATOMIC)
    assert (far[0], near[0]) == ATOMICS[fabric]


STUCK = {
    "a read": ("ld.relaxed.sys.global.u32 %r1, [%a]; st.global.u32 [%b], %r1;", "waits for an answer"),
    "a fence behind a store": (f"{STORE} fence.acq_rel.sys;", "waits for an answer"),
    "an atomic": (ATOMIC, "waits for an answer"),
    "a store": (STORE, "its store to 'far'+0 on GPU 1 never lands"),
}
LATER = "nanosleep.u32 200000;"


@pytest.mark.parametrize("what", STUCK)
def test_what_waits_for_a_stuck_link_is_a_hang_that_names_thread_and_link(what: str) -> None:
    body, words = STUCK[what]
    hang = run("faulty/stuck-link", LATER + body)[0].hang
    assert hang is not None
    assert hang.limit == "host join timeout"
    blocked = hang.proof[0]
    assert (blocked.device, blocked.block, blocked.thread) == (0, 0, 0)
    assert blocked.address.startswith(words)
    assert "the link between GPU 0 and GPU 1, stuck since 100 µs" in blocked.address
    assert "PTX line" in blocked.source
    assert run("faulty/stuck-link", LATER + body, owner=2)[0].finished
    assert run("faulty/stuck-link", body)[0].finished, "not stuck yet"


def message_passing(fabric: str, publish: str, seed: int) -> int:
    """What the owner sees of weakly stored data behind a flag."""
    send = ptx_program(f"st.global.u32 [%a], 7; {publish}.sys.global.u32 [%b], 1; ret;").kernel("k")
    wait = ptx_program(
        "A: ld.acquire.sys.global.u32 %r1, [%b]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A;"
        "ld.global.u32 %r2, [%a]; st.global.u32 [%a+4], %r2; ret;"
    ).kernel("k")
    with EmulatedMachine.open(fabric, [0, 1], seed) as machine:
        data, flag = (machine.alloc(on_device(1), 8, name) for name in ("data", "flag"))
        launches = [Launch(0, send, 1, 1, (data, flag)), Launch(1, wait, 1, 1, (data, flag))]
        assert machine.run(launches, 0.01).finished
        return int(data.read(np.uint32)[1])


@pytest.mark.parametrize(
    ("fabric", "publish", "seen"),
    [
        (HEALTHY, "st.relaxed", {7}),
        ("faulty/relaxed-ordering", "st.relaxed", {0}),
        ("faulty/relaxed-ordering", "st.release", {7}),
    ],
)
def test_a_flag_overtakes_data_that_no_release_orders(fabric: str, publish: str, seen: set[int]) -> None:
    assert {message_passing(fabric, publish, seed) for seed in range(5)} == seen


def test_a_slow_link_is_slow_both_ways_and_alone() -> None:
    def elapsed(fabric: str, writer: int, owner: int) -> float:
        return run(fabric, WRITE_AND_READ_BACK, writer=writer, owner=owner)[0].elapsed_ns[writer]

    healthy = elapsed(HEALTHY, 0, 1)
    assert elapsed("faulty/slow-link", 0, 1) > 50 * healthy
    assert elapsed("faulty/slow-link", 1, 0) > 50 * healthy
    assert elapsed("faulty/slow-link", 0, 2) < 2 * healthy


@pytest.mark.parametrize(("fabric", "arrives"), [(HEALTHY, True), ("faulty/dead-direction", False)])
def test_copies_meet_the_same_faults(fabric: str, arrives: bool) -> None:
    with EmulatedMachine.open(fabric) as machine:
        near, far = (machine.alloc(on_device(gpu), 16, "buffer") for gpu in (0, 1))
        near.fill(3)
        assert machine.copy(far, near, 16, "copy engine") > 0
        assert bool((far.read() == 3).all()) is arrives


def test_every_fault_that_a_file_can_name_has_its_defect() -> None:
    assert set(get_args(fault_spec.Fault)) == DEFECTS.keys()
    for fault, defect in DEFECTS.items():
        assert fault.__name__ == defect.__name__


@pytest.mark.parametrize("fabric", ["faulty/slow-link", "faulty/corrupt-beyond", "faulty/stuck-link"])
def test_a_fault_without_an_override_is_the_healthy_machine(fabric: str) -> None:
    """Between GPUs 2 and 3, or in a short message, there is nothing that any of these changes."""
    faulty, healthy = (run(name, WRITE_AND_READ_BACK, writer=2, owner=3) for name in (fabric, HEALTHY))
    assert faulty[0] == healthy[0]
    assert [words.tolist() for words in faulty[1:]] == [words.tolist() for words in healthy[1:]]
