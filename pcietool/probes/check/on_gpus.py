"""A scenario on real GPUs: right or not, how long it takes, and what each ordering costs and what is seen without it.

Hardware shows what happens, not what may: nothing here is a proof. Must not run emulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pcietool.check.changing.changes import Change, changes
from pcietool.check.changing.weaken import weakenings
from pcietool.check.running.engines import on_gpus, tried
from pcietool.check.running.findings import Finding, Said, worst
from pcietool.check.running.play import Stage
from pcietool.check.running.sources import Built, Sources
from pcietool.check.running.traffic import Traffic
from pcietool.check.scenario import Described, Scenario, Size
from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.machines.base import Machine
from pcietool.probes.check.config import CheckConfig

NAME = "check"
METHOD = (
    "every run from the same memory, every second one beside copies that keep the links busy; time: of the others, all"
    " rounds, each by its slowest GPU, from CUDA events; ranks beyond the GPUs there are share one, in streams of their"
    " own"
)
NO_PROOF = "hardware shows what happens, not what may happen: run it emulated for a proof"
FREE = ("without the block barrier", "without the warp barrier")
"""Threads that go on alone may overwrite what others need to end: not run where a hang costs a machine."""


def of_scenario(machine: Machine, scenario: Scenario, config: CheckConfig, observer: Observer) -> ProbeResult:
    """Raises ScenarioError, CompileError, DriverError."""
    result = ProbeResult(NAME, Status.PASS, "", scenario.name, METHOD)
    observer.begin(result)
    capability = machine.devices[0].compute_capability
    findings: list[Finding] = []
    not_covered: list[str] = []
    for size in scenario.sizes():
        described = scenario.described(size)
        sources = Sources(described, capability)
        observer.progress(f"{scenario.name}: {config.runs} runs, {size.label}")
        said, times = on_gpus(machine, described, sources, config.runs, config.timeout_s)
        result.rows.append(_row(said, times))
        findings += said.findings
        not_covered += said.not_covered
    result.details = {
        "verdict": "NOT PROVED",
        "about": scenario.about,
        "not_covered": [NO_PROOF, *dict.fromkeys(not_covered)],
        "findings": [asdict(one) for one in findings],
        "assumptions": [],
        "lines": {},
        "files": {},
    }
    if found := worst(findings):
        result.status = Status.HANG if found.kind == "HANG" else Status.FAIL
        result.details["verdict"] = found.kind
        result.verdict = (
            f"{found.kind}: {found.text} ({len(findings)} of {sum(row['tries'] for row in result.rows)} runs)"
        )
        return result
    result.status = Status.WARN
    times_us = ", ".join(f"{row['elapsed_us']:.2f} µs at {row['size']}" for row in result.rows)
    result.verdict = f"NOT PROVED: right in every run, median {times_us}; {NO_PROOF}"
    if not config.quick:
        first = scenario.sizes()[0]
        result.details["orderings"] = _weakened(machine, scenario, first, config, observer)
    return result


def _row(said: Said, times: Sequence[float]) -> Row:
    return {
        "engine": said.engine,
        "size": said.size,
        "tried": tried(said),
        "says": ", ".join(dict.fromkeys(one.kind for one in said.findings)) or "nothing wrong",
        "tries": said.tries,
        "elapsed_us": float(np.median(times)) / 1e3 if times else None,
        "elapsed_us_p95": float(np.percentile(times, 95)) / 1e3 if times else None,
        "findings": len(said.findings),
        "not_covered": list(said.not_covered),
    }


def _weakened(machine: Machine, scenario: Scenario, size: Size, config: CheckConfig, observer: Observer) -> list[Row]:
    """Each ordering weakened, by turns with the kernel as it is."""
    described = scenario.described(size)
    sources = Sources(described, machine.devices[0].compute_capability)
    rows = []
    everything = [one for one in changes(sources, weakenings) if one.edits[0].about not in FREE]
    for number, change in enumerate(everything, start=1):
        observer.progress(f"{scenario.name}: weakened, {number} of {len(everything)}")
        rows.append(_Turns(machine, described, sources, change).row(config))
        if machine.stuck:  # nothing more can be run here
            break
    return rows


@dataclass
class _Turns:
    machine: Machine
    described: Described
    sources: Sources
    change: Change

    def row(self, config: CheckConfig) -> Row:
        edit = self.change.edits[0]
        wrong, ratios = self._run(config, self.change.made_in(self.sources))
        seen = f"wrong in {wrong} of {config.runs} runs" if wrong else f"never wrong in {config.runs} runs here"
        low, middle, high = np.percentile(ratios, [5, 50, 95]) if ratios else (np.nan, np.nan, np.nan)
        times = f"; {middle:.3f} of the time ({low:.3f} to {high:.3f})" if ratios else ""
        if self.machine.stuck:
            seen = "it hangs; no further one was tried"
        return {
            "at": edit.site.own_place,
            "inlined_from": str(edit.site.source),
            "change": edit.about,
            "is": "needed" if wrong or self.machine.stuck else "not seen to be needed",
            "by": f"{seen}{times}",
            "wrong": wrong,
            "runs": config.runs,
            "time_ratio": float(middle),
            "time_ratio_low": float(low),
            "time_ratio_high": float(high),
        }

    def _run(self, config: CheckConfig, edits: Mapping[Built, str]) -> tuple[int, list[float]]:
        """How often the changed kernel was wrong, and its time over that of the kernel as it is, run by run."""
        stages = [Stage(self.machine, self.described, self.sources, each) for each in (None, edits)]
        wrong, ratios = 0, []
        try:
            with Traffic(self.machine) as traffic:
                for number in range(config.runs):
                    busy = number % 2 == 1
                    times = []
                    for stage in stages:
                        stage.begin_again()
                        played = stage.play(config.timeout_s, traffic.streams if busy else ())
                        times.append(played.elapsed_ns)
                    wrong += bool(played.wrong) or not played.finished
                    if not played.finished:
                        break
                    ratios += [] if busy else [times[1] / times[0]]
        finally:
            for stage in stages:
                stage.free()
        return wrong, ratios
