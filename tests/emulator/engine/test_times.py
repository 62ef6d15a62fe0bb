"""Times that follow from the figures of the fabric, by arithmetic."""

from pathlib import Path

import numpy as np
import pytest

from pcietool.emulator.fabric.fabric import Fabric, load_fabric
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program, run_ptx


def elapsed_ns(machine: EmulatedMachine, body: str, threads: int) -> float:
    words = machine.alloc(on_device(0), 4096, "words"), machine.alloc(on_device(0), 4096, "out")
    outcome = machine.run([Launch(0, ptx_program(body).kernel("k"), 1, threads, words)], 0.01)
    assert outcome.finished
    return outcome.elapsed_ns[0]


def test_the_timer_goes_in_steps(emulated: EmulatedMachine) -> None:
    body = """mov.u32 %r2, 0; A: nanosleep.u32 7; mov.u64 %rd2, %globaltimer; st.global.u64 [%b], %rd2;
        add.s64 %b, %b, 8; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 40; @%p1 bra A; ret;"""
    times = run_ptx(emulated, body, outputs=80).view(np.uint64)
    step = int(emulated.spec.gpu.timer_step_ns.value)
    assert step == 32
    assert not np.any(times % np.uint64(step))
    assert set(np.diff(times).tolist()) == {0, step}


@pytest.mark.parametrize("fabric", ["pcie5-switch4", "h200-nvlink2"])
def test_rmws_on_one_word_are_served_one_after_the_other(fabric: str) -> None:
    """The L2 is busy with each; on words of their own they are not in each other's way."""
    one_word = "atom.relaxed.gpu.global.add.u32 %r1, [%a], 1; ret;"
    own_words = "mov.u32 %r2, %tid.x; mul.wide.u32 %rd1, %r2, 4; add.s64 %a, %a, %rd1;" + one_word
    with EmulatedMachine.open(fabric) as machine:
        few, many = (elapsed_ns(machine, one_word, threads) for threads in (64, 512))
        assert many - few == pytest.approx(448 * machine.spec.gpu.l2_atomic_ns.value)
        assert elapsed_ns(machine, own_words, 512) == pytest.approx(elapsed_ns(machine, own_words, 64))


SIGNALLED = """mov.u32 %r2, %ctaid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra WRITER;
    mov.u64 %rd1, %globaltimer;
    LOOK: nanosleep.u32 5000; ld.relaxed.gpu.global.u32 %r1, [%a]; setp.eq.u32 %p2, %r1, 0; @%p2 bra LOOK;
    mov.u64 %rd2, %globaltimer; sub.s64 %rd2, %rd2, %rd1; st.global.u64 [%b], %rd2; ret;
    WRITER: nanosleep.u32 {late}; st.relaxed.gpu.global.u32 [%a], 1; ret;"""


def seen_at(machine: EmulatedMachine, late: int) -> int:
    """After how many ns a block that looks every 5 us sees what another one stores `late` ns after it began."""
    return int(run_ptx(machine, SIGNALLED.format(late=late), outputs=2, grid=2).view(np.uint64)[0])


def test_who_sleeps_between_looks_sees_a_change_at_its_next_look(emulated: EmulatedMachine) -> None:
    """However long it was not looked at while nothing changed."""
    gpu = emulated.spec.gpu
    period = 5000 + gpu.l2_round_trip_ns.value + gpu.issue_ns.value
    for late, turns in ((42_000, 9), (45_000, 9), (47_000, 10)):
        assert seen_at(emulated, late) == pytest.approx(turns * period, abs=gpu.timer_step_ns.value)


def test_a_port_is_shared_by_what_leaves_or_enters_it_and_by_nobody_else() -> None:
    """A sender waits for its own port; what others send to the same GPU delays only the arrival."""

    def fabric() -> Fabric:
        return Fabric(load_fabric("pcie5-switch4"), 0)

    busy = fabric()
    busy.routes[0, 2].write(0.0, 1 << 20, coalesced=True)
    assert busy.routes[0, 1].stall(0.0) > 0
    assert busy.routes[1, 2].stall(0.0) == 0
    arrives = fabric().routes[1, 2].write(0.0, 64, coalesced=True)
    assert busy.routes[1, 2].write(0.0, 64, coalesced=True) > 10 * arrives
    assert busy.routes[2, 0].write(0.0, 64, coalesced=True) == pytest.approx(arrives, rel=0.2)


def test_an_atomic_that_returns_takes_a_round_trip_to_the_l2(emulated: EmulatedMachine) -> None:
    atomic = "atom.relaxed.gpu.global.add.u32 %r1, [%a], %r1; "
    round_trip_ns = emulated.spec.gpu.l2_round_trip_ns.value
    times_ns = [elapsed_ns(emulated, f"{atomic * count} ret;", 1) for count in range(1, 6)]
    assert times_ns == pytest.approx([count * round_trip_ns for count in range(1, 6)])


def test_a_system_fence_behind_a_store_waits_for_its_acknowledgement(tmp_path: Path) -> None:
    far = tmp_path / "far.toml"
    figure = '{{ value = {}, source = "assumed" }}'
    far.write_text(
        'schema = "pcietool.fabric/1"\nname = "far"\nbase = "h200-nvlink2"\n[peer]\njitter = 0.0\n'
        f"write_latency_ns = {figure.format(30_000)}\nacknowledge_ns = {figure.format(100_000)}\n"
    )
    with EmulatedMachine.open(str(far)) as machine:
        words = machine.alloc(on_device(1), 64, "far"), machine.alloc(on_device(0), 64, "near")
        kernel = ptx_program("st.relaxed.sys.global.u32 [%a], 1; fence.sc.sys; ret;").kernel("k")
        outcome = machine.run([Launch(0, kernel, 1, 1, words)], 0.01)
    assert outcome.elapsed_ns[0] == pytest.approx(100_000, rel=0.01)
