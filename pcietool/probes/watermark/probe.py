"""watermark: how small can chunks be, and with how few SMs, before their signals cost bandwidth?

Each push with signals is compared with the same copy without any, in turns. Must not compare with other libraries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np

from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.errors import CompileError, PtxError, UsageError
from pcietool.machines.base import Machine
from pcietool.probes.common.checks import check, control, guard_check
from pcietool.probes.common.checks import judge as judge_checks
from pcietool.probes.common.hangs import Hung
from pcietool.probes.common.injections import amount
from pcietool.probes.common.runner import Case, run_transports
from pcietool.probes.watermark.config import Path, WatermarkConfig
from pcietool.probes.watermark.copies import FIRST_ROW, Injection
from pcietool.probes.watermark.effort import Effort, chunk_sizes, sm_counts
from pcietool.probes.watermark.pushing import Pushed, Pusher, StorePath, WrongRow
from pcietool.protocol.chunks import ARTICLE_CHUNK, ChunkPlan
from pcietool.stats import median_interval, paired_ratio
from pcietool.units import gb_per_s

NAME = "watermark"
GOOD_ENOUGH = 0.98
"""Of the best rate with the same SMs: the smallest chunk that reaches this is the one to use."""
FEEDS_THE_LINK = 90
"""Percent of the copy without signals."""
SUBMITTED_A_SECOND = 30_000
"""Copies with their signals, by one CPU thread: about a fifth of what it can, because the consumer waits meanwhile."""
CONTROL_ROWS = 2 * ARTICLE_CHUNK
BULK_NEEDS = (9, 0)
METHOD = (
    "rows pushed in chunks by a kernel, {pattern}; GB/s: one producer's bytes over its time from the first block's"
    " start until all has arrived (globaltimer, slowest producer, median of launches); % SM: of the same copy without"
    " signals, launched in turns; % CE: of one copy by the copy engine; engine: each chunk a copy by the copy engine"
    " with a stream write behind it, timed by events on their stream; first: from the start of the consumer, which is"
    " launched before the producers, until the first chunk may be read"
)


WatermarkCase: TypeAlias = Case[WatermarkConfig, Effort]


def run(machine: Machine, config: WatermarkConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""
    method = METHOD.format(pattern=config.pattern)
    return run_transports(
        NAME, machine, config, observer, lambda _: method, lambda _: Effort.of(machine, config), _measure
    )


def _measure(case: WatermarkCase) -> None:
    """Raises Hung."""
    config, effort, result = case.config, case.effort, case.result
    chunks = chunk_sizes(config, effort.shape.rows)
    world = 2 if config.pattern == "one-to-one" else case.ranks
    most_chunks = ChunkPlan(effort.shape.rows, min(*chunks, ARTICLE_CHUNK), 1).chunks  # the controls push such chunks
    pusher = Pusher(
        case.machine, case.transport, config.pattern, world, effort.shape, most_chunks, config.seed, config.timeout_s
    )
    measurement = PushMeasurement(case, pusher)
    try:
        for path in effort.paths:
            reason = why_not(case.machine, pusher, path)
            if reason:
                result.rows.append({"path": path, "gb_per_s": None, "reason": f"{path}: {reason}"})
                continue
            if config.inject:
                measurement.inject(path, chunks)
            if path == "engine":
                for number, chunk_rows in enumerate(chunks, start=1):
                    case.progress(f"copy engine, chunks of {chunk_rows} rows, {number} of {len(chunks)}")
                    measurement.measure_engine(chunk_rows)
                continue  # no SMs to vary
            plan = list(product(sm_counts(config, effort, pusher.most_sms(), case.machine), chunks))
            for number, (sms, chunk_rows) in enumerate(plan, start=1):
                case.progress(f"{path}, {sms} SMs, chunks of {chunk_rows} rows, {number} of {len(plan)}")
                measurement.measure(path, sms, chunk_rows)
        if measurement.measured:
            result.checks += [*measurement.controls(), guard_check(pusher.world)]
    except Hung as hung:
        raise _with_chunk(hung, measurement.pushing) from hung
    pusher.free()
    result.status, result.verdict, result.reason = judge(result.rows, result.checks)


def why_not(machine: Machine, pusher: Pusher, path: Path) -> str | None:
    """Why this machine cannot copy that way, or None."""
    if path == "vector":
        return None
    if path == "engine":
        if pusher.streams > 1:
            return "the host submits one copy after the other, so several streams would not run at once"
        if machine.backend == "emulated" and pusher.world.transport == "self":
            return "a copy inside one GPU takes no time in the model"
        return machine.missing("copy_engine") or pusher.engine_refusal()
    for device in machine.devices:
        if device.compute_capability < BULK_NEEDS:
            major, minor = device.compute_capability
            return f"bulk copies need sm_90 or newer, GPU {device.index} is sm_{major}{minor}"
    try:
        pusher.load(path, signals=True)
    except (PtxError, CompileError) as error:
        return str(error).splitlines()[0]
    return None


@dataclass
class PushMeasurement:
    """What is pushed on one transport, and what came of it so far."""

    case: WatermarkCase
    pusher: Pusher
    pushing: ChunkPlan | None = None
    """What a hang would be in the middle of."""

    def __post_init__(self) -> None:
        self.config, self.effort, self.result = self.case.config, self.case.effort, self.case.result
        self._engine_rate, self._engine_reason = self._copy_engine()

    @property
    def measured(self) -> list[Row]:
        return [row for row in self.result.rows if row["gb_per_s"] is not None]

    def plan(self, sms: int, chunk_rows: int) -> ChunkPlan:
        groups = self.pusher.groups_of_stream(sms)
        return self.pusher.shape.plan(chunk_rows, groups, self.config.piece_rows)

    def measure(self, path: StorePath, sms: int, chunk_rows: int) -> None:
        """One row: launches with and without signals take turns, so that drift hits both alike."""
        plan = self.pushing = self.plan(sms, chunk_rows)
        rounds = []
        for _ in range(self.effort.warmup + self.effort.repeats):
            plain = self.pusher.push(path, plan, sms, signals=False)
            rounds.append((plain, self.pusher.push(path, plan, sms)))
        figures = self._figures(rounds[self.effort.warmup :], f"{path}/{sms} SMs/{chunk_rows} rows")
        self._add_row(path, sms, plan, [signalled for _, signalled in rounds], figures)

    def measure_engine(self, chunk_rows: int) -> None:
        """One row: no SM copies, so there is no copy without signals to compare with but the one by the engine."""
        plan = self.pushing = ChunkPlan(self.pusher.shape.rows, chunk_rows, chunk_rows)
        if plan.chunks > SUBMITTED_A_SECOND * self.config.timeout_s:
            reason = f"engine: the host cannot submit {plan.chunks} copies within --timeout {self.config.timeout_s:g}"
            self.result.rows.append({"path": "engine", "gb_per_s": None, "reason": f"{reason}; use larger --chunks"})
            return
        launches = self.effort.warmup + self.effort.repeats
        rounds = [self.pusher.push_by_engine(plan) for _ in range(launches)]
        figures = self._common_figures(rounds[self.effort.warmup :], f"engine/{chunk_rows} rows")
        no_sms = {
            "sm_copy_gb_per_s": None,
            "percent_of_sm_copy": None,
            "percent_of_sm_copy_reason": "% SM: the path engine uses no SMs; compare % CE",
        }
        self._add_row("engine", 0, plan, rounds, figures | no_sms)

    def _add_row(self, path: Path, sms: int, plan: ChunkPlan, rounds: list[Pushed], figures: Row) -> None:
        wrong = next((pushed.wrong for pushed in rounds if pushed.wrong), None)
        self.result.rows.append(
            {
                "chunk_rows": plan.chunk_rows,
                "chunk_text": _chunk_text(plan),
                "is_articles_choice": plan.chunk_rows == ARTICLE_CHUNK,
                "piece_rows": plan.piece_rows,
                "sms": sms,
                "path": path,
                "pattern": self.config.pattern,
                "streams": self.pusher.streams,
                "rows": plan.rows,
                "row_bytes": self.pusher.shape.row_bytes,
                **figures,
                "signals": plan.signals(self.pusher.streams),
                "bytes": self.pusher.shape.nbytes * self.pusher.streams,
                "correct": wrong is None,
                "wrong": wrong and str(wrong),
                "repeats": self.effort.repeats,
                "warmup": self.effort.warmup,
                "is_smallest_good": False,
            }
        )

    def _figures(self, rounds: list[tuple[Pushed, Pushed]], name: str) -> Row:
        """Of launches without and with signals, in turns."""
        figures = self._common_figures([signalled for _, signalled in rounds], name)
        plain_rates = self._rates([plain for plain, _ in rounds])
        self.result.samples[f"{name}/sm_copy_gb_per_s"] = plain_rates
        share = paired_ratio(100 * self.result.samples[f"{name}/gb_per_s"], plain_rates)
        return figures | {
            "sm_copy_gb_per_s": float(np.median(plain_rates)),
            "percent_of_sm_copy": share.median,
            **share.row("percent_of_sm_copy"),
        }

    def _rates(self, pushes: list[Pushed]) -> np.ndarray:
        """GB/s of one producer, [launches]."""
        nbytes = self.pusher.shape.nbytes * max(role.peers for role in self.pusher.producers)
        return np.array([nbytes / pushed.producer_ns for pushed in pushes])

    def _common_figures(self, pushes: list[Pushed], name: str) -> Row:
        """Of launches with signals."""
        rates = self.result.samples[f"{name}/gb_per_s"] = self._rates(pushes)
        rate = median_interval(rates)
        first = float(np.median([pushed.first_release_ns or 0.0 for pushed in pushes]))
        emulated = self.pusher.machine.backend == "emulated"
        return {
            "gb_per_s": rate.median,
            "copy_engine_gb_per_s": self._engine_rate,
            "percent_of_copy_engine": self._engine_rate and 100 * rate.median / self._engine_rate,
            "copy_engine_reason": self._engine_reason,
            "first_release_us": first / 1e3,
            "polls": None if emulated else int(np.median([pushed.polls or 0 for pushed in pushes])),
            "polls_reason": "polls are not counted: the emulator skips those that see nothing new"
            if emulated
            else None,
        }

    def _copy_engine(self) -> tuple[float | None, str | None]:
        """(GB/s, None) or (None, why not)."""
        if self.pusher.streams > 1:
            return None, "no copy engine figure: one copy is no measure for several streams at once"
        if reason := self.pusher.machine.missing("copy_engine"):
            return None, reason
        elapsed_ns = float(np.median([self.pusher.copy_by_engine() for _ in range(self.effort.repeats)]))
        if elapsed_ns <= 0:
            return None, "no copy engine figure: a copy inside one GPU takes no time in the model"
        return self.pusher.shape.nbytes / elapsed_ns, None

    # -- is it seen when something goes wrong? ------------------------------------------------------------------------

    def controls(self) -> list[Row]:
        """Pushes that must be found wrong: else this program could not see wrong data."""
        self.case.progress("are wrong data seen?")
        by_kernels = [row for row in self.measured if row["path"] != "engine"]
        checks = self._kernel_controls(max(by_kernels, key=lambda row: row["gb_per_s"])) if by_kernels else []
        return checks + ([self._engine_control()] if len(by_kernels) < len(self.measured) else [])

    def _engine_control(self) -> Row:
        rows = min(CONTROL_ROWS, self.pusher.shape.rows)
        plan = self.pushing = ChunkPlan(rows, min(ARTICLE_CHUNK, rows), min(ARTICLE_CHUNK, rows))
        early = self.pusher.push_by_engine(plan, injection="early").wrong
        return control("stream writes before the copies are found", early)

    def _kernel_controls(self, best: Row) -> list[Row]:
        rows = min(CONTROL_ROWS, best["rows"])
        plan = self.pushing = replace(self.plan(best["sms"], min(ARTICLE_CHUNK, rows)), rows=rows)
        row = rows // 2
        swapped = self._push_wrong(best, plan, "swap", row)
        text = str(swapped or "nothing was found")
        only_that = swapped is not None and (swapped.row, swapped.wrong_rows) == (row, 1)
        return [
            check("control: two words that changed places are found", only_that, text),
            control("signals before the data are found", self._push_wrong(best, plan, "early", 0)),
        ]

    def _push_wrong(self, row: Row, plan: ChunkPlan, injection: Injection, injected: int) -> WrongRow | None:
        return self.pusher.push(row["path"], plan, row["sms"], injection=injection, injected=injected).wrong

    def inject(self, path: Path, chunks: list[int]) -> None:
        """A chunk that is never published; raises Hung."""
        sms = sm_counts(self.config, self.effort, self.pusher.most_sms(), self.pusher.machine)[0]
        plan = self.pushing = self.plan(sms, ARTICLE_CHUNK if ARTICLE_CHUNK in chunks else min(chunks))
        dropped = amount(self.config.inject or "")
        if dropped >= plan.chunks:
            raise UsageError(f"--inject drop-chunk={dropped}: chunks are numbered 0 to {plan.chunks - 1} here")
        if path == "engine":
            self.pusher.push_by_engine(plan, injection="drop", injected=dropped)
        else:
            self.pusher.push(path, plan, sms, injection="drop", injected=dropped)


def _chunk_text(plan: ChunkPlan) -> str:
    notes = ["all"] * (plan.chunk_rows == plan.rows) + ["article"] * (plan.chunk_rows == ARTICLE_CHUNK)
    return f"{plan.chunk_rows} ({', '.join(notes)})" if notes else str(plan.chunk_rows)


def _with_chunk(hung: Hung, pushing: ChunkPlan | None) -> Hung:
    """Also says which chunk and rows the first missing slot stands for."""
    first = next((r for r in hung.hang.records if r.reason == "deadline" and r.row >= FIRST_ROW), None)
    if first is None or pushing is None:
        return hung
    chunk = first.row - FIRST_ROW
    rows = pushing.rows_of(chunk)
    missing = f"chunk {chunk} (rows {rows.start} to {rows.stop - 1}) from rank {first.col} was never published"
    return Hung(hung.hang, f"{hung.during}: {missing}")


# -- what it means ----------------------------------------------------------------------------------------------------


def judge(rows: list[Row], checks: list[Row]) -> tuple[Status, str, str | None]:
    """(status, verdict, reason). Marks the row of the smallest good chunk of each SM count and path."""
    measured = [row for row in rows if row["gb_per_s"] is not None]
    if not measured:
        return Status.WAIVED, "not run", "; ".join(row["reason"] for row in rows)
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in measured:
        groups.setdefault((row["path"], row["sms"]), []).append(row)
    chosen = {key: smallest_good(group) for key, group in groups.items()}
    for row in chosen.values():
        row["is_smallest_good"] = True
    verdict = "; ".join(_path_verdict(path, chosen) for path in dict.fromkeys(row["path"] for row in measured))
    for row in measured:
        if not row["correct"]:
            where = f"{row['path']}, {row['sms']} SMs, {row['chunk_rows']}-row chunks"
            return Status.FAIL, verdict, f"{where}: {row['wrong']}; this path loses or reorders writes"
    status, reason = judge_checks(checks)
    return status, verdict, reason and f"{reason}; no figure of this run can be trusted"


def smallest_good(rows: list[Row]) -> Row:
    """Of rows with the same SMs: the smallest chunk whose rate is within 2 % of the best."""
    best = max(row["gb_per_s"] for row in rows)
    good = (row for row in rows if row["gb_per_s"] >= GOOD_ENOUGH * best)
    return min(good, key=lambda row: row["chunk_rows"])


def _path_verdict(path: str, chosen: dict[tuple[str, int], Row]) -> str:
    if path == "engine":
        (row,) = (row for (of_path, _), row in chosen.items() if of_path == path)
        share = row["percent_of_copy_engine"]
        of_one_copy = "" if share is None else f", {share:.1f} % of one copy"
        return f"{row['chunk_rows']}-row chunks by the copy engine: {gb_per_s(row['gb_per_s'])} GB/s{of_one_copy}"
    by_sms = {sms: row for (of_path, sms), row in sorted(chosen.items()) if of_path == path}
    most = max(by_sms)
    row = by_sms.pop(most)
    others = ", ".join(f"{other['chunk_rows']} with {sms}" for sms, other in by_sms.items())
    feeds = (
        "feed the link" if row["percent_of_sm_copy"] >= FEEDS_THE_LINK else "are the smallest within 2 % of the best"
    )
    return (
        f"{row['chunk_rows']}-row chunks {feeds}: {gb_per_s(row['gb_per_s'])} GB/s, {row['percent_of_sm_copy']:.1f} %"
        f" of the copy without signals, {path} stores, {most} SMs" + (f" ({others})" if others else "")
    )
