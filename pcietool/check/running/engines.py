"""The three ways to try a scenario without a GPU, cheapest first: in timing order, in random orders, in every order.

Each stops where it has been told enough; must not judge over all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from pcietool.check.running import findings
from pcietool.check.running.findings import Finding, Said
from pcietool.check.running.play import Played, Stage
from pcietool.check.running.sources import Built, Sources
from pcietool.check.running.traffic import Traffic
from pcietool.check.scenario import Described
from pcietool.check.world import Round
from pcietool.contract.outcomes import Printed
from pcietool.emulator.engine.variants import MAX_EVENTS
from pcietool.errors import EmulationError, EndlessError, PcietoolError, ScenarioError
from pcietool.machines.base import Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.supervision.forks import in_order
from pcietool.units import count

Progress = Callable[[str], None]
ENOUGH_HANGS = 3
"""Of random order: each may cost seconds, and says the same."""


@dataclass(frozen=True)
class Effort:
    """How hard to try. `first`: a finding is enough; else all seeds are tried, so that it is known how often."""

    seeds: range
    deadline_s: float = 0.05
    max_seconds: float = inf
    """Of each engine, by the wall clock."""
    max_states: int = 1_000_000
    max_events: int = MAX_EVENTS
    """Of a run in random order; one that needs more is ended, and says nothing."""
    tear: bool = False
    first: bool = False
    jobs: int = 1
    """On so many cores; what is found does not depend on it."""
    progress: Progress = lambda text: None
    clock: Callable[[], float] = time.monotonic


def timed(
    machine: EmulatedMachine,
    described: Described,
    sources: Sources,
    effort: Effort,
    edits: Mapping[Built, str] | None = None,
) -> Said:
    """One run with the machine's latencies."""
    said = Said("timing", described.size.label, 1)
    stage = Stage(machine, described, sources, edits)
    before = machine.engine.events
    try:
        played = stage.play(effort.deadline_s)
    except EndlessError:
        raise
    except EmulationError as error:
        said.findings = [findings.crash("timing", error, sources.as_written)]
        said.printed = list(machine.engine.taken_prints())
        return said
    finally:
        stage.free()
    said.findings = _found("timing", played, sources)
    said.events = machine.engine.events - before
    said.printed = played.printed
    said.elapsed_ns = played.elapsed_ns if played.finished else None
    return said


def in_random_orders(
    machine: EmulatedMachine,
    described: Described,
    sources: Sources,
    effort: Effort,
    edits: Mapping[Built, str] | None = None,
) -> Said:
    """A run for each seed, with memory as weak as PTX allows and ranks that start late."""
    said = Said("random", described.size.label)
    until = effort.clock() + effort.max_seconds
    by_place: dict[tuple[object, ...], Finding] = {}
    hangs = 0
    seeds = effort.seeds
    run = partial(_in_random_order, machine, described, sources, effort, edits or {})
    for came in in_order(lambda number: run(seeds[number]), len(seeds), effort.jobs):
        said.tries += 1
        said.printed = came.printed if len(seeds) == 1 else []
        if came.refused:
            said.not_covered.append(came.refused)
            break
        if any(one.kind == "CRASH" for one in came.findings):
            said.findings = came.findings
            return said
        for key, one in {(one.kind, *one.places): one for one in came.findings}.items():
            before = by_place.get(key)
            by_place[key] = replace(before, times=before.times + 1) if before else one
        hangs += any(one.kind == "HANG" for one in came.findings)
        if hangs == ENOUGH_HANGS or (effort.first and any(one.matters for one in by_place.values())):
            break
        effort.progress(f"random order: {said.tries} of {len(seeds)} seeds")
        if effort.clock() > until and said.tries < len(seeds):
            said.cut_short = f"{said.tries} of {len(seeds)} seeds in {effort.max_seconds:g} s (--max-seconds)"
            break
    said.findings = list(by_place.values())
    return said


@dataclass(frozen=True)
class _Came:
    """What one seed came to; `refused`: why it says nothing."""

    findings: list[Finding]
    refused: str = ""
    printed: list[Printed] = field(default_factory=list)


def _in_random_order(
    machine: EmulatedMachine,
    described: Described,
    sources: Sources,
    effort: Effort,
    edits: Mapping[Built, str],
    seed: int,
) -> _Came:
    random = EmulatedMachine(machine.spec, machine.gpus, seed, "random", tear=effort.tear)
    random.engine.max_events = effort.max_events
    try:
        with random:
            played = Stage(random, described, sources, edits).play(effort.deadline_s)
    except EndlessError:  # a hang, or much work: here every access is an event, in timing order few are
        return _Came([], f"seed {seed} was still running after {count(effort.max_events)} events, and was ended")
    except EmulationError as error:
        prints = list(random.engine.taken_prints())
        return _Came([findings.crash("random", error, sources.as_written, seed)], printed=prints)
    return _Came(_found("random", played, sources, seed), printed=played.printed)


def _found(engine: findings.Engine, played: Played, sources: Sources, seed: int | None = None) -> list[Finding]:
    name = sources.as_written
    found = [findings.hang(engine, outcome.hang, name, seed) for outcome in played.outcomes if outcome.hang]
    if played.wrong:
        found.append(findings.wrong(engine, played.wrong, seed))
    pairs = (pair for outcome in played.outcomes for pair in outcome.unordered)
    return found + [findings.race(engine, pair, name, seed) for pair in pairs]


def safely(run: Callable[[], Said], engine: findings.Engine, size: str) -> Said:
    """What an engine refuses is not covered; that is said, and ends nothing. A broken scenario ends everything."""
    try:
        return run()
    except ScenarioError:
        raise
    except PcietoolError as error:
        return Said(engine, size, not_covered=[f"{engine}: {error}"])


def tried(said: Said) -> str:
    """Such as "200 seeds"."""
    unit = {"timing": "run", "random": "seed", "explore": "state", "cuda": "run"}[said.engine]
    return f"{count(said.tries)} {unit}{'' if said.tries == 1 else 's'}"


def on_gpus(
    machine: Machine, described: Described, sources: Sources, runs: int, deadline_s: float
) -> tuple[Said, list[float]]:
    """So many runs on real GPUs, in every second one with traffic, and the GPU time of the others, in ns; none after a
    hang."""
    said = Said("cuda", described.size.label)
    graphs = any(isinstance(step, Round) and step.graph for step in described.steps)
    if graphs and described.size.ranks > len(machine.devices):
        said.not_covered.append("graphs: ranks that share a GPU have none, their launches were made one by one")
    stage = Stage(machine, described, sources)
    times: list[float] = []
    try:
        with Traffic(machine) as traffic:
            for number in range(runs):
                if number:
                    stage.begin_again()
                busy = number % 2 == 1
                played = stage.play(deadline_s, traffic.streams if busy else ())
                said.tries += 1
                said.findings += _found("cuda", played, sources)
                if not played.finished:
                    break
                times += [] if busy else [played.elapsed_ns]
    finally:
        stage.free()
    return said, times
