"""Whole rounds of the real barrier kernel: hangs, residency, determinism."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcietool.contract.outcomes import Outcome
from pcietool.errors import UsageError
from pcietool.machines.base import HOST, Buffer, Launch, Machine, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.barrier.kernel import DIE, INJECTION, NO_INJECTION, RANKS
from pcietool.probes.common.structs import struct_of
from pcietool.protocol import watch
from pcietool.protocol.watch import POLL_LIMIT
from tests.emulator.emulated_programs import ptx_program

ROUNDS = 6
STRIDE = 128


class Round:
    """One grid a GPU of kernels/barrier.cu, slots in the owner's memory."""

    def __init__(self, machine: Machine, ranks: int, order: int = 0, blocks: int = 1, rounds: int = ROUNDS) -> None:
        self.machine = machine
        self.ranks = range(ranks)
        self.rounds = rounds
        self.blocks = blocks
        self.kernel = machine.load("barrier.cu", {"ORDER": order, "BLOCKS": blocks, "INJECT": 1}).kernel(
            "barrier_rounds"
        )
        self.slots = [
            machine.alloc(on_device(rank), 2 * ranks * STRIDE, f"slots of rank {rank}") for rank in self.ranks
        ]
        self.buffers: dict[int, tuple[Buffer, ...]] = {}
        for rank in self.ranks:
            table = machine.alloc(on_device(rank), 8 * ranks, "table")
            table.write(np.array([slot.address for slot in self.slots], np.uint64))
            sizes = (4 * ranks, 8 * ranks, 4 * ranks * (rounds + 1), 16 * ranks * blocks)
            self.buffers[rank] = (table, *(machine.alloc(on_device(rank), size, "state") for size in sizes))

    def launches(
        self, dead_rank: int | None = None, beyond_residency: bool = False, shared: int | None = None
    ) -> list[Launch]:
        kind, dead = (NO_INJECTION, 0) if dead_rank is None else (DIE, dead_rank)
        injection = struct_of(INJECTION, kind=kind, rank=dead, round=1, delay_ns=0)
        launches = []
        for rank, (table, base, local, stamps, spans) in self.buffers.items():
            own = struct_of(RANKS, slots=table, base=base, local=local, first_rank=rank, world=len(self.ranks))
            arguments = (own, self.rounds, stamps, spans, injection)
            launches.append(
                Launch(rank, self.kernel, self.blocks, 32, arguments, shared or 4 * (self.rounds + 1),
                       beyond_residency=beyond_residency)
            )  # fmt: skip
        return launches

    def run(self, deadline_s: float = 2.0, **options: Any) -> Outcome:
        return self.machine.run(self.launches(**options), deadline_s)

    def memory(self) -> list[bytes]:
        """Slots and sequence numbers: what does not depend on time."""
        return [buffer.read().tobytes() for buffer in (*self.slots, *(state[1] for state in self.buffers.values()))]


@pytest.mark.parametrize("order", range(4))
def test_a_dead_rank_is_proved_and_its_records_are_those_of_the_kernel(emulated: EmulatedMachine, order: int) -> None:
    barrier = Round(emulated, 4, order)
    outcome = barrier.run(dead_rank=2)
    hang = outcome.hang
    assert hang is not None
    assert hang.limit == "device deadline"
    missing = {
        (r.rank, r.row, r.col, r.wanted, r.got, r.round, r.block, r.thread)
        for r in hang.records
        if r.reason == "deadline" and r.col == 2
    }
    assert missing == {(rank, 1, 2, 1, 0, 1, 0, 2) for rank in (0, 1, 3)}
    assert all(2e9 <= r.since_entry_ns < 2.1e9 for r in hang.records), "virtual time went on to the deadline"
    slot_waits = {w.device: w for w in hang.proof if "slots of rank" in w.address}
    assert set(slot_waits) == {0, 1, 3}
    for rank, wait in slot_waits.items():
        assert (wait.block, wait.thread, wait.value, wait.last_writer) == (0, 2, 0, None)
        assert f"'slots of rank {rank}'+{(4 + 2) * STRIDE}" in wait.address
        assert "slots.cuh:" in wait.source or "barrier.cu:" in wait.source


def test_the_living_finish_and_prove_nothing(emulated: EmulatedMachine) -> None:
    """Negative control, and the machine works on after a hang."""
    barrier = Round(emulated, 4)
    assert barrier.run(dead_rank=1).hang is not None
    barrier = Round(emulated, 4)
    outcome = barrier.run()
    assert outcome.finished
    assert all(state[1].read(np.uint32)[rank] == ROUNDS for rank, state in barrier.buffers.items())


WAIT = """
#include "slots.cuh"
extern "C" __global__ void sleeps(u64 ns) {
    const u64 begun = timer_ns();
    while (timer_ns() - begun < ns) __nanosleep(1000000);
}
extern "C" __global__ void waits(Watch* watch, u32* slot) {
    wait_slot<AcquireSys>(slot, 9, deadline_from(watch), 0, 1, 2, 5);
}
"""


@pytest.mark.parametrize(
    ("poll_limit", "at_least_ns", "below_ns"), [(POLL_LIMIT, 1e8, 1.1e8), (64, 0, 1e6)], ids=["deadline", "poll limit"]
)
def test_a_wait_ends_by_its_deadline_or_its_poll_limit(
    emulated: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, poll_limit: int, at_least_ns: float, below_ns: float
) -> None:
    """Time counts from the entry of the kernel, which here starts 50 ms after the round; the limit is for a timer that
    stands still."""
    monkeypatch.setattr(watch, "POLL_LIMIT", poll_limit)
    program = emulated.load_text("waits.cu", WAIT)
    slot = emulated.alloc(on_device(0), STRIDE, "slot")
    slot.write(np.full(1, 3, np.uint32))
    sleeps = Launch(0, program.kernel("sleeps"), 1, 1, (50_000_000,))
    hang = emulated.run([sleeps, Launch(0, program.kernel("waits"), 1, 1, (slot,))], 0.1).hang
    assert hang is not None
    (record,) = hang.records
    assert (record.reason, record.row, record.col, record.wanted, record.got) == ("deadline", 1, 2, 9, 3)
    assert at_least_ns <= record.since_entry_ns < below_ns


HALF = 100 * 1024  # bytes of shared memory: two blocks an SM


def test_a_grid_beyond_residency_is_refused(emulated: EmulatedMachine) -> None:
    room = emulated.resident_blocks(0, Round(emulated, 2).kernel, 32, HALF)
    assert room == 2 * emulated.devices[0].sms
    with pytest.raises(UsageError, match=f"{room + 1} blocks of 32 threads .* holds only {room}"):
        Round(emulated, 2, blocks=room + 1).run(shared=HALF)


@pytest.mark.parametrize(("more", "blocks"), [(0, 2), (16, 1)])
def test_an_sm_has_228_kib_of_shared_memory_unless_the_fabric_says_otherwise(
    emulated: EmulatedMachine, more: int, blocks: int
) -> None:
    each = 228 * 1024 // 2 + more
    room = emulated.resident_blocks(0, Round(emulated, 2).kernel, 32, each)
    assert room == blocks * emulated.devices[0].sms


def test_a_grid_beyond_residency_starves(emulated: EmulatedMachine) -> None:
    room = emulated.devices[0].sms  # of blocks that take a whole SM
    whole = 200 * 1024
    outcome = Round(emulated, 2, blocks=room + 1, rounds=1).run(0.001, shared=whole, beyond_residency=True)
    assert outcome.hang is not None
    assert outcome.hang.records
    assert outcome.hang.proof


def test_a_grid_that_just_fits_does_not_starve(emulated: EmulatedMachine) -> None:
    """Negative control."""
    room = emulated.devices[0].sms
    assert Round(emulated, 2, blocks=room, rounds=1).run(0.01, shared=200 * 1024).finished


def rounds_of(seed: int, order: int = 0) -> tuple[list[bytes], tuple[object, ...]]:
    with EmulatedMachine.open("pcie5-switch4", seed=seed) as machine:
        barrier = Round(machine, 4, order)
        outcomes = [barrier.run() for _ in range(2)]
        stamps = [state[3].read(np.uint32).tobytes() for state in barrier.buffers.values()]
        return barrier.memory(), ([outcome.elapsed_ns for outcome in outcomes], stamps)


@pytest.mark.parametrize("order", [0, 3])
def test_a_seed_is_one_run(order: int) -> None:
    memory, times = rounds_of(1, order)
    assert rounds_of(1, order) == (memory, times)
    other_memory, other_times = rounds_of(2, order)
    assert other_memory == memory, "what is right does not depend on the seed"
    assert other_times != times


TWO_WORDS = """
#include "slots.cuh"
// GPU 0 looks at two words in one loop until both are there, and keeps what it saw; GPU 1 writes them one by one.
extern "C" __global__ void two_words(Watch* watch, u32 rank, u32* words, u32 first, u32 pause_ns, u32* seen) {
    const Deadline deadline = deadline_from(watch);
    if (rank == 1) {
        for (u32 n = 0; n < 2; ++n) {
            __nanosleep(pause_ns);
            store_relaxed_sys(words + (n == first ? 0 : 64), n == first ? 7 : 5);
        }
        return;
    }
    u32 a = 0, b = 0;
    for (u32 polls = 1; !a || !b; ++polls) {
        a = load_relaxed_sys(words);
        b = load_relaxed_sys(words + 64);
        if (polls % 64 == 0 && out_of_time(deadline, polls)) break;
    }
    seen[0] = a;
    seen[1] = b;
}
"""


@pytest.mark.parametrize("pause_ns", [100, 900, 20_000])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("home", [0, -1], ids=["local", "host"])
def test_a_loop_that_polls_two_words_sees_each_with_its_own_value(
    emulated: EmulatedMachine, first: int, pause_ns: int, home: int
) -> None:
    kernel = emulated.load_text(f"two_words{first}{pause_ns}{home}.cu", TWO_WORDS).kernel("two_words")
    words = emulated.alloc(on_device(0) if home == 0 else HOST, 512, "words")
    seen = emulated.alloc(on_device(0), 8, "seen")
    launches = [Launch(gpu, kernel, 1, 1, (gpu, words, first, pause_ns, seen)) for gpu in (0, 1)]
    outcome = emulated.run(launches, 1.0)
    assert outcome.finished
    assert list(seen.read(np.uint32)) == [7, 5]
    assert outcome.elapsed_ns[0] < 2 * pause_ns + 10_000


MEET = """red.relaxed.gpu.global.add.u32 [%a], 1;
    LOOK: ld.relaxed.gpu.global.u32 %r1, [%a]; setp.lt.u32 %p1, %r1, {blocks}; @%p1 bra LOOK; ret;"""


@pytest.mark.parametrize(("threads", "blocks", "ends"), [(33, 2, True), (33, 3, False), (32, 4, True), (32, 5, False)])
def test_threads_of_resident_blocks_take_whole_warps(tmp_path: Path, threads: int, blocks: int, ends: bool) -> None:
    """On two SMs for 64 threads each: blocks that wait for others that find no room hang."""
    small = tmp_path / "small.toml"
    small.write_text(
        'schema = "pcietool.fabric/1"\nname = "small"\nbase = "h200-nvlink2"\n[gpu]\nsms = 2\nthreads_per_sm = 64\n'
    )
    with EmulatedMachine.open(str(small)) as machine:
        words = machine.alloc(on_device(0), 64, "a"), machine.alloc(on_device(0), 64, "b")
        kernel = ptx_program(MEET.format(blocks=blocks * threads)).kernel("k")
        outcome = machine.run([Launch(0, kernel, blocks, threads, words, beyond_residency=True)], 0.001)
    assert outcome.finished is ends
