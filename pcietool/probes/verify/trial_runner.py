"""One trial from memory to findings: builds an entry, runs it once, and makes every check.

Must not decide what is tried; `probe` and `mutation` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pcietool.contract.outcomes import told
from pcietool.machines.base import CopyStream, Machine
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import World
from pcietool.probes.verify.config import EntryName
from pcietool.probes.verify.effort import Effort
from pcietool.probes.verify.entry import FIRST_ROW, Entry, EntryMemory, damage, wrong_slot_map, wrong_slots
from pcietool.probes.verify.exchanges import Barrier, Signal
from pcietool.probes.verify.gates import EndToEnd, Gate
from pcietool.probes.verify.pushes import Combine, Dispatch, Size
from pcietool.probes.verify.trial import Finding, Report, Trial
from pcietool.protocol.distributions import Distribution
from pcietool.protocol.routing import Routing, route
from pcietool.protocol.streams import dispatched

MakeEntry = Callable[[EntryMemory, int], Entry]
EXCHANGES: Mapping[EntryName, MakeEntry] = {"signal": Signal, "barrier": Barrier}
PUSHES: Mapping[EntryName, Callable[[EntryMemory, int, Size, Routing], Entry]] = {
    "dispatch": Dispatch,
    "combine": Combine,
    "gate": Gate,
    "end-to-end": EndToEnd,
}


class TrialRunner:
    """Runs trials on one transport; keeps the slots, and frees everything else after each trial."""

    def __init__(self, machine: Machine, transport: Transport, effort: Effort, seed: int, deadline_s: float) -> None:
        """`deadline_s`: of a launch. Raises Hung."""
        self.machine = machine
        self.effort = effort
        self._seed = seed
        self.world = World.build(machine, transport, effort.ranks, FIRST_ROW + effort.most_chunks, deadline_s)

    def entry(self, name: EntryName, distribution: Distribution | None) -> MakeEntry:
        """How to build an entry for a number of iterations; those that need a routing get a uniform one by default."""
        if name in EXCHANGES:
            return EXCHANGES[name]
        routing = route(distribution or "uniform", self.effort.workload(self._seed))
        size = self.effort.size_for(dispatched(routing, self.effort.chunk_rows, 1).capacity)
        return lambda memory, iterations: PUSHES[name](memory, iterations, size, routing)

    def run(
        self, make: MakeEntry, trial: Trial, traffic: tuple[CopyStream, ...] = (), deadline_s: float | None = None
    ) -> Report:
        """Every check, in the order in which they explain each other. Wrong tables are not launched. `deadline_s`:
        another than usual."""
        memory = EntryMemory(self.world)
        report = Report()
        try:
            entry = make(memory, trial.iterations)
            self.world.reset(trial.before)
            entry.prepare(trial)
            report.findings += [*entry.wrong_tables(), *wrong_slot_map(entry)]
            if report.findings:
                return report
            outcome = self.machine.run(entry.launches(trial), deadline_s or self.world.deadline_s, (), traffic)
            report.launched, report.hang = True, outcome.hang
            if trial.corruption and not outcome.hang:
                damage(entry, trial.corruption)
            if outcome.hang:
                first = next((r for r in outcome.hang.records if r.reason == "deadline"), None)
                report.findings.append(Finding("deadline", str(first or "a wait gave up")))
                if outcome.hang.limit == "host join timeout":
                    return report  # nothing can be read
            report.findings += entry.wrong_data(trial, report)
            report.findings += [Finding("unordered", line) for line in told(outcome.unordered)]
            if not outcome.hang:
                report.findings += wrong_slots(entry, trial)
            report.findings += memory.damaged_guards()
        finally:
            memory.free()
        return report

    def free(self) -> None:
        self.world.free()
