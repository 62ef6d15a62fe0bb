"""verify: is what arrives what was sent, in every protocol alone, under every load, across each wrap of sequences?

Must not break anything on purpose except what --inject asks for; `mutation` does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.machines.base import Machine
from pcietool.probes.common.checks import check, judge
from pcietool.probes.common.hangs import Hung
from pcietool.probes.common.injections import amount
from pcietool.probes.common.options import Transport
from pcietool.probes.common.runner import run_transports
from pcietool.probes.verify.config import ROUTED, EntryName, VerifyConfig
from pcietool.probes.verify.effort import Effort
from pcietool.probes.verify.mutation import VerifyCase, prove_checks
from pcietool.probes.verify.traffic import Traffic
from pcietool.probes.verify.trial import Check, Corruption, CorruptionKind, Late, Trial
from pcietool.probes.verify.trial_runner import TrialRunner
from pcietool.protocol.distributions import Distribution
from pcietool.units import count

NAME = "verify"
METHOD = (
    "each protocol alone; payload depends on (iteration, source, row, column); every buffer poisoned before each"
    " iteration; compared byte by byte on the host, tables and counts element by element with a recount by naive loops;"
    " a third of the iterations begin at sequence 1, a third at INT32_MAX - 3, a third at UINT32_MAX - 3"
)
CONTROLS: Mapping[CorruptionKind, tuple[str, Check]] = {
    "byte": ("byte", "bytes"),
    "count": ("count given", "table"),
    "route": ("route", "table"),
    "tally": ("count made", "count"),
    "slot": ("slot", "slots"),
    "guard": ("guard word", "guards"),
}
"""What is made wrong once to see whether it is found: its name, and the check that must find it."""
NEED_TABLES: tuple[CorruptionKind, ...] = ("count", "route", "tally")
MUTANTS_METHOD = (
    "the same kernels with one compile-time switch each; a try is one launch of --iters iterations with one rank late"
    " by 200 µs, every rank and both points by turns; weak faults are tried where memory is as weak as PTX allows, if"
    " this machine is emulated, else, of messages and barriers, in 20 launches of 500 iterations with busy links"
)


def run(machine: Machine, config: VerifyConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""
    method, measure = (MUTANTS_METHOD, prove_checks) if config.mutants else (METHOD, _prove)

    def effort(transport: Transport) -> Effort:
        return Effort.of(machine, config, transport)

    return run_transports(NAME, machine, config, observer, lambda _: method, effort, measure)


def _prove(case: VerifyCase) -> None:
    """Raises Hung."""
    config, result, rows = case.config, case.result, case.result.rows
    runner = TrialRunner(case.machine, case.transport, case.effort, config.seed, config.timeout_s)
    traffic = Traffic(runner.world, config.load)
    pairs: list[tuple[EntryName, Distribution | None]] = [
        (entry, distribution)
        for entry in config.chosen_entries
        for distribution in (config.chosen_distributions if entry in ROUTED else (None,))
    ]
    if not config.inject:
        case.progress("are errors found?")
        result.checks.extend(_controls(runner, config))
    ends = time.monotonic() + (config.soak_s or 0)
    for number, (entry, distribution) in enumerate(cycle(pairs)):
        if number >= len(pairs) and (time.monotonic() > ends or any(row["found"] for row in rows)):
            break
        if number < len(pairs):
            rows.append(_row(entry, distribution, case.effort.launches()))
        row = rows[number % len(pairs)]
        case.progress(f"{row['name']}, {number + 1} of {len(pairs)}")
        _prove_row(runner, traffic, entry, distribution, config, row)
    traffic.free()
    runner.free()
    result.checks.extend(_checks(rows))
    result.status, result.reason = judge(result.checks)
    result.verdict = _verdict(rows)
    if failed := next((row for row in rows if row["found"]), None):
        result.status, result.reason = Status.FAIL, f"{failed['name']}: {failed['found']}"


def _row(entry: EntryName, distribution: Distribution | None, launches: Sequence[tuple[int, int]]) -> Row:
    return {
        "entry": entry,
        "distribution": distribution,
        "name": f"{entry}, {distribution}" if distribution else entry,
        "first_sequences": sorted({start for start, _ in launches}),
        "launches": 0,
        "iterations": 0,
        "rows": 0,
        "bytes_checked": 0,
        "found_by": None,
        "found": None,
        "found_by_check": {},
        "status": None,
    }


def _prove_row(
    runner: TrialRunner,
    traffic: Traffic,
    entry: EntryName,
    distribution: Distribution | None,
    config: VerifyConfig,
    row: Row,
) -> None:
    """Adds the launches of one turn. Raises Hung."""
    make = runner.entry(entry, distribution)
    for start, iterations in runner.effort.launches():
        trial = Trial(iterations, start, _late(config.inject), _corruption(config.inject))
        report = runner.run(make, trial, traffic.streams)
        row["status"] = row["status"] or Status.PASS.value
        if report.launched:
            row["launches"] += 1
            row["iterations"] += iterations
        row["rows"] += report.rows
        row["bytes_checked"] += report.bytes_checked
        for finding in report.findings:
            row["found_by_check"].setdefault(finding.check, f"from sequence {start}: {finding.text}")
        if report.findings and not row["found"]:
            first: Check = report.findings[0].check
            row |= {"found_by": first, "found": row["found_by_check"][first], "status": Status.FAIL.value}
        if report.hang:
            row["status"] = Status.HANG.value
            raise Hung(report.hang, f"{row['name']}, from sequence {start}")


def _controls(runner: TrialRunner, config: VerifyConfig) -> Iterator[Row]:
    """What must be found wrong: else this program could not see it."""
    entry: EntryName = next((name for name in config.chosen_entries if name in ROUTED), config.chosen_entries[0])
    make = runner.entry(entry, "all-remote" if entry in ROUTED else None)
    for kind, (name, finder) in CONTROLS.items():
        if kind in NEED_TABLES and entry not in ROUTED:
            continue
        report = runner.run(make, Trial(1, corruption=Corruption(kind)))
        found = report.findings[0] if report.findings else None
        text = found.text if found else f"{entry}: nothing was found"
        yield check(f"control: one wrong {name} is found", found is not None and found.check == finder, text)


def _checks(rows: list[Row]) -> Iterator[Row]:
    """What was compared, each with the first thing it found."""
    names: dict[Check, str] = {
        "table": "tables are as recounted",
        "slots": "slots have one writer and its last sequence",
        "bytes": "every byte is what was sent",
        "count": "rows are counted as recounted",
        "guards": "guard words are untouched",
    }
    launched = any(row["launches"] for row in rows)
    for finder, name in names.items():
        first = next((row for row in rows if finder in row["found_by_check"]), None)
        text = f"{first['name']}: {first['found_by_check'][finder]}" if first else f"rows of the table: {len(rows)}"
        if first or launched or finder == "table":  # what was not launched left nothing to compare
            yield check(name, first is None, text)


def _corruption(inject: str | None) -> Corruption | None:
    kinds: dict[str | None, CorruptionKind] = {
        "corrupt-byte": "byte",
        "corrupt-count": "count",
        "corrupt-route": "route",
    }
    return Corruption(kinds[inject]) if inject in kinds else None


def _late(inject: str | None) -> Late | None:
    """Rank 0, in every iteration: with a stall beyond the deadline a hang."""
    return Late(0, "writing", amount(inject) * 1000) if inject and inject.startswith("stall=") else None


def _verdict(rows: list[Row]) -> str:
    wrong = sum(row["found"] is not None for row in rows)
    total = sum(row["bytes_checked"] for row in rows)
    iterations = sum(row["iterations"] for row in rows)
    entries = ", ".join(dict.fromkeys(row["entry"] for row in rows))
    found = f"{wrong} of {len(rows)} wrong" if wrong else "nothing wrong"
    return f"{found} in {count(iterations)} iterations and {count(total)} bytes of {entries}"
