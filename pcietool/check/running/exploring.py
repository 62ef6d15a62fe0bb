"""Every execution of a scenario at its small size: round by round, from each memory that the round before may leave.

Must not time anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pcietool.check.running import findings, witness
from pcietool.check.running.engines import Effort
from pcietool.check.running.findings import Said
from pcietool.check.running.play import Stage
from pcietool.check.running.sources import Built, Sources
from pcietool.check.scenario import Described
from pcietool.check.world import Round, Step
from pcietool.emulator.exploring.explore import KernelExploration
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.units import count

Memory = tuple[bytes, ...]
"""What is in each piece, in the stage's order."""


def explored(
    machine: EmulatedMachine,
    described: Described,
    sources: Sources,
    effort: Effort,
    edits: Mapping[Built, str] | None = None,
) -> Said:
    """Raises EmulationError, PtxError for what is not explored."""
    stage = Stage(machine, described, sources, edits)
    try:
        return _Exploration(machine, stage, effort, sources).said()
    finally:
        stage.free()


@dataclass
class _Exploration:
    machine: EmulatedMachine
    stage: Stage
    effort: Effort
    sources: Sources
    left: int = field(init=False)
    until: float = field(init=False)

    def __post_init__(self) -> None:
        self._said = Said("explore", self.stage.described.size.label)
        self.left = self.effort.max_states
        self.until = self.effort.clock() + self.effort.max_seconds

    def said(self) -> Said:
        self._from(self.stage.described.steps)
        return self._said

    @property
    def _enough(self) -> bool:
        return bool(self._said.findings) or self.left <= 0

    def _from(self, steps: Sequence[Step]) -> None:
        """All executions of these steps, from the memory as it is."""
        for position, step in enumerate(steps):
            if isinstance(step, Round):
                return self._round(step, steps[position + 1 :])
            if wrong := self.stage.host(step):
                self._said.findings.append(findings.wrong("explore", wrong))
                return None
        return None

    def _round(self, step: Round, rest: Sequence[Step]) -> None:
        observe = [(buffer, np.uint8, buffer.nbytes) for buffer in self.stage.buffers.values()]
        found = self.machine.explore(
            self.stage.launches(step),
            observe,
            max_states=max(1, self.left),
            max_seconds=max(0.001, self.until - self.effort.clock()),
            progress=lambda states: self.effort.progress(f"exploring: {count(states)} states"),
        )
        self.left -= found.states
        self._said.tries += found.states
        gaps = [f"a gap of the memory model may be near: {gap} (docs/memory-model.md)" for gap in found.gaps]
        for gap in (*gaps, *self._unfinished(found)):
            if gap not in self._said.not_covered:
                self._said.not_covered.append(gap)
        if found.hung:
            never = self._steps(found.hanging_example())
            text = f"an execution never ends ({count(found.hung)} states from which no end is reachable)"
            places = tuple(dict.fromkeys(one.at for one in reversed(never) if one.at))
            self._said.findings.append(findings.Finding("HANG", "explore", text, never, places))
            return
        before = self._memory()
        for outcome in found.outcomes:
            if self._enough:
                if not self._said.findings:  # a later round begins from memories that nobody followed
                    self._said.not_covered.append(f"stopped after {count(self._said.tries)} states (--max-states)")
                break
            self._restore(_split(outcome, before))
            known = len(self._said.findings)
            self._from(rest)
            for n in range(known, len(self._said.findings)):
                self._said.findings[n] = self._with_execution(self._said.findings[n], found.example(outcome))
        self._restore(before)

    def _unfinished(self, found: KernelExploration) -> list[str]:
        if found.complete:
            return []
        return [
            f"stopped after {count(found.states)} states: not every execution was looked at (a smaller `small`, or"
            " more --max-states, --max-seconds)"
        ]

    def _with_execution(self, one: findings.Finding, lines: Sequence[str]) -> findings.Finding:
        return replace(one, witness=(*self._steps(lines), *one.witness))

    def _steps(self, lines: Sequence[str]) -> tuple[witness.Step, ...]:
        return witness.steps([self.sources.as_written(line) for line in lines])

    def _memory(self) -> Memory:
        return tuple(buffer.read().tobytes() for buffer in self.stage.buffers.values())

    def _restore(self, memory: Memory) -> None:
        for buffer, raw in zip(self.stage.buffers.values(), memory, strict=True):
            buffer.write(np.frombuffer(raw, np.uint8))


def _split(outcome: Sequence[int], like: Memory) -> Memory:
    raw = bytes(outcome)
    pieces = []
    for one in like:
        pieces.append(raw[: len(one)])
        raw = raw[len(one) :]
    return tuple(pieces)
