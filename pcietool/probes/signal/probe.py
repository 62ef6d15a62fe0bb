"""signal-latency: how long one GPU's signal takes to reach another, what waiting for it costs, and what polls cost.

Puts the parts together; must not know how blocks take turns (`ping_pong`), what is compared (`trials`), or what is
right (`checks`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pcietool.contract.results import Observer, ProbeResult, Row
from pcietool.machines.base import Machine
from pcietool.probes.common.checks import guard_check, judge, survived
from pcietool.probes.common.options import Transport
from pcietool.probes.common.runner import Case, run_transports
from pcietool.probes.common.world import SELF_RANKS, World
from pcietool.probes.signal import checks
from pcietool.probes.signal.config import SignalConfig
from pcietool.probes.signal.effort import Effort
from pcietool.probes.signal.ping_pong import PingPongMemory, slot_rows
from pcietool.probes.signal.trials import (
    TrialRunner,
    base_trial,
    every_pair,
    ordered_pairs,
    under_load,
    variations,
)
from pcietool.units import micros

NAME = "signal-latency"
METHOD = (
    "one way: half of a round trip, in which one block stores round k to its partner's slot (st.release.sys) and the"
    " partner waits and answers, begun by the writer; each round by the SM clock of the block that begins, scaled to"
    " globaltimer over the same kernel"
)
PLACES: dict[Transport, str] = {
    "peer": "Slots lie in the memory of the GPU that waits; with remote polls, in that of the GPU that writes.",
    "host": "Slots lie in host memory: every store and every poll crosses PCIe.",
    "self": "Two blocks of one GPU: no link, the floor for everything else.",
}


SignalCase: TypeAlias = Case[SignalConfig, Effort]


def run(machine: Machine, config: SignalConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""

    def method(transport: Transport) -> str:
        return f"{METHOD}\n{PLACES[transport]}"

    return run_transports(NAME, machine, config, observer, method, lambda _: Effort.of(machine, config), _measure)


def _measure(case: SignalCase) -> None:
    """Raises Hung."""
    config, effort, result = case.config, case.effort, case.result
    memory = _memory(case, case.transport)
    world = memory.world
    base = base_trial(config, world)
    runner = TrialRunner(memory, effort, result, case.observer)
    if config.inject:
        runner.wrong += checks.inject(memory, config.inject, base.pairs[0])
        result.checks.append(survived(config.inject))
    pair_rows = [row | {"in_matrix": True} for row in runner.compare(every_pair(base, world))]
    result.matrix = _matrix(world, pair_rows)
    result.rows += pair_rows
    result.rows += runner.compare(variations(base, config, effort, world))
    if config.loads:
        loaded = TrialRunner(memory, effort.under_load(), result, case.observer)
        result.rows += loaded.compare([base, *under_load(base, config, world)])[1:]
        runner.wrong += loaded.wrong
    if case.transport == "peer" and "remote" in config.polls:
        result.rows += runner.remote_pollers(base.pairs[0])
    result.checks += checks.self_tests(memory, ordered_pairs(world))
    floor = _floor(case)
    result.checks += [checks.payload_check(runner.wrong, result.rows), guard_check(world)]
    result.checks += checks.plausibility(case.machine, world, result.matrix["cells"], floor)
    memory.free()
    world.free()
    result.status, result.reason = judge(result.checks)
    result.verdict = _verdict(result, pair_rows)


def _memory(case: SignalCase, transport: Transport) -> PingPongMemory:
    ranks = SELF_RANKS if transport == "self" else case.ranks
    world = World.build(case.machine, transport, ranks, slot_rows(ranks), case.config.timeout_s)
    return PingPongMemory(world, case.effort.largest_payload, case.effort.bulk)


def _floor(case: SignalCase) -> float:
    """One way between two blocks of one GPU, in us, which no link can beat. Raises Hung."""
    memory = _memory(case, "self")
    runner = TrialRunner(memory, case.effort, case.result, case.observer)
    [row] = runner.compare([base_trial(case.config, memory.world)])
    memory.free()
    memory.world.free()
    median: float = row["one_way_us_p50"]
    return median


def _matrix(world: World, rows: list[Row]) -> dict[str, Any]:
    ranks = range(world.size)
    medians = {(row["writer"], row["owner"]): row["one_way_us_p50"] for row in rows}
    return {
        "figure": "one way, median",
        "unit": "us",
        "labels": [f"block {rank}" if world.transport == "self" else f"GPU {rank}" for rank in ranks],
        "cells": [[medians.get((writer, owner)) for owner in ranks] for writer in ranks],
    }


def _verdict(result: ProbeResult, rows: list[Row]) -> str:
    medians = sorted(row["one_way_us_p50"] for row in rows)
    middle, least, most = medians[(len(medians) - 1) // 2], medians[0], medians[-1]
    spread = f", {micros(least)} to {micros(most)} µs by pair" if micros(least) != micros(most) else ""
    believable = all(check["passed"] for check in result.checks if check.get("severity") == "warn")
    return (
        f"a signal takes {micros(middle)} µs one way (median{spread}), which is {'' if believable else 'not '}plausible"
    )
