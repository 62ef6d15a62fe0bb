"""A hung round as a probe's result: what it says, and what to do. Shared by every probe that waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from pcietool.contract.outcomes import Hang, Outcome, WaitRecord
from pcietool.contract.results import ProbeResult, Status
from pcietool.protocol.slots import ahead

SHORT_WAIT_NS = 10e6
"""A wait that gave up earlier says more about --timeout than about the machine."""

ALL_ONES = 0xFFFFFFFF
"""What reads return from a device that has left the bus; and the sequence number before 0."""


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


def stopped(result: ProbeResult, hung: Hung) -> ProbeResult:
    """The result of a probe as far as it came; its first line names the slot, what was wanted and what came."""
    hang = hung.hang
    first = next(iter(_first_missing(hang.records) or hang.records or hang.proof or hang.running), None)
    return replace(
        result,
        status=Status.HANG,
        verdict=f"hang during {hung.during}: {first or 'no wait left a record'}",
        reason=advice(hang),
        hang={
            "limit": hang.limit,
            "records": [asdict(record) for record in hang.records],
            "dropped_records": hang.dropped_records,
            "proof": [asdict(blocked) for blocked in hang.proof],
            "running": [asdict(blocked) for blocked in hang.running],
        },
    )


def gpus_lost(result: ProbeResult) -> bool:
    """A kernel of ours did not even end by its own deadline: this process can run nothing more on these GPUs."""
    return result.hang is not None and result.hang["limit"] == "host join timeout"


def _first_missing(records: Sequence[WaitRecord]) -> list[WaitRecord]:
    """The waits of the earliest round that timed out: what was missing later may only follow from them."""
    timed_out = [record for record in records if record.reason == "deadline"]
    earliest = min(
        (record.round for record in timed_out), key=lambda round: ahead(round, timed_out[0].round), default=0
    )
    return [record for record in timed_out if record.round == earliest]


def advice(hang: Hang) -> str:
    """What to look at, from what the waits saw."""
    if stuck := next((blocked for blocked in hang.proof if blocked.value is None), None):
        return (
            f"GPU {stuck.device} block {stuck.block} thread {stuck.thread}: {stuck.address}; look at that link, and at"
            " what the kernel log says of it"
        )
    if not hang.records:
        return "no wait of ours timed out: the kernel itself does not end; look at the GPU with nvidia-smi"
    if any(record.got == ALL_ONES and record.wanted != 0 for record in hang.records):
        return (
            f"a slot read as {ALL_ONES:#x}: all ones are what reads return from a device that has left the bus; look at"
            " the kernel log (Xid 79, AER), and reset it"
        )
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
    first = _first_missing(hang.records)
    pairs = {(record.col, record.rank) for record in first if record.row > 0}
    if len(pairs) == 1:
        writer, owner = pairs.pop()
        return (
            f"the first signal that is missing is that of rank {writer} to rank {owner} (round {first[0].round}), and"
            f" the others may wait because of it: rank {writer} is dead, or its writes to rank {owner} are lost"
        )
    if len({frozenset(pair) for pair in pairs}) == 1:
        one, other = sorted(pairs.pop())
        return (
            f"rank {one} and rank {other} wait for each other (round {first[0].round}): one has not sent its signal, or"
            " writes in one direction between them are lost (IOMMU, ACS)"
        )
    return "several writers are missing: compare the matrix with the links between those GPUs (IOMMU, ACS)"
