"""compare-nccl: our barrier and all-reduce beside NCCL's and others', by turns in one run, like with like.

One part with ours alone for each transport, one part a contender, one with the crossover sizes. Must not know how a
contender works: it lives in processes of its own (`contenders.team`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

from pcietool.contenders.catalog import CONTENDERS
from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.errors import UsageError
from pcietool.machines.base import Machine
from pcietool.probes.barrier.kernel import ORDERS
from pcietool.probes.common.checks import check, control, judge
from pcietool.probes.common.hangs import Hung, gpus_lost, stopped
from pcietool.probes.common.world import World, why_not
from pcietool.probes.compare.allreduce_kernel import AllReduce, Control
from pcietool.probes.compare.comparison import Comparison
from pcietool.probes.compare.config import CompareConfig, CompareMode, CompareTransport
from pcietool.probes.compare.crossover import crossovers
from pcietool.probes.compare.effort import Effort
from pcietool.probes.compare.ours import OurAllReduce, OurBarrier, Ours, WrongSumsError
from pcietool.stats import median_interval
from pcietool.units import micros

NAME = "compare-nccl"
TRANSPORTS: tuple[CompareTransport, ...] = ("peer", "host")
NEED_GPUS = "NCCL, NVSHMEM and torch need real GPUs and cannot be emulated"
NOT_EMULATED = f"{NEED_GPUS}: only our side is shown"
METHOD_ALONE = (
    "ours alone; in-kernel: globaltimer around all rounds divided by their number, slowest rank, all-reduce with every"
    " sum checked in the kernel; graph and eager: GPU events around all of a graph or of as many launches, divided by"
    " their number, shortest GPU"
)
METHOD_CROSSOVER = "the smallest size from which on theirs is faster at every size measured, by the median ratio"
CONTROL_ROUNDS = 6


def run(machine: Machine, config: CompareConfig, observer: Observer) -> list[ProbeResult]:
    """Results as they come. Raises UsageError for a transport that was asked for by name and cannot run."""
    results: list[ProbeResult] = []
    for result in _results(machine, config, observer):
        results.append(result)
        observer.result(result)
        if gpus_lost(result):
            break
    return results


def _results(machine: Machine, config: CompareConfig, observer: Observer) -> Iterator[ProbeResult]:
    wanted = (config.transport or "all").split(",")
    cases = [transport for transport in TRANSPORTS if transport in wanted or wanted == ["all"]]
    reasons = {transport: (why_not(machine, transport, alone=()) or "").split(";")[0] for transport in cases}
    for transport, reason in reasons.items():
        if reason and transport in wanted:
            raise UsageError(f"--transport {transport}: {reason}")
    for name in config.contenders:
        if (path := CONTENDERS[name].path) not in cases:
            raise UsageError(f"--contender {name}: it is beside ours on --transport {path}, which was not asked for")
        if machine.backend == "emulated":
            raise UsageError(f"--contender {name}: {NEED_GPUS}; leave it out")
    for transport, reason in reasons.items():
        if reason:
            yield ProbeResult(NAME, Status.WAIVED, "not run", transport, METHOD_ALONE, reason=reason)
            continue
        yield from _on_transport(machine, transport, config, observer)


def _on_transport(
    machine: Machine, transport: CompareTransport, config: CompareConfig, observer: Observer
) -> Iterator[ProbeResult]:
    effort = Effort.of(machine, config)
    alone = ProbeResult(f"{NAME}: ours", Status.PASS, "", transport, METHOD_ALONE)
    observer.begin(alone)
    try:
        world = World.build(machine, transport, len(machine.devices), rows=2, deadline_s=config.timeout_s)
        _measure_alone(world, config, effort, observer, alone)
    except Hung as hung:
        alone = stopped(alone, hung)
    yield alone
    if machine.backend == "emulated" or alone.status not in (Status.PASS, Status.WAIVED):
        return
    rows: list[Row] = []
    for name in config.contenders or CONTENDERS:
        contender = CONTENDERS[name]
        if contender.path != transport:
            continue
        result = Comparison(contender, world, config, effort, observer, os.environ).run()
        rows += result.rows
        yield result
        if result.hang and result.hang.get("gpus_lost", True):  # ours hung, or theirs took the GPUs along
            return
    table = crossovers(rows)
    if table:
        yield ProbeResult(f"{NAME}: crossover", Status.INFO, _crossover_text(table), transport, METHOD_CROSSOVER, table)


# -- ours alone -------------------------------------------------------------------------------------------------------


def _measure_alone(
    world: World, config: CompareConfig, effort: Effort, observer: Observer, result: ProbeResult
) -> None:
    """What ours takes in every order, mode and size, and whether its sums are right. Raises Hung."""
    observer.progress(f"{world.transport}: does our all-reduce notice wrong data?")
    result.checks += [_control(world, kind) for kind in ("torn", "corrupt")]
    try:
        plan = list(_all_of_ours(world, config, effort))
        for number, (make, nbytes) in enumerate(plan, start=1):
            ours = make()
            far = f"{ours.label}, {ours.mode}, {nbytes or 0} bytes, {number} of {len(plan)}"
            observer.progress(f"{world.transport}, ours alone: {far}")
            turns = [ours.turn(turn * (effort.replays + 1)) for turn in range(effort.pairs)]
            ours.free()
            interval = median_interval(turns)
            result.rows.append(
                {"ours": ours.label, "mode": ours.mode, "bytes": nbytes, **interval.row("ours_us"), "turns": len(turns)}
            )
    except WrongSumsError as wrong:
        result.checks.append(check("all-reduce", False, str(wrong)))
    else:
        if any(row["bytes"] for row in result.rows):
            result.checks.append(check("all-reduce", True, "every element of every round was right"))
    result.verdict = _alone_text(result.rows)
    result.status, result.reason = judge(result.checks)
    if result.status is Status.PASS and world.machine.backend == "emulated":
        result.status, result.reason = Status.WAIVED, NOT_EMULATED


def _all_of_ours(
    world: World, config: CompareConfig, effort: Effort
) -> Iterator[tuple[Callable[[], Ours], int | None]]:
    """How to make each, and its bytes: they are only made in turn, since each holds memory."""
    for mode in config.modes:
        for order in ORDERS:
            if order != "floor" or mode == "in-kernel":
                yield partial(OurBarrier, world, order, mode, effort), None
        for nbytes in config.all_sizes(world.machine.backend) if _is_alone(mode, world) else ():
            yield partial(OurAllReduce, world, nbytes, mode, effort), nbytes


def _is_alone(mode: CompareMode, world: World) -> bool:
    """Where nobody else reduces. What is measured beside a contender need not be measured alone."""
    return mode == "in-kernel" or world.machine.backend == "emulated"


def _control(world: World, kind: Control) -> Row:
    """An all-reduce that is broken on purpose, which must be found out."""
    allreduce = AllReduce(world, 4, control=kind)
    world.run(allreduce.rounds(CONTROL_ROUNDS), f"{kind} all-reduce")
    found = allreduce.wrong_sums()
    allreduce.free()
    return control(f"a {kind} all-reduce is caught", found, "no sum was wrong")


def _alone_text(rows: list[Row]) -> str:
    def figure(label: str, mode: str) -> str | None:
        row = next((row for row in rows if row["ours"] == label and row["mode"] == mode), None)
        return None if row is None else f"{label} {micros(row['ours_us_median'])} µs {mode}"

    wanted = [("publishing barrier", "in-kernel"), ("relaxed barrier", "in-kernel"), (OurAllReduce.label, "in-kernel")]
    texts = [text for label, mode in wanted if (text := figure(label, mode))]
    return f"ours: {', '.join(texts)}" if texts else "ours was not measured in a kernel"


def _crossover_text(table: list[Row]) -> str:
    texts = []
    for row in table:
        nbytes = row["crossover_bytes"]
        where = "never up to the largest size" if nbytes is None else f"from {nbytes} bytes on"
        texts.append(f"{row['contender']} {row['mode']}: {where}")
    return f"theirs is faster: {'; '.join(texts)}"
