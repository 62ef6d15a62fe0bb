"""verify: is what arrives what was sent, in every protocol alone, under every load, across the wrap of sequences?

Must not break anything on purpose except what --inject asks for; `mutation` does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import cycle

from pcietool.machines.base import Machine
from pcietool.probes.base import Observer, ProbeResult, Row, Status
from pcietool.probes.hangs import Hung
from pcietool.probes.injections import amount
from pcietool.probes.parts import run_parts
from pcietool.probes.verify.config import ROUTED, STARTS, Effort, EntryName, VerifyConfig
from pcietool.probes.verify.mutation import prove_checks
from pcietool.probes.verify.playing import Player
from pcietool.probes.verify.traffic import Traffic
from pcietool.probes.verify.trial import Check, Corruption, CorruptionKind, Finding, Late, Trial
from pcietool.probes.world import Transport, runnable
from pcietool.protocol.routing import Distribution
from pcietool.units import count

NAME = "verify"
METHOD = (
    "each protocol alone; payload depends on (iteration, source, row, column); every buffer poisoned before each"
    " iteration; compared byte by byte on the host, tables and counts element by element with a recount by naive loops;"
    " half of the iterations begin at sequence 1, half at INT32_MAX - 3"
)
MUTANTS_METHOD = (
    "the same kernels with one compile-time switch each; a try is one launch of 6 iterations with one rank late by"
    " 200 µs, every rank and both points by turns; weak faults are tried where memory is as weak as PTX allows, if this"
    " machine is emulated"
)


def run(machine: Machine, config: VerifyConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""

    def measure(transport: Transport, result: ProbeResult) -> None:
        effort = Effort.of(machine, config, transport)
        result.effort = asdict(effort)
        if config.mutants:
            prove_checks(machine, transport, config, effort, observer, result)
        else:
            _prove(machine, transport, config, effort, observer, result)

    method = MUTANTS_METHOD if config.mutants else METHOD
    return run_parts(NAME, runnable(machine, config.transport), lambda transport: method, measure, observer)


def _prove(
    machine: Machine,
    transport: Transport,
    config: VerifyConfig,
    effort: Effort,
    observer: Observer,
    result: ProbeResult,
) -> None:
    """Raises Hung."""
    player = Player(machine, transport, effort, config.seed)
    traffic = Traffic(player.world, config.load)
    pairs: list[tuple[EntryName, Distribution | None]] = [
        (entry, distribution)
        for entry in config.chosen_entries
        for distribution in (config.chosen_distributions if entry in ROUTED else (None,))
    ]
    if not config.inject:
        observer.progress(f"{transport}: are errors found?")
        result.checks.extend(_controls(player, config))
    rows = result.rows
    ends = time.monotonic() + (config.soak_s or 0)
    for number, (entry, distribution) in enumerate(cycle(pairs)):
        if number >= len(pairs) and (time.monotonic() > ends or any(row["found"] for row in rows)):
            break
        if number < len(pairs):
            rows.append(_row(entry, distribution))
        row = rows[number % len(pairs)]
        observer.progress(f"{transport}: {row['name']}")
        _prove_row(player, traffic, entry, distribution, config, row)
    traffic.free()
    player.free()
    result.checks.extend(_checks(rows))
    result.verdict = _verdict(rows)
    failed = [row for row in rows if row["found"]]
    unfit = [check for check in result.checks if not check["passed"]]
    if failed:
        result.status, result.reason = Status.FAIL, f"{failed[0]['name']}: {failed[0]['found']}"
    elif unfit:
        result.status, result.reason = Status.FAIL, f"{unfit[0]['name']}: {unfit[0]['text']}"


def _row(entry: EntryName, distribution: Distribution | None) -> Row:
    return {
        "entry": entry,
        "distribution": distribution,
        "name": f"{entry}, {distribution}" if distribution else entry,
        "first_sequences": list(STARTS),
        "launches": 0,
        "iterations": 0,
        "rows": 0,
        "bytes_checked": 0,
        "found_by": None,
        "found": None,
        "status": None,
    }


def _prove_row(
    player: Player,
    traffic: Traffic,
    entry: EntryName,
    distribution: Distribution | None,
    config: VerifyConfig,
    row: Row,
) -> None:
    """Adds the launches of one turn. Raises Hung."""
    make = player.entry(entry, distribution)
    for start, iterations in player.effort.launches():
        trial = Trial(iterations, start, _late(config.inject), _corruption(config.inject))
        report = player.play(make, trial, config.timeout_s, traffic.streams())
        if report.hang:
            row["status"] = Status.HANG.value
            raise Hung(report.hang, f"{row['name']}, from sequence {start}")
        row["status"] = row["status"] or Status.PASS.value
        row["launches"] += 1
        row["iterations"] += iterations
        row["rows"] += report.rows
        row["bytes_checked"] += report.bytes_checked
        if report.findings and not row["found"]:
            first: Finding = report.findings[0]
            row |= {"found_by": first.check, "found": f"from sequence {start}: {first.text}"}
            row["status"] = Status.FAIL.value


def _controls(player: Player, config: VerifyConfig) -> Iterator[Row]:
    """What must be found wrong: else this program could not see it."""
    entry: EntryName = next((name for name in config.chosen_entries if name in ROUTED), config.chosen_entries[0])
    make = player.entry(entry, "all-remote" if entry in ROUTED else None)
    wanted: dict[CorruptionKind, Check] = {"byte": "bytes", "count": "table", "route": "table"}
    for kind, check in wanted.items():
        if kind != "byte" and entry not in ROUTED:
            continue
        report = player.play(make, Trial(1, corruption=Corruption(kind)), config.timeout_s)
        found = report.findings[0] if report.findings else None
        yield {
            "name": f"control: one wrong {kind} is found",
            "passed": found is not None and found.check == check,
            "text": found.text if found else f"{entry}: nothing was found",
        }


def _checks(rows: list[Row]) -> Iterator[Row]:
    """What was compared, each with the first thing it found."""
    names: dict[Check, str] = {
        "table": "tables are as recounted",
        "slots": "slots have one writer and its last sequence",
        "bytes": "every byte is what was sent",
        "count": "rows are counted as recounted",
        "guards": "guard words are untouched",
    }
    for check, name in names.items():
        first = next((row for row in rows if row["found_by"] == check), None)
        text = f"{first['name']}: {first['found']}" if first else f"rows of the table: {len(rows)}"
        yield {"name": name, "passed": first is None, "text": text}


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
