"""barrier-latency: what an all-GPU barrier costs, by what it orders and how it is launched, and whether it blocks.

Must not compare with other libraries; `compare-nccl` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcietool.machines.base import Machine, Outcome
from pcietool.probes.barrier_kernel import (
    DELAY,
    DIE,
    DROP,
    INJECTION_SHARED_BYTES,
    MAX_ROUNDS,
    Barrier,
    BarrierConfig,
    Order,
)
from pcietool.probes.base import Observer, ProbeResult, Row, Status
from pcietool.probes.hangs import Hung, finished, hung
from pcietool.probes.world import Transport, Waived, World, runnable
from pcietool.stats import max_over_ranks, median_interval, summarise

NAME = "barrier-latency"
NODES = 20
"""Barriers of one graph, or launched back to back."""
DELAY_NS = 200_000
SELF_TEST_ROUND = 4
TIMER_STEP_US = 1.1  # the coarsest globaltimer known steps by 1.024 us
METHOD = (
    "period of one barrier, all ranks; in-kernel: per round the slowest rank, SM clock scaled to globaltimer over the"
    " same kernel; launched and graph: GPU events around {nodes} barriers, shortest GPU (the others also waited for"
    " the last one to be started)"
)


@dataclass(frozen=True)
class Effort:
    """How often things run: many on a GPU, few where every instruction is emulated."""

    rounds: int
    launches: int
    replays: int

    @classmethod
    def of(cls, machine: Machine, config: BarrierConfig) -> Effort:
        usual = cls(2000, 9, 40) if machine.backend == "cuda" else cls(50, 2, 1)
        total = config.iterations or usual.rounds
        rounds = min(total, MAX_ROUNDS - config.warmup)
        launches = max(config.launches or usual.launches, -(-total // rounds))
        return cls(rounds, launches, usual.replays)


def run(machine: Machine, config: BarrierConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""
    results = []
    for transport in runnable(machine, config.transport):
        if isinstance(transport, Waived):
            result = ProbeResult(
                NAME, Status.WAIVED, "not run", transport.transport, METHOD.format(nodes=NODES), reason=transport.reason
            )
        else:
            result = _measure(machine, transport, config, observer)
        results.append(result)
        observer.result(result)
        if result.hang and result.hang["limit"] == "host join timeout":
            break
    return results


def _measure(machine: Machine, transport: Transport, config: BarrierConfig, observer: Observer) -> ProbeResult:
    sizes = _world_sizes(machine, transport, config)
    effort = Effort.of(machine, config)
    method = METHOD.format(nodes=NODES)
    result = ProbeResult(NAME, Status.PASS, "", transport, method)
    try:
        for size in sizes:
            _measure_world(machine, transport, size, config, effort, observer, result)
    except Hung as stopped:
        hang = hung(NAME, transport, method, stopped.hang, stopped.during)
        hang.rows, hang.checks = result.rows, result.checks
        return hang
    failed = [check for check in result.checks if not check["passed"]]
    if failed:
        result.status = Status.FAIL
        result.reason = f"{failed[0]['name']}: {failed[0]['text']}"
    result.verdict = _verdict(result.rows, sizes[-1])
    return result


def _world_sizes(machine: Machine, transport: Transport, config: BarrierConfig) -> list[int]:
    if transport == "self":
        return [2]
    count = len(machine.devices)
    return list(range(2, count + 1)) if config.sweep else [count]


def _verdict(rows: list[Row], size: int) -> str:
    best = next((r for r in rows if r["world"] == size and r["mode"] == "in-kernel"), rows[-1] if rows else None)
    if best is None:
        return "nothing was measured"
    return f"{size} ranks pass a {best['order']} barrier in {best['period_us_p50']:.2f} us ({best['mode']}, median)"


def _measure_world(
    machine: Machine,
    transport: Transport,
    size: int,
    config: BarrierConfig,
    effort: Effort,
    observer: Observer,
    result: ProbeResult,
) -> None:
    world = World.build(machine, transport, size, rows=2)
    if config.inject:
        _inject(machine, world, config)
    barriers = []
    for order in config.orders:
        if order == "floor" and config.threads < size:
            continue
        observer.progress(f"{transport}, {size} ranks: compiling {order}")
        barriers.append(Barrier(machine, world, order, config))
    observer.progress(f"{transport}, {size} ranks: does it block?")
    result.checks += _self_tests(machine, world, config)
    for mode in config.modes:
        observer.progress(f"{transport}, {size} ranks: {mode}")
        measure = {"in-kernel": _in_kernel, "launched": _launched, "graph": _in_graph}[mode]
        reason = machine.missing("graphs") if mode == "graph" else None
        for barrier, row in measure(barriers, config, effort, result.samples) if reason is None else ():
            result.rows.append(
                {
                    "world": size,
                    "order": barrier.order,
                    "mode": mode,
                    "blocks": barrier.blocks,
                    "threads": barrier.threads,
                    "nanosleep_ns": barrier.nanosleep_ns,
                    **row,
                }
            )
    damage = world.damaged_guards()
    result.checks.append(
        {"name": f"guard words, {size} ranks", "passed": not damage, "text": "; ".join(damage) or "untouched"}
    )
    for barrier in barriers:
        barrier.free()
    world.free()


# -- measuring --------------------------------------------------------------------------------------------------------


def _in_kernel(
    barriers: list[Barrier], config: BarrierConfig, effort: Effort, samples: dict[str, Any]
) -> Iterator[tuple[Barrier, Row]]:
    """Orders take turns launch by launch, so that drift hits all of them alike."""
    rounds = effort.rounds + config.warmup
    slowest: dict[Order, list[np.ndarray]] = {barrier.order: [] for barrier in barriers}
    means: dict[Order, list[float]] = {barrier.order: [] for barrier in barriers}
    for _ in range(effort.launches):
        for barrier in barriers:
            machine = barrier.world.machine
            finished(machine.run(barrier.rounds(rounds), config.timeout_s), f"{barrier.order} in-kernel")
            slowest[barrier.order].append(max_over_ranks(barrier.read_periods_ns(rounds))[config.warmup :] / 1e3)
            means[barrier.order].append(float(barrier.read_spans_ns().max()) / rounds / 1e3)
    for barrier in barriers:
        launches = slowest[barrier.order]
        world = barrier.world
        samples[f"{world.transport}/{world.size}/{barrier.order}/period_us"] = np.array(launches)
        yield (
            barrier,
            {
                "rounds": effort.rounds,
                "warmup": config.warmup,
                "launches": effort.launches,
                **summarise(np.concatenate(launches), "period_us"),
                **median_interval([float(np.median(launch)) for launch in launches]).row("period_us_of_launches"),
                "mean_period_us": float(np.median(means[barrier.order])),
            },
        )


def _launched(
    barriers: list[Barrier], config: BarrierConfig, effort: Effort, samples: dict[str, Any]
) -> Iterator[tuple[Barrier, Row]]:
    """NODES launches of one barrier each, back to back on every GPU."""
    for barrier in barriers:
        if barrier.order == "floor":
            continue
        machine = barrier.world.machine
        launches = [launch for _ in range(NODES) for launch in barrier.once()]
        outcomes = [
            finished(machine.run(launches, config.timeout_s), f"{barrier.order}, one launch a barrier")
            for _ in range(effort.replays + 1)
        ]
        yield barrier, _replay_row(barrier, "launched", outcomes[1:], samples)


def _in_graph(
    barriers: list[Barrier], config: BarrierConfig, effort: Effort, samples: dict[str, Any]
) -> Iterator[tuple[Barrier, Row]]:
    """A CUDA graph of NODES barriers, replayed."""
    for barrier in barriers:
        if barrier.order == "floor":
            continue
        graph = barrier.world.machine.graph([launch for _ in range(NODES) for launch in barrier.once()])
        outcomes = [
            finished(graph.run(config.timeout_s), f"{barrier.order} in a graph") for _ in range(effort.replays + 1)
        ]
        yield barrier, _replay_row(barrier, "graph", outcomes[1:], samples)


def _replay_row(barrier: Barrier, mode: str, outcomes: list[Outcome], samples: dict[str, Any]) -> Row:
    periods = np.array([min(outcome.elapsed_ns.values()) / NODES / 1e3 for outcome in outcomes])
    world = barrier.world
    samples[f"{world.transport}/{world.size}/{barrier.order}/{mode}/period_us"] = periods
    return {
        "rounds": NODES,
        "warmup": NODES,
        "launches": len(outcomes),
        **summarise(periods, "period_us"),
        **median_interval(periods).row("period_us_of_launches"),
        "mean_period_us": float(periods.mean()),
    }


# -- does it block? ---------------------------------------------------------------------------------------------------


def _self_tests(machine: Machine, world: World, config: BarrierConfig) -> list[Row]:
    """One rank starts a round DELAY_NS late: no other rank may leave that round before. The same test must fail on
    a barrier without its wait.

    Each of the others was there before the late rank began to be late, since that one had passed earlier rounds with
    them; so by its own timer the whole kernel takes at least the delay, however the launches were staggered.
    """
    checks = []
    for order in config.orders:
        shortest = _least_span_us(Barrier(machine, world, order, config, inject=True))
        checks.append(
            {
                "name": f"{order} barrier blocks, {world.size} ranks",
                "passed": shortest >= DELAY_NS / 1e3 - TIMER_STEP_US,
                "text": f"one rank {DELAY_NS / 1e3:.0f} us late, no other leaves before {shortest:.1f} us",
            }
        )
    shortest = _least_span_us(Barrier(machine, world, "publishing", config, no_wait=True, inject=True))
    checks.append(
        {
            "name": f"control without a wait is caught, {world.size} ranks",
            "passed": shortest < DELAY_NS / 1e3 * 0.5,
            "text": f"one rank {DELAY_NS / 1e3:.0f} us late, another leaves after {shortest:.1f} us",
        }
    )
    return checks


def _least_span_us(barrier: Barrier) -> float:
    """The shortest time that any rank but the late one spent in the kernel; frees the barrier."""
    machine, config = barrier.world.machine, barrier.config
    rounds = SELF_TEST_ROUND + 1
    for delay_ns in (0, DELAY_NS):  # the first run of a kernel is slow for reasons of its own
        launches = barrier.rounds(rounds, DELAY, rank=0, round_=SELF_TEST_ROUND, delay_ns=delay_ns)
        finished(machine.run(launches, config.timeout_s), f"self-test of {barrier.order}")
    shortest = float(barrier.read_spans_ns()[1:].min()) / 1e3
    barrier.free()
    return shortest


# -- failures on request ----------------------------------------------------------------------------------------------


def _inject(machine: Machine, world: World, config: BarrierConfig) -> None:
    """Makes the failure that was asked for. A stall is survived; everything else must end as a hang."""
    assert config.inject is not None
    if config.inject == "beyond-residency":
        probe = Barrier(machine, world, "publishing", config)
        room = machine.resident_blocks(0, probe.rounds_kernel, probe.threads, INJECTION_SHARED_BYTES)
        barrier = Barrier(machine, world, "publishing", config.model_copy(update={"blocks": room + 1}))
        launches = barrier.rounds(1)
        during = f"a grid of {room + 1} blocks a rank where {room} are resident"
    else:
        barrier = Barrier(machine, world, "publishing", config, inject=True)
        kind, delay_ns = {"dead-rank": (DIE, 0), "drop-signal": (DROP, 0)}.get(
            config.inject, (DELAY, int(config.inject.removeprefix("stall=") or 0) * 1000 if "=" in config.inject else 0)
        )
        # a dropped signal only shows if no later one follows: sequences heal
        launches = barrier.rounds(SELF_TEST_ROUND, kind, rank=world.size - 1, round_=SELF_TEST_ROUND, delay_ns=delay_ns)
        during = f"--inject {config.inject}"
    finished(machine.run(launches, config.timeout_s), during)
