"""verify: is what arrives what was sent, in every protocol alone, under every load, across the wrap of sequences?

Must not break anything on purpose except what --inject asks for; `mutation` does.
"""

from __future__ import annotations

import time
from dataclasses import asdict

from pcietool.machines.base import Machine
from pcietool.probes.base import Observer, ProbeResult, Row, Status
from pcietool.probes.hangs import Hung
from pcietool.probes.injections import amount
from pcietool.probes.parts import run_parts
from pcietool.probes.verify.config import ROUTED, Effort, EntryName, VerifyConfig
from pcietool.probes.verify.mutation import prove_checks
from pcietool.probes.verify.playing import Player
from pcietool.probes.verify.traffic import Traffic
from pcietool.probes.verify.trial import Corruption, Finding, Late, Trial
from pcietool.probes.world import Transport, runnable
from pcietool.protocol.routing import Distribution
from pcietool.units import count

NAME = "verify"
METHOD = (
    "each protocol alone; payload depends on (iteration, source, row, column); every buffer poisoned before each"
    " iteration; compared byte by byte on the host, tables and counts element by element with a recount by naive loops;"
    " half of the iterations begin at sequence 1, half at INT32_MAX - 3"
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

    return run_parts(NAME, runnable(machine, config.transport), lambda transport: METHOD, measure, observer)


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
    rows = [_row(entry, distribution) for entry, distribution in pairs]
    result.rows.extend(rows)
    ends = time.monotonic() + (config.soak_s or 0)
    while True:
        for (entry, distribution), row in zip(pairs, rows, strict=True):
            observer.progress(f"{transport}: {entry}{f', {distribution}' if distribution else ''}")
            _prove_row(player, traffic, entry, distribution, config, row)
            if config.soak_s and time.monotonic() > ends:
                break
        if time.monotonic() > ends or any(row["found"] for row in rows):
            break
    result.rows[:] = [row for row in rows if row["launches"] or row["found"]]
    traffic.free()
    player.free()
    result.verdict, failed = _verdict(result.rows), [row for row in result.rows if row["found"]]
    if failed:
        result.status = Status.FAIL
        result.reason = f"{failed[0]['name']}: {failed[0]['found']}"


def _row(entry: EntryName, distribution: Distribution | None) -> Row:
    return {
        "entry": entry,
        "distribution": distribution,
        "name": f"{entry}, {distribution}" if distribution else entry,
        "launches": 0,
        "iterations": 0,
        "rows": 0,
        "bytes_checked": 0,
        "found_by": None,
        "found": None,
        "status": Status.PASS.value,
    }


def _prove_row(
    player: Player,
    traffic: Traffic,
    entry: EntryName,
    distribution: Distribution | None,
    config: VerifyConfig,
    row: Row,
) -> None:
    """Adds one launch from each first sequence number. Raises Hung."""
    make = player.entry(entry, distribution)
    for start, iterations in player.effort.starts():
        trial = Trial(iterations, start, _late(config.inject), _corruption(config.inject))
        report = player.play(make, trial, config.timeout_s, traffic.streams())
        if report.hang:
            row["status"] = Status.HANG.value
            raise Hung(report.hang, f"{row['name']}, from sequence {start}")
        row["launches"] += 1
        row["iterations"] += iterations
        row["rows"] += report.rows
        row["bytes_checked"] += report.bytes_checked
        if report.findings and not row["found"]:
            first: Finding = report.findings[0]
            row |= {"found_by": first.check, "found": f"from sequence {start}: {first.text}"}
            row["status"] = Status.FAIL.value


def _corruption(inject: str | None) -> Corruption | None:
    kinds = {"corrupt-byte": "byte", "corrupt-count": "count", "corrupt-route": "route"}
    return Corruption(kinds[inject]) if inject in kinds else None  # type: ignore[arg-type]


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
