"""How fast pcietool itself is. Speed requirements live here, never in timed tests: `./scripts/bench`.

Each benchmark prints its figure beside the requirement and says whether it is met; the exit code is 1 if one is not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pcietool.litmus.text.cuda_source import cuda_source
from pcietool.litmus.text.library import find, load
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.barrier.config import BarrierConfig
from pcietool.probes.barrier.kernel import Barrier
from pcietool.probes.common.world import World
from pcietool.probes.litmus.machine import Trials, homes

REPEATS = 5


@dataclass(frozen=True)
class Benchmark:
    """One figure and the value it has to reach; `at_least` says which side is good."""

    name: str
    measure: Callable[[], float]
    required: float
    unit: str
    at_least: bool
    repeats: int = REPEATS

    def run(self) -> bool:
        figures = [self.measure() for _ in range(self.repeats)]
        best = max(figures) if self.at_least else min(figures)
        good = best >= self.required if self.at_least else best <= self.required
        sign = ">=" if self.at_least else "<="
        spread = f"{min(figures):,.2f} to {max(figures):,.2f}"
        print(
            f"{'ok  ' if good else 'MISS'}  {self.name}: best {best:,.2f} {self.unit}, required {sign}"
            f" {self.required:,.2f} ({self.repeats} runs: {spread})"
        )
        return good


def barrier_rounds_per_second() -> float:
    """8 GPUs x 32 threads, publishing order, all access checks on."""
    rounds = 300
    machine = EmulatedMachine.open("pcie5-switch8")
    world = World.build(machine, "peer", 8, rows=2)
    launches = Barrier(machine, world, "publishing", BarrierConfig()).rounds(rounds)
    start = time.perf_counter()
    machine.run(launches, deadline_s=2.0)
    return rounds / (time.perf_counter() - start)


def explored_states_per_second() -> float:
    """Every execution of four rounds of the barrier kernel between 2 GPUs, each with the two threads that matter."""
    machine = EmulatedMachine.open("pcie5-switch4")
    world = World.build(machine, "peer", 2, rows=2)
    launches = Barrier(machine, world, "publishing", BarrierConfig()).rounds(4)
    start = time.perf_counter()
    found = machine.explore([replace(launch, block=world.size) for launch in launches])
    return found.states / (time.perf_counter() - start)


def litmus_trials_per_second() -> float:
    """Message passing between two GPUs, as `litmus --trials` runs it, in random memory order."""
    trials = 4096
    machine = EmulatedMachine.open(order="random")
    (path,) = find(["mp-release.sys-acquire.sys"])
    test = load(path)
    running = Trials(machine, test, machine.load_text(path.name, cuda_source(test)), homes(test, "peer"), seed=0)
    start = time.perf_counter()
    running.run(trials, deadline_s=2.0)
    return trials / (time.perf_counter() - start)


def seconds_of(*arguments: str) -> Callable[[], float]:
    """Wall time of one whole command, start-up included."""

    def measure() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "pcietool", *arguments], check=False, capture_output=True)
        return time.perf_counter() - start

    return measure


EMULATED = ("--backend", "emulated")
CHECK = ("check", str(Path(__file__).parent / "check_all_reduce.py"), *EMULATED)
BENCHMARKS = (
    Benchmark("emulated barrier, 8 GPUs x 32 threads", barrier_rounds_per_second, 1000, "rounds/s", at_least=True),
    Benchmark("barrier kernel explored", explored_states_per_second, 10_000, "states/s", at_least=True),
    Benchmark("litmus all", seconds_of("litmus", "all"), 20, "s", at_least=False),
    Benchmark("emulated litmus trials", litmus_trials_per_second, 5000, "trials/s", at_least=True),
    Benchmark("barrier-latency emulated", seconds_of("barrier-latency", *EMULATED), 4, "s", at_least=False),
    Benchmark("atomic-loss emulated", seconds_of("atomic-loss", *EMULATED), 4, "s", at_least=False),
    Benchmark(
        "a dead rank proved",
        seconds_of("barrier-latency", *EMULATED, "--inject", "dead-rank", "--transport", "peer"),
        1.5,
        "s with start-up",
        at_least=False,
    ),
    Benchmark("verify, 4 GPUs, emulated", seconds_of("verify", *EMULATED), 60, "s", at_least=False, repeats=1),
    Benchmark(
        "verify --mutants, emulated", seconds_of("verify", "--mutants", *EMULATED), 180, "s", at_least=False, repeats=1
    ),
    Benchmark("check, 2 ranks x 32 threads", seconds_of(*CHECK, "small"), 30, "s", at_least=False, repeats=1),
    Benchmark(
        "check in timing order, 4 ranks x 4 blocks x 512 threads",
        seconds_of(*CHECK, "large", "--engine", "timing", "--quick"),
        3,
        "s",
        at_least=False,
    ),
    Benchmark("--help", seconds_of("--help"), 0.25, "s", at_least=False),
    Benchmark("barrier-latency --help", seconds_of("barrier-latency", "--help"), 0.25, "s", at_least=False),
)

if __name__ == "__main__":
    chosen = [b for b in BENCHMARKS if not sys.argv[1:] or any(word in b.name for word in sys.argv[1:])]
    missed = [benchmark.name for benchmark in chosen if not benchmark.run()]
    sys.exit(1 if missed else 0)
