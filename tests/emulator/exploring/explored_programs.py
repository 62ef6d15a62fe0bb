"""Kernels that are explored to the end, whole and with one link removed, beside what must be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pcietool import data
from pcietool.emulator.exploring.explore import MAX_STATES, KernelExploration
from pcietool.machines.base import Argument, Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.protocol.slots import SlotMap

SOURCES = Path(__file__).parent / "explored"
Outcome = tuple[int, ...]
Edit = tuple[str, str]
"""(text whose last occurrence in the source is meant, what stands there instead)."""


@dataclass(frozen=True)
class Case:
    """`edit` removes one link; then an outcome is `broken`. Without one, none is."""

    name: str
    explore: Callable[[Edit | None], KernelExploration]
    broken: Callable[[Outcome], bool]
    edit: Edit | None = None


def edited(text: str, edit: Edit | None) -> str:
    if edit is None:
        return text
    before, after = edit
    assert before in text
    return after.join(text.rsplit(before, 1))


def barrier(edit: Edit | None, rounds: int = 2) -> KernelExploration:
    """Two GPUs, two threads each: one signals and waits, the other writes and reads."""
    text = data.kernel_source("barrier.cu") + (SOURCES / "barrier_payload.cu").read_text()
    with EmulatedMachine.open("h200-nvlink2", [0, 1]) as machine:
        program = machine.load_text("barrier_payload.cu", edited(text, edit))
        slots = [machine.alloc(on_device(rank), SlotMap(2, 2).nbytes, f"slots of rank {rank}") for rank in range(2)]
        words = [machine.alloc(on_device(rank), 4, f"data of rank {rank}") for rank in range(2)]
        launches, seen = [], []
        for rank in range(2):
            tables = [machine.alloc(on_device(rank), 16, f"{name} table") for name in ("slot", "data")]
            for table, buffers in zip(tables, (slots, words), strict=True):
                table.write(np.array([buffer.address for buffer in buffers], np.uint64))
            local = machine.alloc(on_device(rank), 16, "arrival counters")
            seen.append(machine.alloc(on_device(rank), 8 * rounds, "what was seen"))
            arguments: tuple[Argument, ...] = (*tables, rank, rounds, local, seen[rank])
            launches.append(Launch(rank, program.kernel("barrier_payload"), 1, 2, arguments))
        # A rank writes its own part of what was seen, behind the other's.
        return machine.explore(launches, [(buffer, np.uint32, 2 * rounds) for buffer in seen])


def barrier_missed(outcome: Outcome, rounds: int = 2) -> bool:
    """Whether a rank found the other's word as it was before the round. A later value is right: it may be ahead."""
    found = outcome[:rounds] + outcome[3 * rounds :]
    return any(value < 1 + index % rounds for index, value in enumerate(found))


def election(
    edit: Edit | None, producers: int = 3, consumers: int = 3, max_states: int = MAX_STATES
) -> KernelExploration:
    """Blocks of one thread: producers on GPU 0, consumers on GPU 1."""
    with EmulatedMachine.open("h200-nvlink2", [0, 1]) as machine:
        text = edited((SOURCES / "election.cu").read_text(), edit)
        program = machine.load_text("election.cu", text)
        parts = machine.alloc(on_device(0), 4 * producers, "parts")
        arrivals = machine.alloc(on_device(0), 4, "arrivals")
        slot = machine.alloc(on_device(1), 4, "slot")
        seen = machine.alloc(on_device(1), 4 * consumers, "what was seen")
        launches = [
            Launch(0, program.kernel("produce"), producers, 1, (parts, arrivals, slot)),
            Launch(1, program.kernel("consume"), consumers, 1, (parts, producers, slot, seen)),
        ]
        return machine.explore(launches, [(seen, np.uint32, consumers)], max_states)


def parts_missed(outcome: Outcome) -> bool:
    return any(parts < 3 for parts in outcome)


def small_election(edit: Edit | None) -> KernelExploration:
    """A broken one: two of each show it."""
    return election(edit, 2, 2)


def small_parts_missed(outcome: Outcome) -> bool:
    return any(parts < 2 for parts in outcome)


SIGNAL = "        signal_slot(exchange.theirs, sequence);"
WAIT = "using Wait = AcquireSys;"
ARRIVAL = "atomic_inc_acq_rel_gpu(arrivals, gridDim.x - 1)"
FLAG = "signal_slot(slot, 1)"

WHOLE = (
    Case("barrier", barrier, barrier_missed),
    Case("election of 3 blocks, 3 consumers", election, parts_missed),
)
LINK_REMOVED = tuple(
    Case(f"barrier: {name}", barrier, barrier_missed, edit)
    for name, edit in (
        ("relaxed signal", (SIGNAL, SIGNAL.replace("signal_slot", "store_relaxed_sys"))),
        ("signal of gpu scope", (SIGNAL, SIGNAL.replace("signal_slot", "store_release_gpu"))),
        ("relaxed wait", (WAIT, "using Wait = RelaxedSys;")),
        ("wait of gpu scope", (WAIT, "using Wait = AcquireGpu;")),
        ("no block sync before", ("sync_block();  // before the round", "")),
        ("no block sync after", ("sync_block();  // after the round", "")),
    )
) + tuple(
    Case(f"election: {name}", small_election, small_parts_missed, edit)
    for name, edit in (
        ("relaxed arrival", (ARRIVAL, "atomicInc(arrivals, gridDim.x - 1)")),
        ("relaxed flag", (FLAG, "store_relaxed_sys(slot, 1)")),
        ("flag of gpu scope", (FLAG, "store_release_gpu(slot, 1)")),
        ("relaxed wait", ("<AcquireSys>", "<RelaxedSys>")),
    )
)
