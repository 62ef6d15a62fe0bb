"""Whether a scenario's kernels end, are right and are ordered, in every way of running them that there is.

One part a scenario; must not judge what an engine says beyond `check.verdict`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from pcietool.check.changing.whatif import Bench, Place, Repair, needed, search
from pcietool.check.running.assumptions import assumptions
from pcietool.check.running.engines import Effort, in_random_orders, safely, timed, tried
from pcietool.check.running.exploring import explored
from pcietool.check.running.findings import Engine, Said
from pcietool.check.running.play import Stage
from pcietool.check.running.sources import Sources
from pcietool.check.running.verdict import Verdict, judge
from pcietool.check.scenario import Described, Scenario, Size, chosen, load_scenarios
from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.machines.base import Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.check import on_gpus
from pcietool.probes.check.config import CheckConfig
from pcietool.supervision.forks import cores

NAME = "check"
Run = Callable[[EmulatedMachine, Described, Sources, Effort], Said]
PATIENCE, LEAST_EVENTS = 50, 2_000_000
"""A run in random order may need so many times the events of timing order, and so many more."""
EMULATED_DEADLINE_S = 0.02
"""Of a round, virtual: a hang is proved long before."""


def run(machine: Machine, config: CheckConfig, observer: Observer) -> list[ProbeResult]:
    """Raises ScenarioError for a broken scenario, CompileError for a kernel that does not compile."""
    path = Path(config.file)
    wanted = chosen(load_scenarios(path), config.names, path)
    results = []
    for number, one in enumerate(wanted, start=1):
        observer.progress(f"{one.name}, {number} of {len(wanted)}")
        if machine.stuck:
            reason = "a kernel before it hangs, and this process cannot use the GPUs any more; run it alone"
            results.append(ProbeResult(NAME, Status.WAIVED, "not run", one.name, "", reason=reason))
        elif isinstance(machine, EmulatedMachine):
            results.append(of_scenario(machine, one, config, observer))
        else:
            results.append(on_gpus.of_scenario(machine, one, config, observer))
        observer.result(results[-1])
    return results


def of_scenario(machine: EmulatedMachine, scenario: Scenario, config: CheckConfig, observer: Observer) -> ProbeResult:
    """Raises what `run` raises."""
    return _Check(machine, scenario, config, observer).result()


class _Check:
    """One scenario."""

    def __init__(self, machine: EmulatedMachine, scenario: Scenario, config: CheckConfig, observer: Observer) -> None:
        self._machine = machine
        self._scenario = scenario
        self._config = config
        self._observer = observer
        self._places: dict[str, Place] = {}
        self._effort = Effort(
            config.seed_range,
            EMULATED_DEADLINE_S,
            config.max_seconds,
            config.max_states,
            config.tear,
            jobs=config.jobs or cores(),
            progress=lambda text: observer.progress(f"{scenario.name}: {text}"),
        )

    def result(self) -> ProbeResult:
        self._observer.progress(f"{self._scenario.name}: compiling")
        for size in self._all_sizes():
            _ = self._place(size).sources.built  # what cannot be compiled ends it before anything begins
        result = ProbeResult(NAME, Status.PASS, "", self._scenario.name, self._method())
        self._observer.begin(result)
        said: list[Said] = []
        for one in self._said():
            said.append(one)
            result.rows.append(_row(one))
        idle = self._is_idle(self._place(self._scenario.sizes()[0]))
        verdict = judge(said, idle)
        result.checks.append(
            {
                "name": "control: without the kernels",
                "passed": not idle,
                "text": "what is expected is already true before any kernel runs"
                if idle
                else "what is expected is not true before they run",
                "severity": "warn",
            }
        )
        result.status, result.verdict = verdict.status, f"{verdict.word}: {verdict.text}"
        result.details = {
            "verdict": verdict.word,
            "about": self._scenario.about,
            "not_covered": _not_covered(verdict, said),
            "findings": [asdict(finding) for one in said for finding in one.findings],
            "printed": {f"{one.engine} order, {one.size}": list(map(str, one.printed)) for one in said if one.printed},
            "assumptions": [asdict(one) for one in assumptions(self._machine, self._config.tear)],
        }
        ran = any(one.tries for one in said)  # else no variant would run either
        if ran and not self._config.quick and self._config.replay is None:
            result.details |= self._what_if(said)
        result.details["lines"] = self._lines(result.details)
        result.details["files"] = self._files()
        return result

    def _lines(self, details: dict[str, Any]) -> dict[str, str]:
        """The text of each line of source that is named."""
        steps = [step["at"] for finding in details["findings"] for step in finding["witness"]]
        edits = [one["at"] for one in (*details.get("orderings", ()), *(details.get("repair") or {}).get("edits", ()))]
        found: dict[str, str] = {}
        for place in self._places.values():
            found |= place.sources.texts.of({*steps, *edits} - found.keys())
        return found

    def _files(self) -> dict[str, str]:
        """Where the sources are, by the name that places have, but for those that a scenario's file holds."""
        files: dict[str, str] = {}
        for place in self._places.values():
            for built in place.sources.all_built:
                path = built.unit.path
                files[built.unit.name] = _relative(path) if path else ""
        return {name: path for name, path in files.items() if path}

    def _all_sizes(self) -> list[Size]:
        small = [self._scenario.small_size()] if "explore" in self._config.engines else []
        return self._scenario.sizes() + small

    def _method(self) -> str:
        return (
            "the kernels' own PTX, emulated: in timing order, in random order by seed (as weak as PTX allows, ranks"
            " start late), and every execution at the small size"
        )

    def _place(self, size: Size) -> Place:
        if size.label not in self._places:
            described = self._scenario.described(size)
            architecture = self._machine.devices[0].compute_capability
            self._places[size.label] = Place(described, Sources(described, architecture))
        return self._places[size.label]

    def _said(self) -> list[Said]:
        engines = self._config.engines
        said = []
        for size in self._scenario.sizes():
            place = self._place(size)
            timing = [self._by("timing", timed, place, self._effort)] if "timing" in engines else []
            said += timing
            if "random" in engines:
                said.append(self._in_random_orders(place, timing))
        if "explore" in engines:
            said.append(self._by("explore", explored, self._place(self._scenario.small_size()), self._effort))
        return said

    def _in_random_orders(self, place: Place, timing: Sequence[Said]) -> Said:
        """Each seed would take as long as the host waits for a kernel that hangs in timing order already."""
        if any(one.kind == "HANG" for said in timing for one in said.findings):
            return Said("random", place.described.size.label, not_covered=["random order: it hangs in timing order"])
        effort = self._effort
        if timing:
            effort = replace(effort, max_events=PATIENCE * timing[0].events + LEAST_EVENTS)
        return self._by("random", in_random_orders, place, effort)

    def _by(self, engine: Engine, run: Run, place: Place, effort: Effort) -> Said:
        size = place.described.size.label
        self._observer.progress(f"{self._scenario.name}: {engine} order, {size}")
        return safely(partial(run, self._machine, place.described, place.sources, effort), engine, size)

    def _is_idle(self, place: Place) -> bool:
        """Would every expectation hold if no kernel ran?"""
        stage = Stage(self._machine, place.described, place.sources)
        try:
            return stage.idle()
        finally:
            stage.free()

    def _what_if(self, said: Sequence[Said]) -> dict[str, Any]:
        explored_whole = [one for one in said if one.engine == "explore" and one.tries and not one.not_covered]
        small = self._place(self._scenario.small_size()) if explored_whole else None
        events = max(one.events for one in said)
        bench = Bench(self._machine, self._place(self._scenario.sizes()[0]), small, events)
        if any(one.findings for one in said):
            found = search(bench, said, self._effort)
            mended = found.repair and _repair_row(found.repair)
            return {"repair": mended, "repairs_tried": found.tried, "repairs_all_tried": found.complete}
        return {
            "orderings": [
                {
                    "at": one.change.edits[0].site.own_place,
                    "inlined_from": str(one.change.edits[0].site.source),
                    "change": one.change.edits[0].about,
                    "is": one.answer,
                    "by": one.by,
                }
                for one in needed(bench, self._effort)
            ]
        }


def _not_covered(verdict: Verdict, said: Sequence[Said]) -> list[str]:
    return list(dict.fromkeys([*verdict.not_covered, *(one.cut_short for one in said if one.cut_short)]))


def _relative(path: Path) -> str:
    """As it is named from here, if it is below."""
    absolute, here = path.resolve(), Path.cwd()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else absolute.as_posix()


def _row(said: Said) -> Row:
    return {
        "engine": said.engine,
        "size": said.size,
        "tried": tried(said),
        "says": _says(said),
        "tries": said.tries,
        "elapsed_us": None if said.elapsed_ns is None else said.elapsed_ns / 1e3,
        "elapsed_us_p95": None,
        "findings": len(said.findings),
        "not_covered": list(said.not_covered),
    }


def _says(said: Said) -> str:
    if said.findings:
        kinds = dict.fromkeys(finding.kind for finding in said.findings)
        return ", ".join(kinds)
    if not said.tries:
        return "did not run"
    return "nothing wrong" if said.engine != "explore" or not said.not_covered else "nothing wrong so far"


def _repair_row(mended: Repair) -> Row:
    """An edit in all calls of a helper is one line: that of the helper."""
    made = Counter((edit.site.source, edit.about) for edit in mended.edits)
    edits: list[Row] = []
    for edit in mended.edits:
        at = str(edit.site.source) if made[edit.site.source, edit.about] > 1 else edit.site.own_place
        row = {"at": at, "inlined_from": str(edit.site.source), "change": edit.about}
        edits += [row] if row not in edits else []
    return {"edits": edits, "advice": mended.advice, "tried": mended.tried}
