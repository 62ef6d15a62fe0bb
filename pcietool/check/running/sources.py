"""From a scenario's kernels to PTX, once for all orders, machines and edits.

Must not run anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pcietool.check.kernel import Kernel
from pcietool.check.running.witness import Texts
from pcietool.check.scenario import Described
from pcietool.check.world import Round
from pcietool.compiler import Compiled, Unit, compile_unit, unit_of_file
from pcietool.compiler.binaries import is_binary
from pcietool.data import kernel_headers
from pcietool.machines.base import Machine, Program
from pcietool.machines.watch_parameter import declares_watch
from pcietool.ptx.parser import parse

_PLACE = re.compile(r"([^\s():]+:\d+) \(PTX line (\d+):")


@dataclass(frozen=True, eq=False)
class Built:
    """One source of a scenario, compiled; `entries`: the name in PTX by the C++ expression."""

    unit: Unit
    compiled: Compiled

    def load(self, machine: Machine, ptx: str | None = None) -> Program:
        """On every device; `ptx`: edited, instead of its own."""
        watched = [name for entry, name in self.compiled.entries.items() if declares_watch(entry, name, self.unit.text)]
        return machine.load_ptx(self.unit.name, ptx or self.compiled.ptx, watched)


class Sources:
    """All kernels that a described scenario launches."""

    def __init__(self, described: Described, architecture: tuple[int, int]) -> None:
        self._described = described
        self._architecture = architecture

    @cached_property
    def kernels(self) -> list[Kernel]:
        launches = (one for step in self._described.steps if isinstance(step, Round) for one in step.launches)
        return list(dict.fromkeys(launch.kernel for launch in launches))

    @cached_property
    def built(self) -> Mapping[Kernel, Built]:
        """Compiled, those of one source together. Raises CompileError, ScenarioError."""
        units = {kernel: self._key(kernel) for kernel in self.kernels}
        of_unit: dict[tuple[object, ...], list[Kernel]] = {}
        for kernel, key in units.items():
            of_unit.setdefault(key, []).append(kernel)
        built: dict[Kernel, Built] = {}
        for together in of_unit.values():
            unit = self._unit(together)
            one = Built(unit, compile_unit(unit, self._architecture))
            built |= dict.fromkeys(together, one)
        return built

    @property
    def all_built(self) -> Sequence[Built]:
        return list(dict.fromkeys(self.built.values()))

    @cached_property
    def texts(self) -> Texts:
        """Of all sources, and of the headers that the tool brings."""
        return Texts({**kernel_headers(), **{built.unit.name: built.unit.text for built in self.all_built}})

    def as_written(self, text: str) -> str:
        """Text of an engine, with each place in a header as the line of its caller, where a kernel's author looks for
        it: "slots.cuh:24 (PTX line 45: ...)" becomes "mine.cu:7 (PTX line 45: ...)"."""
        return _PLACE.sub(
            lambda found: self._outermost.get((found[1], int(found[2])), found[1]) + found[0][len(found[1]) :], text
        )

    @cached_property
    def _outermost(self) -> dict[tuple[str, int], str]:
        """By inner place and line of PTX."""
        functions = [one for built in self.all_built for one in parse(built.compiled.ptx).functions.values()]
        every = [i for function in functions for block in function.blocks for i in block.instructions]
        return {(str(i.source), i.line): str(i.callers[-1]) for i in every if i.callers}

    def entry(self, kernel: Kernel) -> str:
        """Its name in the PTX."""
        return self.built[kernel].compiled.entries[self._asked(kernel)]

    def _asked(self, kernel: Kernel) -> str:
        return kernel.entry_for(self._described.size.sizes)

    def _key(self, kernel: Kernel) -> tuple[object, ...]:
        """Equal for those that are compiled together; kernels of a binary may come from several sources."""
        defines = tuple(sorted(kernel.defines_for(self._described.size.sizes).items()))
        alone = kernel.entry if is_binary(self._described.scenario.folder / kernel.source) else ""
        return str(kernel.source), kernel.text, tuple(map(str, kernel.include)), defines, kernel.std, alone

    def _unit(self, kernels: Sequence[Kernel]) -> Unit:
        first, folder = kernels[0], self._described.scenario.folder
        sizes = self._described.size.sizes
        unit = (
            unit_of_file(folder / first.source)
            if first.text is None
            else Unit(name=str(first.source), text=first.text, folder=folder)
        )
        return replace(
            unit,
            include=tuple(folder / one for one in first.include),
            define=first.defines_for(sizes),
            std=first.std,
            entries=tuple(self._asked(kernel) for kernel in kernels),
        )
