"""What the emulator shows in timing and in random order of random kernels must be among what exploring finds.

PCIETOOL_DIFFERENTIAL_KERNELS and PCIETOOL_DIFFERENTIAL_SEEDS set how many kernels, and seeds of random order of each.
"""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
import pytest

from pcietool.emulator.engine.variants import OrderName
from pcietool.emulator.fabric.fabric import load_fabric
from pcietool.machines.base import HOST, Buffer, Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.machines.emulated.program import EmulatedProgram
from tests.differential.random_kernels import RESULTS, WORD_BYTES, WORDS, RandomKernel, random_kernel

KERNELS = int(os.environ.get("PCIETOOL_DIFFERENTIAL_KERNELS", "2000"))
SEEDS = int(os.environ.get("PCIETOOL_DIFFERENTIAL_SEEDS", "3"))
RUNS: list[tuple[OrderName, int]] = [("timing", 0), *(("random", seed) for seed in range(SEEDS))]
PARTS = 8
MAX_STATES = 50_000
DEADLINE_S = 0.01
Outcome = tuple[int, ...]


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_runs_is_among_what_is_explored(part: int) -> None:
    undecided = 0
    kernels = range(part, KERNELS, PARTS)
    for number in kernels:
        kernel = random_kernel(number)
        possible = _explored(kernel)
        undecided += possible is None
        for order, seed in RUNS:
            seen = _ran(kernel, order, seed)
            assert possible is None or seen in possible, f"kernel {number}, {order} order, seed {seed}: {seen}"
    assert undecided <= len(kernels) / 50


def _explored(kernel: RandomKernel) -> set[Outcome] | None:
    """All outcomes; None if there are too many states."""
    with _machine(kernel, "timing", 0) as machine:
        launches, observed = _launches(machine, kernel)
        found = machine.explore(launches, [(one, np.uint64, one.nbytes // 8) for one in observed], MAX_STATES)
    assert found.hung == 0
    return set(found.outcomes) if found.complete else None


def _ran(kernel: RandomKernel, order: OrderName, seed: int) -> Outcome:
    with _machine(kernel, order, seed) as machine:
        launches, observed = _launches(machine, kernel)
        assert machine.run(launches, DEADLINE_S).finished
        return tuple(value for one in observed for value in one.read(np.uint64).tolist())


def _machine(kernel: RandomKernel, order: OrderName, seed: int) -> EmulatedMachine:
    return EmulatedMachine(load_fabric(kernel.fabric), range(2), seed, order)


def _launches(machine: EmulatedMachine, kernel: RandomKernel) -> tuple[list[Launch], list[Buffer]]:
    words = machine.alloc(HOST if kernel.home is None else on_device(kernel.home), WORDS * WORD_BYTES, "words")
    results = machine.alloc(on_device(0), 8 * RESULTS * len(kernel.places), "results")
    launches = []
    for gpu, text in kernel.ptx.items():
        program = _program(text, machine.order)
        launches.append(Launch(gpu, program.kernel("k"), kernel.blocks[gpu], kernel.lanes[gpu], (words, results)))
    return launches, [words, results]


@lru_cache(maxsize=8)
def _program(text: str, order: OrderName) -> EmulatedProgram:
    return EmulatedProgram("random.ptx", {}, text, order)
