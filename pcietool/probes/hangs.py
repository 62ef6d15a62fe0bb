"""A hung round as a probe's result: what it says, and what to do. Shared by every probe that waits."""

from __future__ import annotations

from dataclasses import asdict

from pcietool.machines.base import Hang, Outcome
from pcietool.probes.base import ProbeResult, Status

SHORT_WAIT_NS = 10e6
"""A wait that gave up earlier says more about --timeout than about the machine."""


class Hung(Exception):
    """A round hung; nothing more can be measured on this transport."""

    def __init__(self, hang: Hang, during: str) -> None:
        super().__init__(during)
        self.hang = hang
        self.during = during


def finished(outcome: Outcome, during: str) -> Outcome:
    """The outcome of a round that ended; raises Hung if it did not."""
    if outcome.hang:
        raise Hung(outcome.hang, during)
    return outcome


def hung(name: str, transport: str, method: str, hang: Hang, during: str) -> ProbeResult:
    """The result of a probe that stopped at a hang; its first line names the slot, what was wanted and what came."""
    first = next((r for r in hang.records if r.reason == "deadline"), hang.records[0] if hang.records else None)
    verdict = f"hang during {during}: {first or 'no wait left a record'}"
    return ProbeResult(
        name,
        Status.HANG,
        verdict,
        transport,
        method,
        reason=advice(hang),
        hang={
            "limit": hang.limit,
            "records": [asdict(record) for record in hang.records],
            "dropped_records": hang.dropped_records,
            "proof": [asdict(blocked) for blocked in hang.proof],
        },
    )


def advice(hang: Hang) -> str:
    """What to look at, from what the waits saw."""
    if not hang.records:
        return "no wait of ours timed out: the kernel itself does not end; look at the GPU with nvidia-smi"
    longest_ns = max(record.since_entry_ns for record in hang.records)
    if longest_ns < SHORT_WAIT_NS:
        return (
            f"the longest wait lasted {longest_ns / 1e6:.3g} ms: --timeout may be too short, give it a second or more"
        )
    writers = {record.col for record in hang.records if record.reason == "deadline" and record.row > 0}
    if len(writers) == 1:
        return (
            f"every wait that timed out was for rank {writers.pop()}: it is dead, not resident, or its writes are lost"
        )
    if not writers:
        return "blocks wait for blocks of their own GPU: the grid has more blocks than are resident; use fewer"
    return "several writers are missing: compare the matrix with the links between those GPUs (IOMMU, ACS)"
