"""Our side of a comparison: a barrier or an all-reduce that takes turns with somebody else's.

Must not know contenders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from statistics import median

from pcietool.machines.base import Launch
from pcietool.probes.barrier.config import BarrierConfig, Order
from pcietool.probes.barrier.kernel import Barrier
from pcietool.probes.common.world import World
from pcietool.probes.compare.allreduce_kernel import AllReduce
from pcietool.probes.compare.config import CompareMode
from pcietool.probes.compare.effort import Effort


class WrongSumsError(Exception):
    """An all-reduce of ours gave a sum that is not the sum of its inputs."""


class Ours(ABC):
    """One operation in one mode. `label` says which of ours it is."""

    label: str

    def __init__(self, world: World, mode: CompareMode, effort: Effort, during: str, launches: list[Launch]) -> None:
        """`launches`: of all nodes."""
        self.mode = mode
        self.during = during
        self.world = world
        self._effort = effort
        self._replay_us = None
        if mode != "in-kernel":
            self._replay_us = world.replayer(launches, effort.nodes, graph=mode == "graph")

    def turn(self, iteration: int) -> float:
        """Microseconds of one operation, the median of a few repetitions. `iteration` makes the payload new. Raises
        WrongSumsError."""
        if self._replay_us is None:
            return self.in_kernel_us()
        return median([self.repetition_us(iteration + number) for number in range(self._effort.replays + 1)][1:])

    @abstractmethod
    def in_kernel_us(self) -> float: ...

    def repetition_us(self, iteration: int) -> float:
        """Of all nodes, one operation."""
        assert self._replay_us is not None
        return self._replay_us(self.during)

    @abstractmethod
    def free(self) -> None: ...


class OurBarrier(Ours):
    """One order of the barrier; one warp a rank, as the contenders' kernels."""

    def __init__(self, world: World, order: Order, mode: CompareMode, effort: Effort) -> None:
        self.label = f"{order} barrier"
        self._barrier = Barrier(world.machine, world, order, BarrierConfig())
        self._rounds = effort.rounds
        launches = [launch for _ in range(effort.nodes) for launch in self._barrier.once()]
        super().__init__(world, mode, effort, f"{self.label}, {mode}", launches)

    def in_kernel_us(self) -> float:
        self.world.run(self._barrier.rounds(self._rounds), self.during)
        return float(self._barrier.read_spans_ns().max()) / self._rounds / 1e3

    def free(self) -> None:
        self._barrier.free()


class OurAllReduce(Ours):
    """The inline-flag all-reduce of one size; every element of every repetition is checked."""

    label = "inline-flag all-reduce"

    def __init__(self, world: World, nbytes: int, mode: CompareMode, effort: Effort) -> None:
        self._allreduce = AllReduce(world, nbytes, effort.nodes if mode != "in-kernel" else 1)
        # A round of a large size takes long: the sum over all elements stays about the same.
        self._rounds = max(5, min(effort.rounds, effort.rounds * 256 // self._allreduce.elements))
        during = f"{self.label} of {nbytes} bytes, {mode}"
        super().__init__(world, mode, effort, during, self._allreduce.once())

    def in_kernel_us(self) -> float:
        self.world.run(self._allreduce.rounds(self._rounds), self.during)
        self._refuse(self._allreduce.wrong_sums())
        return self._allreduce.span_ns() / self._rounds / 1e3

    def repetition_us(self, iteration: int) -> float:
        self._allreduce.write_inputs(iteration)
        one_us = super().repetition_us(iteration)
        self._refuse(self._allreduce.wrong_outputs(iteration))
        return one_us

    def free(self) -> None:
        self._allreduce.free()

    def _refuse(self, wrong: str | None) -> None:
        if wrong:
            raise WrongSumsError(f"{self.during}: {wrong}")
