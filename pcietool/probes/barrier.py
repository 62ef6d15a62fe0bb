"""barrier-latency: what an all-GPU barrier costs, by what it orders and how it is launched, and whether it blocks.

Must not compare with other libraries; `compare-nccl` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from pcietool.machines.base import Hang, Launch, Machine, Outcome
from pcietool.probes.base import Observer, ProbeResult, Row, Status
from pcietool.probes.hangs import hung
from pcietool.probes.world import Transport, Waived, World, runnable
from pcietool.report.stats import max_over_ranks, median_interval, summarise

NAME = "barrier-latency"
Order = Literal["publishing", "relaxed", "article", "floor"]
Mode = Literal["in-kernel", "launched", "graph"]
ORDERS: dict[Order, int] = {"publishing": 0, "relaxed": 1, "article": 2, "floor": 3}
"""The values of ORDER in kernels/barrier.cu."""
ARTICLE_NANOSLEEP_NS = 64
MAX_ROUNDS = 8192
"""Time stamps of one launch wait in shared memory, 4 bytes a round, below the 48 KiB every GPU gives."""
NODES = 20
"""Barriers of one graph, or launched back to back."""
DELAY_NS = 200_000
SELF_TEST_ROUND = 4
NO_INJECTION, DIE, DROP, DELAY = range(4)
INJECTION_SHARED_BYTES = 96 * 1024
"""Makes few blocks resident, so that a grid beyond residency stays small."""

METHOD = (
    "period of one barrier, all ranks; in-kernel: per round the slowest rank, SM clock scaled to globaltimer over the"
    " same kernel; launched and graph: GPU events around {nodes} barriers, shortest GPU (the others also waited for"
    " the last one to be started)"
)


class BarrierConfig(BaseModel):
    """What to measure. `iterations` and `launches` of None mean the machine's usual number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    transport: Transport | Literal["all"] | None = None
    iterations: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    warmup: Annotated[int, Field(ge=0, le=MAX_ROUNDS // 2)] = 20
    launches: Annotated[int, Field(ge=1)] | None = None
    timeout_s: Annotated[float, Field(gt=0)] = 2.0
    threads: Annotated[int, Field(ge=32, le=1024, multiple_of=32)] = 32
    blocks: Annotated[int, Field(ge=1)] = 1
    nanosleep_ns: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    orders: tuple[Order, ...] = ("publishing", "relaxed", "article", "floor")
    modes: tuple[Mode, ...] = ("in-kernel", "launched", "graph")
    sweep: bool = False
    inject: Annotated[str, Field(pattern=r"^(dead-rank|drop-signal|beyond-residency|stall=\d+)$")] | None = None


@dataclass(frozen=True)
class Effort:
    """How often things run: many on a GPU, few where every instruction is emulated."""

    rounds: int
    launches: int
    replays: int

    @classmethod
    def of(cls, machine: Machine, config: BarrierConfig) -> Effort:
        usual = cls(2000, 9, 40) if machine.backend == "cuda" else cls(60, 3, 2)
        total = config.iterations or usual.rounds
        rounds = min(total, MAX_ROUNDS - config.warmup)
        launches = max(config.launches or usual.launches, -(-total // rounds))
        return cls(rounds, launches, usual.replays)


class Barrier:
    """The barrier kernel of one order on one world."""

    def __init__(
        self, machine: Machine, world: World, order: Order, config: BarrierConfig, *, no_wait: bool = False
    ) -> None:
        self.world = world
        self.order = order
        self.config = config
        self.nanosleep_ns = ARTICLE_NANOSLEEP_NS if order == "article" else config.nanosleep_ns
        self.blocks = 1 if order == "floor" else config.blocks
        self.threads = 32 if order == "floor" else config.threads
        defines = {"ORDER": ORDERS[order], "BLOCKS": self.blocks, "NO_WAIT": int(no_wait)}
        self.kernel = machine.load("barrier.cu", defines).kernel("barrier_rounds")
        ranks = world.size
        self.base = world.per_device(4 * ranks, "sequence")
        self.local = world.per_device(8 * ranks, "arrival counters")
        self.stamps = world.per_device(4 * ranks * (MAX_ROUNDS + 1), "time stamps")
        self.spans = world.per_device(16 * ranks, "time spans")

    def launches(
        self, rounds: int, injection: int = NO_INJECTION, rank: int = 0, round_: int = 0, delay_ns: int = 0
    ) -> list[Launch]:
        """One grid a device, `rounds` barriers each."""
        beyond = self.config.inject == "beyond-residency"
        return [
            Launch(
                device,
                self.kernel,
                grid=ranks * self.blocks,
                block=self.threads,
                args=(
                    self.world.tables[device],
                    first_rank,
                    self.world.size,
                    rounds,
                    self.nanosleep_ns,
                    self.base[device],
                    self.local[device],
                    self.stamps[device],
                    self.spans[device],
                    injection,
                    rank,
                    round_,
                    delay_ns,
                ),
                shared=INJECTION_SHARED_BYTES if beyond else 4 * (rounds + 1),
                beyond_residency=beyond,
            )
            for device, first_rank, ranks in self.world.grids()
        ]

    def read_periods_ns(self, rounds: int) -> tuple[np.ndarray, np.ndarray]:
        """(per round [ranks, rounds], mean [ranks]) of the launch that ended last."""
        periods, means = [], []
        for rank, device in enumerate(self.world.device_of):
            stamps = self.stamps[device].read(np.uint32, rounds + 1, 4 * rank * (rounds + 1))
            began, ended = self.spans[device].read(np.uint64, 2, 16 * rank)
            cycles = np.diff(stamps).astype(np.float64)  # unsigned differences survive the clock's wrap
            span_ns = float(ended - began)
            periods.append(cycles * (span_ns / cycles.sum()))
            means.append(span_ns / rounds)
        return np.array(periods), np.array(means)

    def free(self) -> None:
        for buffers in (self.base, self.local, self.stamps, self.spans):
            for buffer in buffers.values():
                buffer.free()


class _Stopped(Exception):
    """A round hung; nothing more can be measured on this transport."""

    def __init__(self, hang: Hang, during: str) -> None:
        super().__init__(during)
        self.hang = hang
        self.during = during


def run(machine: Machine, config: BarrierConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""
    results = []
    for transport in runnable(machine, config.transport):
        if isinstance(transport, Waived):
            result = ProbeResult(
                NAME, Status.WAIVED, "not run", transport.transport, METHOD.format(nodes=NODES), reason=transport.reason
            )
        elif transport == "self" and config.transport is None and len(machine.devices) > 1:
            continue
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
    except _Stopped as stopped:
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
    result.checks += _self_tests(machine, world, barriers, config)
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


def _finished(outcome: Outcome, during: str) -> Outcome:
    if outcome.hang:
        raise _Stopped(outcome.hang, during)
    return outcome


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
            _finished(machine.run(barrier.launches(rounds), config.timeout_s), f"{barrier.order} in-kernel")
            periods, mean = barrier.read_periods_ns(rounds)
            slowest[barrier.order].append(max_over_ranks(periods)[config.warmup :] / 1e3)
            means[barrier.order].append(float(mean.max()) / 1e3)
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
        launches = [launch for _ in range(NODES) for launch in barrier.launches(1)]
        outcomes = [
            _finished(machine.run(launches, config.timeout_s), f"{barrier.order}, one launch a barrier")
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
        graph = barrier.world.machine.graph([launch for _ in range(NODES) for launch in barrier.launches(1)])
        outcomes = [
            _finished(graph.run(config.timeout_s), f"{barrier.order} in a graph") for _ in range(effort.replays + 1)
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


def _self_tests(machine: Machine, world: World, barriers: list[Barrier], config: BarrierConfig) -> list[Row]:
    """One rank starts a round DELAY_NS late: no other rank may leave that round before. The same test must fail on
    a barrier without its wait."""
    checks = []
    for barrier in barriers:
        shortest = _shortest_delayed_round_us(barrier)
        checks.append(
            {
                "name": f"{barrier.order} barrier blocks, {world.size} ranks",
                "passed": shortest >= DELAY_NS / 1e3 * 0.95,
                "text": f"one rank {DELAY_NS / 1e3:.0f} us late, no other leaves before {shortest:.1f} us",
            }
        )
    control = Barrier(machine, world, "publishing", config, no_wait=True)
    shortest = _shortest_delayed_round_us(control)
    checks.append(
        {
            "name": f"control without a wait is caught, {world.size} ranks",
            "passed": shortest < DELAY_NS / 1e3 * 0.5,
            "text": f"one rank {DELAY_NS / 1e3:.0f} us late, another leaves after {shortest:.1f} us",
        }
    )
    control.free()
    return checks


def _shortest_delayed_round_us(barrier: Barrier) -> float:
    rounds = SELF_TEST_ROUND + 1
    launches = barrier.launches(rounds, DELAY, rank=0, round_=SELF_TEST_ROUND, delay_ns=DELAY_NS)
    _finished(barrier.world.machine.run(launches, barrier.config.timeout_s), f"self-test of {barrier.order}")
    periods, _ = barrier.read_periods_ns(rounds)
    return float(periods[1:, SELF_TEST_ROUND - 1].min()) / 1e3


# -- failures on request ----------------------------------------------------------------------------------------------


def _inject(machine: Machine, world: World, config: BarrierConfig) -> None:
    """Makes the failure that was asked for. A stall is survived; everything else must end as a hang."""
    assert config.inject is not None
    if config.inject == "beyond-residency":
        probe = Barrier(machine, world, "publishing", config)
        room = machine.resident_blocks(0, probe.kernel, probe.threads, INJECTION_SHARED_BYTES)
        barrier = Barrier(machine, world, "publishing", config.model_copy(update={"blocks": room + 1}))
        launches = barrier.launches(1)
        during = f"a grid of {room + 1} blocks a rank where {room} are resident"
    else:
        barrier = Barrier(machine, world, "publishing", config)
        kind, delay_ns = {"dead-rank": (DIE, 0), "drop-signal": (DROP, 0)}.get(
            config.inject, (DELAY, int(config.inject.removeprefix("stall=") or 0) * 1000 if "=" in config.inject else 0)
        )
        launches = barrier.launches(8, kind, rank=world.size - 1, round_=SELF_TEST_ROUND, delay_ns=delay_ns)
        during = f"--inject {config.inject}"
    _finished(machine.run(launches, config.timeout_s), during)
