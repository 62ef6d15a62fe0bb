"""signal-latency: how long one GPU's signal takes to reach another, what waiting for it costs, and what polls cost.

Puts the parts together; must not know how blocks take turns (`ping_pong`), what is compared (`trials`), or what is
right (`checks`).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pcietool.contract.results import Observer, ProbeResult, Row
from pcietool.machines.base import Machine
from pcietool.probes.common.injections import survived
from pcietool.probes.common.options import Transport
from pcietool.probes.common.runner import run_each
from pcietool.probes.common.world import SELF_RANKS, World, runnable
from pcietool.probes.signal import checks
from pcietool.probes.signal.config import SignalConfig
from pcietool.probes.signal.effort import Effort
from pcietool.probes.signal.ping_pong import PingPongMemory, slot_rows
from pcietool.probes.signal.trials import (
    Trial,
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


def run(machine: Machine, config: SignalConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""

    def measure(transport: Transport, result: ProbeResult) -> None:
        _measure(machine, transport, config, observer, result)

    def method(transport: Transport) -> str:
        return f"{METHOD}\n{PLACES[transport]}"

    return run_each(NAME, runnable(machine, config.transport), method, measure, observer)


def _measure(
    machine: Machine, transport: Transport, config: SignalConfig, observer: Observer, result: ProbeResult
) -> None:
    """Raises Hung."""
    effort = Effort.of(machine.backend, config)
    result.effort = asdict(effort)
    memory = _memory(machine, transport, effort, config)
    world = memory.world
    base = base_trial(config, world)
    runner = TrialRunner(memory, effort, result, observer)
    if config.inject:
        runner.wrong += checks.inject(memory, config.inject, base.pairs[0])
        result.checks.append(survived(config.inject))
    pair_rows = [row | {"in_matrix": True} for row in runner.compare(every_pair(base, world))]
    result.matrix = _matrix(world, pair_rows)
    result.rows += pair_rows
    result.rows += runner.compare(variations(base, config, effort, world))
    if config.loads:
        loaded = TrialRunner(memory, effort.under_load(), result, observer)
        result.rows += loaded.compare([base, *under_load(base, config, world)])[1:]
        runner.wrong += loaded.wrong
    if transport == "peer" and "remote" in config.polls:
        result.rows += runner.remote_pollers(base.pairs[0])
    result.checks += checks.self_tests(memory, ordered_pairs(world))
    floor = _floor(machine, base, effort, config, result, observer)
    result.checks += [checks.payload_check(runner.wrong, result.rows), checks.guard_check(world)]
    result.checks += checks.plausibility(machine, world, result.matrix["cells"], floor)
    memory.free()
    world.free()
    result.status, result.reason = checks.judge(result.checks)
    result.verdict = _verdict(result, pair_rows)


def _memory(machine: Machine, transport: Transport, effort: Effort, config: SignalConfig) -> PingPongMemory:
    ranks = SELF_RANKS if transport == "self" else len(machine.devices)
    world = World.build(machine, transport, ranks, rows=slot_rows(ranks))
    return PingPongMemory(world, effort.largest_payload, effort.bulk, config.timeout_s)


def _floor(
    machine: Machine, base: Trial, effort: Effort, config: SignalConfig, result: ProbeResult, observer: Observer
) -> float:
    """One way between two blocks of one GPU, in us, which no link can beat. Raises Hung."""
    memory = _memory(machine, "self", effort, config)
    [row] = TrialRunner(memory, effort, result, observer).compare([base_trial(config, memory.world)])
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
