"""Plays a described scenario on a machine: allocates, launches round by round, and looks at what has to be true.

The machine decides the order of memory. Must not judge more than expectations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pcietool.check.arrays import Array, Passed, Piece, Pointers, Struct
from pcietool.check.expectations import Expectation, Wrong
from pcietool.check.running.sources import Built, Sources
from pcietool.check.scenario import Described, told
from pcietool.check.world import Do, HostView, PlannedLaunch, Round, Step, Write
from pcietool.contract.outcomes import Outcome, Printed
from pcietool.errors import ScenarioError, UsageError
from pcietool.machines.base import HOST, Argument, Buffer, CopyStream, Kernel, Launch, Machine, Program, on_device
from pcietool.machines.graph import Graph

STREAMS = 16
"""Of a rank, where several share a GPU."""
POINTER = np.dtype("<u8")


@dataclass(frozen=True)
class Played:
    """How it went, round by round until one hung; what was wrong where something was expected."""

    outcomes: tuple[Outcome, ...]
    wrong: tuple[Wrong, ...]

    @property
    def finished(self) -> bool:
        return all(outcome.finished for outcome in self.outcomes)

    @property
    def printed(self) -> list[Printed]:
        return [one for outcome in self.outcomes for one in outcome.printed]

    @property
    def elapsed_ns(self) -> float:
        """GPU time of all rounds, each by its slowest device."""
        return sum(max(outcome.elapsed_ns.values(), default=0.0) for outcome in self.outcomes)


class Stage:
    """A scenario's memory and programs on one machine. `edits`: PTX by the source that it replaces. Raises
    ScenarioError for a machine with too few devices, and what loading raises."""

    def __init__(
        self, machine: Machine, described: Described, sources: Sources, edits: Mapping[Built, str] | None = None
    ) -> None:
        self.machine = machine
        self.described = described
        self._sources = sources
        self._edits = edits or {}
        self._programs: dict[Built, Program] = {}
        self._kernels: dict[object, Kernel] = {}
        self._tables: dict[tuple[Array, int], Buffer] = {}
        self._graphs: dict[Round, Graph] = {}
        """Each recorded once; of one stream a GPU, so that ranks that share one have none."""
        if machine.backend == "emulated" and described.size.ranks > len(machine.devices):
            have = len(machine.devices)
            raise ScenarioError(
                f"scenario {described.scenario.name} has {described.size.ranks} ranks, {machine.label} {have}"
                f" GPU{'s' * (have > 1)} here; choose a larger --fabric (pcietool --list), or fewer ranks"
            )
        self.buffers = {
            piece: self._allocated(piece) for array in described.world.arrays.values() for piece in array.pieces
        }

    def _allocated(self, piece: Piece) -> Buffer:
        place = HOST if piece.rank is None else on_device(self.device(piece.rank))
        array = piece.array
        buffer = self.machine.alloc(place, array.count * array.dtype.itemsize, piece.label)
        if array.initial is not None:
            buffer.write(array.values(array.initial, piece))
        return buffer

    def device(self, rank: int) -> int:
        """Where a rank runs: GPUs have several ranks each, in streams of their own, where there are too few."""
        return rank % len(self.machine.devices)

    def begin_again(self) -> None:
        """All memory as it was before anything ran."""
        for piece, buffer in self.buffers.items():
            buffer.write(piece.array.values(piece.array.initial, piece))

    def free(self) -> None:
        for buffer in (*self.buffers.values(), *self._tables.values()):
            buffer.free()

    # -- what there is ----------------------------------------------------------------------------------------------

    def read(self, piece: Piece) -> np.ndarray:
        return self.buffers[piece.whole].read(piece.array.dtype)

    def write(self, piece: Piece, values: np.ndarray) -> None:
        self.buffers[piece.whole].write(values)

    def launches(self, step: Round) -> list[Launch]:
        """As the machine takes them. Raises UsageError, naming the scenario's file, for arguments that do not fit."""
        return [self._launch(one) for one in step.launches]

    def _launch(self, one: PlannedLaunch) -> Launch:
        kernel = self._kernel(one)
        grid, block = (((shape,) if isinstance(shape, int) else shape) for shape in (one.grid, one.block))
        flat = len(grid) == len(block) == 1
        return Launch(
            self.device(one.rank),
            kernel,
            prod(grid),
            prod(block),
            tuple(self._argument(each, one.rank) for each in one.args),
            shared=one.shared,
            spins=one.spins or one.cooperative,
            cooperative=one.cooperative,
            overlaps=one.overlaps,
            stream=one.rank // len(self.machine.devices) * STREAMS + one.stream,
            shape=None if flat else (*grid, 1, 1)[:3] + (*block, 1, 1)[:3],
        )

    def _kernel(self, one: PlannedLaunch) -> Kernel:
        if one.kernel not in self._kernels:
            built = self._sources.built[one.kernel]
            if built not in self._programs:
                self._programs[built] = built.load(self.machine, self._edits.get(built))
            self._kernels[one.kernel] = self._programs[built].kernel(self._sources.entry(one.kernel))
        return self._kernels[one.kernel]

    def _argument(self, given: Passed, rank: int) -> Argument:
        match given:
            case Array():
                return self._argument(given.only, rank)
            case Piece():
                buffer = self.buffers[given.whole]
                return buffer if not given.first else buffer.address + given.first * given.array.dtype.itemsize
            case Pointers():
                return self._table(given.array, rank)
            case Struct():
                return self._struct(given, rank)
            case np.generic() if not isinstance(given, np.void):
                value: int | float = given.item()
                return value
        return given

    def _addresses(self, array: Array) -> np.ndarray:
        return np.array([self.buffers[piece].address for piece in array.pieces], POINTER)

    def _table(self, array: Array, rank: int) -> Buffer:
        if (array, rank) not in self._tables:
            addresses = self._addresses(array)
            table = self.machine.alloc(on_device(self.device(rank)), addresses.nbytes, f"pointers to {array.name}")
            table.write(addresses)
            self._tables[array, rank] = table
        return self._tables[array, rank]

    def _struct(self, struct: Struct, rank: int) -> bytes:
        members: list[np.ndarray] = []
        for member in struct.members:
            if isinstance(member, Array):
                members.append(self._addresses(member))
            elif isinstance(member, Piece | Pointers):
                passed = self._argument(member, rank)
                members.append(np.array([passed.address if isinstance(passed, Buffer) else passed], POINTER))
            else:
                members.append(np.asarray(member).reshape(1))
        layout = np.dtype([(str(n), one.dtype, one.shape) for n, one in enumerate(members)], align=True)
        value = np.zeros((), layout)
        for n, one in enumerate(members):
            value[str(n)] = one
        return value.tobytes().ljust(struct.nbytes or 0, b"\0")

    # -- what happens -----------------------------------------------------------------------------------------------

    def play(self, deadline_s: float, traffic: Sequence[CopyStream] = ()) -> Played:
        """All steps, until a round hangs; `traffic` beside each round that is no graph's."""
        outcomes: list[Outcome] = []
        wrong: list[Wrong] = []
        for step in self.described.steps:
            if isinstance(step, Round):
                outcomes.append(self._run(step, deadline_s, traffic))
                if not outcomes[-1].finished:
                    break
            else:
                wrong += self.host(step)
        return Played(tuple(outcomes), tuple(wrong))

    def idle(self) -> bool:
        """Does all that is expected hold although no kernel runs?"""
        return not any(self.host(step) for step in self.described.steps if not isinstance(step, Round))

    def _run(self, step: Round, deadline_s: float, traffic: Sequence[CopyStream]) -> Outcome:
        launches = self.launches(step)
        try:
            if step.graph and not any(one.stream for one in launches):
                if step not in self._graphs:
                    self._graphs[step] = self.machine.graph(launches)
                return self._graphs[step].run(deadline_s)
            return self.machine.run(launches, deadline_s, copy_streams=traffic)
        except UsageError as error:
            text, places = str(error), ", ".join(dict.fromkeys(one.place for one in step.launches))
            for one in step.launches:
                text = text.replace(self._sources.entry(one.kernel), one.kernel.entry)
            raise ScenarioError(f"{places}: scenario {self.described.scenario.name}: {text}") from error

    def host(self, step: Step) -> list[Wrong]:
        """What is not a round. Returns what is wrong if the step expects something."""
        scenario = self.described.scenario
        match step:
            case Write(piece, values):
                self.write(piece, piece.array.values(values, piece))
            case Do(function):
                with told(scenario.file, scenario.name):
                    function(HostView(self.read, self.write))
            case Expectation():
                with told(scenario.file, scenario.name):
                    return list(step.wrong(self.read))
        return []
