"""Our side of a comparison: a barrier or an all-reduce that takes turns with somebody else's.

Must not know contenders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from statistics import median

from pcietool.machines.base import Launch
from pcietool.machines.graph import Graph
from pcietool.probes.barrier.config import BarrierConfig, Order
from pcietool.probes.barrier.kernel import Barrier
from pcietool.probes.common.hangs import finished
from pcietool.probes.common.world import World
from pcietool.probes.compare.allreduce_kernel import AllReduce
from pcietool.probes.compare.config import CompareMode
from pcietool.probes.compare.effort import Effort


class WrongSumsError(Exception):
    """An all-reduce of ours gave a sum that is not the sum of its inputs."""


class Ours(ABC):
    """One operation in one mode. `label` says which of ours it is."""

    label: str
    mode: CompareMode

    @abstractmethod
    def turn(self, iteration: int) -> float:
        """Microseconds of one operation, the median of a few repetitions. `iteration` makes the payload new."""

    @abstractmethod
    def free(self) -> None: ...


class _Replayed:
    """`nodes` operations, as a graph or back to back."""

    def __init__(self, world: World, launches: list[Launch], nodes: int, mode: CompareMode) -> None:
        self._world = world
        self._nodes = nodes
        self._launches = launches
        self._graph: Graph | None = world.machine.graph(launches) if mode == "graph" else None

    def run_us(self, during: str) -> float:
        """One operation, on the GPU where all took shortest: the others also waited for the last one to start."""
        if self._graph is not None:
            outcome = finished(self._graph.run(self._world.deadline_s), during)
        else:
            outcome = self._world.run(self._launches, during)
        return min(outcome.elapsed_ns.values()) / self._nodes / 1e3


class OurBarrier(Ours):
    """One order of the barrier; one warp a rank, as the contenders' kernels."""

    def __init__(self, world: World, order: Order, mode: CompareMode, effort: Effort) -> None:
        self.label = f"{order} barrier"
        self.mode = mode
        self._world = world
        self._barrier = Barrier(world.machine, world, order, BarrierConfig())
        self._effort = effort
        self._replayed = None
        if mode != "in-kernel":
            launches = [launch for _ in range(effort.nodes) for launch in self._barrier.once()]
            self._replayed = _Replayed(world, launches, effort.nodes, mode)

    def turn(self, iteration: int) -> float:
        during = f"{self.label}, {self.mode}"
        if self._replayed is not None:
            samples = [self._replayed.run_us(during) for _ in range(self._effort.replays + 1)]
            return median(samples[1:])
        rounds = self._effort.rounds
        self._world.run(self._barrier.rounds(rounds), during)
        return float(self._barrier.read_spans_ns().max()) / rounds / 1e3

    def free(self) -> None:
        self._barrier.free()


class OurAllReduce(Ours):
    """The inline-flag all-reduce of one size; every element of every repetition is checked."""

    label = "inline-flag all-reduce"

    def __init__(self, world: World, nbytes: int, mode: CompareMode, effort: Effort) -> None:
        self.mode = mode
        self._world = world
        self._allreduce = AllReduce(world, nbytes, effort.nodes if mode != "in-kernel" else 1)
        self._during = f"{self.label} of {nbytes} bytes, {mode}"
        # A round of a large size takes long: the sum over all elements stays about the same.
        self._rounds = max(5, min(effort.rounds, effort.rounds * 256 // self._allreduce.elements))
        self._effort = effort
        self._replayed = None
        if mode != "in-kernel":
            self._replayed = _Replayed(world, self._allreduce.once(), effort.nodes, mode)

    def turn(self, iteration: int) -> float:
        """Raises WrongSumsError."""
        if self._replayed is None:
            return self._in_kernel_us()
        samples = []
        for repetition in range(self._effort.replays + 1):
            self._allreduce.write_inputs(iteration + repetition)
            samples.append(self._replayed.run_us(self._during))
            self._refuse(self._allreduce.wrong_outputs(iteration + repetition))
        return median(samples[1:])

    def free(self) -> None:
        self._allreduce.free()

    def _in_kernel_us(self) -> float:
        self._world.run(self._allreduce.rounds(self._rounds), self._during)
        self._refuse(self._allreduce.wrong_sums())
        return self._allreduce.span_ns() / self._rounds / 1e3

    def _refuse(self, wrong: str | None) -> None:
        if wrong:
            raise WrongSumsError(f"{self._during}: {wrong}")
