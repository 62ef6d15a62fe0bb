"""barrier-latency: what an all-GPU barrier costs, by what it orders and how it is launched, and whether it blocks.

Must not compare with other libraries; `compare-nccl` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.machines.base import Machine
from pcietool.probes.barrier.config import FLOOR_NEEDS, BarrierConfig, Mode, Order
from pcietool.probes.barrier.kernel import (
    DELAY,
    DIE,
    DROP,
    INJECTION_SHARED_BYTES,
    ORDERS,
    Barrier,
)
from pcietool.probes.common.checks import check, guard_check, judge, survived
from pcietool.probes.common.effort import effort_for, split_rounds
from pcietool.probes.common.injections import amount
from pcietool.probes.common.options import MAX_ROUNDS
from pcietool.probes.common.runner import Case, run_transports
from pcietool.probes.common.world import NOT_PLACED, World
from pcietool.stats import max_over_ranks, median_interval, summarise
from pcietool.units import micros

NAME = "barrier-latency"
NODES = 20
"""Barriers of one graph, or launched back to back."""
MODES: tuple[Mode, ...] = ("in-kernel", "graph", "launched")
"""By how little there is beside the barrier."""
DELAY_NS = 200_000
DELAY_SPANS = 4
"""The least that a late rank is late, and how many times what the kernel takes without it: on a slow link that is
more."""
SELF_TEST_ROUND = 4
TIMER_STEP_US = 1.1  # the coarsest globaltimer known steps by 1.024 us
METHOD = (
    "period of one barrier, all ranks; in-kernel: per round the slowest rank, SM clock scaled to globaltimer over the"
    f" same kernel; launched and graph: GPU events around {NODES} barriers, shortest GPU (the others also waited for"
    " the last one to be started); mean: the whole kernel by its rounds. Ranks are slow by turns and a round counts as"
    " its slowest, so min can lie above mean: compare means with means"
)


@dataclass(frozen=True)
class Effort:
    """How often things run."""

    rounds: int
    launches: int
    replays: int

    @classmethod
    def of(cls, machine: Machine, config: BarrierConfig) -> Effort:
        usual = effort_for(machine, cuda=cls(2000, 9, 40), emulated=cls(50, 2, 1), launches=config.launches)
        total = config.iterations or usual.rounds
        rounds, launches = split_rounds(total, MAX_ROUNDS - config.warmup, usual.launches)
        return cls(rounds, launches, usual.replays)


BarrierCase: TypeAlias = Case[BarrierConfig, Effort]


def run(machine: Machine, config: BarrierConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""
    return run_transports(
        NAME, machine, config, observer, lambda _: METHOD, lambda _: Effort.of(machine, config), _measure
    )


def _measure(case: BarrierCase) -> None:
    """Raises Hung."""
    result = case.result
    sweeps = case.config.sweep and case.transport != "self"
    for size in range(2, case.ranks + 1) if sweeps else [case.ranks]:
        _measure_world(case, size)
    result.status, result.reason = judge(result.checks)
    result.verdict = _verdict(result.rows)
    if result.status is Status.PASS and not _measured(result.rows):
        result.status = Status.ERROR
        result.reason = next((row["reason"] for row in result.rows), None)


def _measured(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["mean_period_us"] is not None]


def _verdict(rows: list[Row]) -> str:
    """Of the most ranks: the strongest order, in the mode that has the least beside it, and what the order costs."""
    measured = _measured(rows)
    if not measured:
        return "nothing was measured"
    orders: list[Order] = list(ORDERS)
    best = min(measured, key=lambda row: (-row["world"], MODES.index(row["mode"]), orders.index(row["order"])))
    article = "an" if best["order"] == "article" else "a"
    text = (
        f"{best['world']} ranks pass {article} {best['order']} barrier in {micros(best['mean_period_us'])} µs"
        f" ({best['mode']}, mean period)"
    )
    beside = [row for row in measured if (row["world"], row["mode"]) == (best["world"], best["mode"])]
    floor = next((row["mean_period_us"] for row in beside if row["order"] == "floor"), None)
    if floor is None or best["order"] == "floor":
        return text
    return f"{text}, {micros(best['mean_period_us'] - floor)} µs above the floor of relaxed signals"


def _measure_world(case: BarrierCase, size: int) -> None:
    config, result = case.config, case.result
    world = World.build(case.machine, case.transport, size, rows=2, deadline_s=config.timeout_s)
    if config.inject:
        _inject(world, config)
        result.checks.append(survived(config.inject))
    barriers = []
    for order in config.orders:
        case.progress(f"{size} ranks: compiling {order}")
        barriers.append(Barrier(case.machine, world, order, config))
    case.progress(f"{size} ranks: does it block?")
    for found in _self_tests(world, config):
        result.checks.append(found)
    for number, mode in enumerate(config.modes, start=1):
        case.progress(f"{size} ranks: {mode}, {number} of {len(config.modes)}")
        reasons = {barrier: _why_not(case.machine, barrier, mode) for barrier in barriers}
        measure = {"in-kernel": _in_kernel, "launched": _launched, "graph": _in_graph}[mode]
        able = [barrier for barrier in barriers if reasons[barrier] is None]
        for barrier, figures in measure(able, case):
            result.rows.append(_row(barrier, mode) | figures)
        for barrier, reason in reasons.items():
            if reason is not None:
                result.rows.append(_row(barrier, mode) | {"mean_period_us": None, "reason": reason})
    result.checks.append(guard_check(world, f"{size} ranks: "))
    for barrier in barriers:
        barrier.free()
    world.free()


def _why_not(machine: Machine, barrier: Barrier, mode: Mode) -> str | None:
    """Why this barrier cannot be measured in that mode, or None."""
    if barrier.order == "floor" and mode != "in-kernel":
        return FLOOR_NEEDS
    return machine.missing("graphs") if mode == "graph" else None


def _row(barrier: Barrier, mode: Mode) -> Row:
    """What was done; figures come beside it."""
    return {
        "world": barrier.world.size,
        "order": barrier.order,
        "mode": mode,
        "blocks": barrier.blocks,
        "threads": barrier.threads,
        "nanosleep_ns": barrier.nanosleep_ns,
        "slot_poll_cycles": barrier.world.poll_cycles,
        **({} if barrier.world.poll_cycles else {"slot_poll_cycles_reason": NOT_PLACED}),
    }


# -- measuring --------------------------------------------------------------------------------------------------------


def _in_kernel(barriers: list[Barrier], case: BarrierCase) -> Iterator[tuple[Barrier, Row]]:
    """Orders take turns launch by launch, so that drift hits all of them alike."""
    effort, warmup = case.effort, case.config.warmup
    rounds = effort.rounds + warmup
    slowest: dict[Order, list[np.ndarray]] = {barrier.order: [] for barrier in barriers}
    means: dict[Order, list[float]] = {barrier.order: [] for barrier in barriers}
    for _ in range(effort.launches):
        for barrier in barriers:
            barrier.world.run(barrier.rounds(rounds), f"{barrier.order} in-kernel")
            slowest[barrier.order].append(max_over_ranks(barrier.read_periods_ns(rounds))[warmup:] / 1e3)
            means[barrier.order].append(float(barrier.read_spans_ns().max()) / rounds / 1e3)
    for barrier in barriers:
        launches = slowest[barrier.order]
        case.result.samples[f"{case.transport}/{barrier.world.size}/{barrier.order}/period_us"] = np.array(launches)
        yield (
            barrier,
            {
                "rounds": effort.rounds,
                "warmup": warmup,
                "launches": effort.launches,
                **summarise(np.concatenate(launches), "period_us"),
                **median_interval([float(np.median(launch)) for launch in launches]).row("period_us_of_launches"),
                "mean_period_us": float(np.median(means[barrier.order])),
            },
        )


def _launched(barriers: list[Barrier], case: BarrierCase) -> Iterator[tuple[Barrier, Row]]:
    """NODES launches of one barrier each, back to back on every GPU."""
    yield from _replayed(barriers, case, "launched", ", one launch a barrier")


def _in_graph(barriers: list[Barrier], case: BarrierCase) -> Iterator[tuple[Barrier, Row]]:
    """A CUDA graph of NODES barriers, replayed."""
    yield from _replayed(barriers, case, "graph", " in a graph")


def _replayed(barriers: list[Barrier], case: BarrierCase, mode: Mode, how: str) -> Iterator[tuple[Barrier, Row]]:
    for barrier in barriers:
        launches = [launch for _ in range(NODES) for launch in barrier.once()]
        replay_us = barrier.world.replayer(launches, NODES, graph=mode == "graph")
        periods = np.array([replay_us(f"{barrier.order}{how}") for _ in range(case.effort.replays + 1)][1:])
        case.result.samples[f"{case.transport}/{barrier.world.size}/{barrier.order}/{mode}/period_us"] = periods
        figures = summarise(periods, "period_us")
        if len(periods) == 1:
            reason = f"one run of {NODES} barriers gives a mean; -n does not change that"
            alone = dict.fromkeys(f"period_us_{name}" for name in ("min", "p50", "p95", "max"))
            figures |= alone | {"period_us_reason": reason}
        yield (
            barrier,
            {
                "rounds": NODES,
                "warmup": NODES,
                "launches": len(periods),
                **figures,
                **median_interval(periods).row("period_us_of_launches"),
                "mean_period_us": float(periods.mean()),
            },
        )


# -- does it block? ---------------------------------------------------------------------------------------------------


def _self_tests(world: World, config: BarrierConfig) -> Iterator[Row]:
    """Each rank in turn starts a round late: no block of any other rank may leave that round before. The same test must
    fail on a barrier without its wait.

    Each of the others was there before the late rank began to be late, since that one had passed earlier rounds with
    them; so by its own timer the whole kernel takes at least the delay, however the launches were staggered.
    """
    for order in config.orders:
        late, shortest = _least_span_us(Barrier(world.machine, world, order, config, inject=True))
        text = f"{world.size} ranks: each {late:.0f} µs late once, no block of another leaves before {shortest:.1f} µs"
        yield check(f"{order} barrier blocks", shortest >= late - TIMER_STEP_US, text)
    late, shortest = _least_span_us(Barrier(world.machine, world, "publishing", config, no_wait=True, inject=True))
    text = f"{world.size} ranks: one {late:.0f} µs late, another leaves after {shortest:.1f} µs"
    yield check("control without a wait is caught", shortest < late * 0.5, text)


def _least_span_us(barrier: Barrier) -> tuple[float, float]:
    """How late each rank was once, long beside the kernel without it, and the shortest time that any block of another
    one spent in the kernel meanwhile; frees the barrier."""

    def shortest_ns(late: int, delay_ns: int) -> float:
        # The last round: a block that leaves it early is done. Without a block barrier (floor) one thread is late, and
        # holds the others of its rank only before the round after.
        rounds = SELF_TEST_ROUND + (barrier.order == "floor")
        launches = barrier.rounds(rounds, DELAY, rank=late, round_=SELF_TEST_ROUND, delay_ns=delay_ns)
        barrier.world.run(launches, f"self-test of {barrier.order}")
        return float(np.delete(barrier.read_block_spans_ns(), late, axis=0).min())

    undelayed_ns = shortest_ns(0, 0)  # the first run of a kernel is slow for reasons of its own
    delay_ns = int(max(DELAY_NS, min(DELAY_SPANS * undelayed_ns, barrier.world.deadline_s / 4 * 1e9)))
    least_ns = min(shortest_ns(late, delay_ns) for late in range(barrier.world.size))
    barrier.free()
    return delay_ns / 1e3, least_ns / 1e3


# -- failures on request ----------------------------------------------------------------------------------------------


def _inject(world: World, config: BarrierConfig) -> None:
    """Makes the failure that was asked for. A stall is survived; everything else must end as a hang."""
    assert config.inject is not None
    if config.inject == "beyond-residency":
        probe = Barrier(world.machine, world, "publishing", config)
        room = world.machine.resident_blocks(0, probe.rounds_kernel, probe.threads, INJECTION_SHARED_BYTES)
        barrier = Barrier(world.machine, world, "publishing", replace(config, blocks=room + 1))
        launches = barrier.rounds(1)
        during = f"a grid of {room + 1} blocks a rank where {room} are resident"
    else:
        barrier = Barrier(world.machine, world, "publishing", config, inject=True)
        kind = {"dead-rank": DIE, "drop-signal": DROP}.get(config.inject, DELAY)
        delay_ns = amount(config.inject) * 1000
        # a dropped signal only shows if no later one follows: sequences heal
        launches = barrier.rounds(SELF_TEST_ROUND, kind, rank=world.size - 1, round_=SELF_TEST_ROUND, delay_ns=delay_ns)
        during = f"--inject {config.inject}"
    world.run(launches, during)
