"""A case: a small CUDA kernel with a bug, the same kernel mended, and what each engine must say of either.

`tests/cases/<name>/` holds `bug.cu`, `fix.cu` and `case.toml`; README.md says what may stand in it. Must not judge.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pcietool.compiler import compile_source
from pcietool.contract.outcomes import Outcome
from pcietool.emulator.engine.variants import OrderName
from pcietool.emulator.exploring.explore import KernelExploration
from pcietool.machines.base import HOST, Argument, Buffer, Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.machines.emulated.program import EmulatedProgram

HERE = Path(__file__).parent
PRELUDE = HERE / "prelude.cuh"
ARCHITECTURE = (9, 0)
DEADLINE_S = 0.01
Memory = dict[str, list[int]]
"""What is in each buffer that a case looks at; of one that every GPU has, GPU by GPU."""


@dataclass(frozen=True)
class Described:
    """`place`: the number of a GPU, "host", or "each" for one on every GPU."""

    place: int | str
    dtype: str = "u4"
    count: int = 1
    values: Sequence[int] = ()


@dataclass(frozen=True)
class Case:
    """case.toml, field by field."""

    name: str
    about: str
    buffers: Mapping[str, Described]
    launches: Sequence[Mapping[str, Any]]
    right: Sequence[Memory]
    bug: Mapping[str, Sequence[str]]
    fix: Mapping[str, Sequence[str]] = field(default_factory=dict)
    engines: Sequence[str] = ("timing", "random", "explore")
    fabric: str = "pcie5-switch4"
    gpus: int = 2
    seeds: int = 10

    def source(self, variant: str) -> str:
        return (HERE / self.name / f"{variant}.cu").read_text()

    def observed(self) -> list[str]:
        return list(self.right[0])


def cases() -> list[Case]:
    return [_load(path.parent) for path in sorted(HERE.glob("*/case.toml"))]


def _load(folder: Path) -> Case:
    text = tomllib.loads((folder / "case.toml").read_text())
    buffers = {name: Described(**one) for name, one in text.pop("buffers").items()}
    return Case(name=folder.name, buffers=buffers, **text)


@dataclass(frozen=True)
class Ran:
    """One round in an engine that runs."""

    outcome: Outcome
    memory: Memory


def ran(case: Case, variant: str, order: OrderName) -> Iterator[Ran]:
    """One round in timing order, or one for each seed in random order."""
    for seed in range(case.seeds if order == "random" else 1):
        with EmulatedMachine.open(case.fabric, range(case.gpus), seed, order) as machine:
            memory = _Memory(machine, case)
            outcome = machine.run(memory.launches(variant), DEADLINE_S)
            yield Ran(outcome, memory.observed())


def explored(case: Case, variant: str) -> tuple[KernelExploration, dict[tuple[int, ...], Memory]]:
    """The exploration, and what each of its outcomes means."""
    with EmulatedMachine.open(case.fabric, range(case.gpus)) as machine:
        memory = _Memory(machine, case)
        parts = [(name, buffer) for name in case.observed() for buffer in memory.buffers[name]]
        observe = [(buffer, case.buffers[name].dtype, case.buffers[name].count) for name, buffer in parts]
        found = machine.explore(memory.launches(variant), observe)
    return found, {outcome: _by_buffer(case, parts, outcome) for outcome in found.outcomes}


def _by_buffer(case: Case, parts: Sequence[tuple[str, Buffer]], outcome: Sequence[int]) -> Memory:
    values: Memory = {}
    rest = list(outcome)
    for name, _ in parts:
        count = case.buffers[name].count
        values.setdefault(name, []).extend(rest[:count])
        rest = rest[count:]
    return values


class _Memory:
    """A case's buffers on a machine."""

    def __init__(self, machine: EmulatedMachine, case: Case) -> None:
        self._machine = machine
        self._case = case
        self.buffers = {name: self._allocated(name, one) for name, one in case.buffers.items()}

    def _allocated(self, name: str, one: Described) -> list[Buffer]:
        """One a GPU of those that every GPU has, else one."""
        places = [HOST] if one.place == "host" else [on_device(int(one.place))] if one.place != "each" else None
        buffers = []
        for place in places or map(on_device, range(self._case.gpus)):
            buffer = self._machine.alloc(place, np.dtype(one.dtype).itemsize * one.count, name)
            if one.values:
                buffer.write(np.array(one.values, one.dtype))
            buffers.append(buffer)
        return buffers

    def observed(self) -> Memory:
        return {
            name: [
                value for buffer in self.buffers[name] for value in buffer.read(self._case.buffers[name].dtype).tolist()
            ]
            for name in self._case.observed()
        }

    def launches(self, variant: str) -> list[Launch]:
        program = _program(self._case.name, variant, self._machine.order)
        launches = []
        for one in self._case.launches:
            options = dict(one)
            ranks, entry, args = options.pop("ranks"), options.pop("entry"), options.pop("args")
            for rank in ranks:
                arguments = tuple(self._argument(word, rank) for word in args)
                launches.append(
                    Launch(rank, program.kernel(entry), args=arguments, **{"grid": 1, "block": 1} | options)
                )
        return launches

    def _argument(self, word: str | int, rank: int) -> Argument:
        """A number, "rank", "gpus", or a buffer: "name", or "name@0", "name@next" for the one of another GPU."""
        if isinstance(word, int):
            return word
        if word in ("rank", "gpus"):
            return {"rank": rank, "gpus": self._case.gpus}[word]
        name, _, whose = word.partition("@")
        buffers = self.buffers[name]
        if len(buffers) == 1:
            return buffers[0]
        number = rank if not whose else (rank + 1) % len(buffers) if whose == "next" else int(whose)
        return buffers[number]


@cache
def _program(name: str, variant: str, order: OrderName) -> EmulatedProgram:
    return EmulatedProgram(f"{variant}.cu", {}, _ptx(name, variant), order)


@cache
def _ptx(name: str, variant: str) -> str:
    text = (HERE / name / f"{variant}.cu").read_text()
    source = f'#line 1 "{PRELUDE.name}"\n{PRELUDE.read_text()}\n#line 1 "{variant}.cu"\n{text}'
    return compile_source(source, name=f"{variant}.cu", architecture=ARCHITECTURE, defines={}).ptx
