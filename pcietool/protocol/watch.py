"""The host's mirror of Watch and WaitRecord in kernels/slots.cuh: what a wait that gave up leaves behind.

Must hold layouts and words only; who allocates the memory is the machines' business.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pcietool.contract.outcomes import WaitRecord

MAX_RECORDS = 256

WATCH = np.dtype(
    [
        ("gave_up", "<u4"),
        ("records_taken", "<u4"),
        ("poll_limit", "<u4"),
        ("reserved", "<u4"),
        ("deadline_ns", "<u8"),
        ("records", "<u8"),
    ]
)
RECORD = np.dtype(
    [
        ("reason", "<u4"),
        ("rank", "<u4"),
        ("row", "<u4"),
        ("col", "<u4"),
        ("wanted", "<u4"),
        ("got", "<u4"),
        ("round", "<u4"),
        ("block", "<u4"),
        ("thread", "<u4"),
        ("line", "<u4"),
        ("since_entry_ns", "<u8"),
    ]
)
REASONS: dict[int, Literal["deadline", "abort"]] = {1: "deadline", 2: "abort"}
POLL_LIMIT = 2**31
"""Behind the timer: at the fastest poll ever measured here (0.15 us) five minutes."""


def fresh_watch(deadline_s: float, records_address: int) -> np.ndarray:
    """A Watch for one launch, shape (1,), dtype WATCH."""
    watch = np.zeros(1, WATCH)
    watch["poll_limit"] = POLL_LIMIT
    watch["deadline_ns"] = int(deadline_s * 1e9)
    watch["records"] = records_address
    return watch


def decode_records(records: np.ndarray, taken: int) -> tuple[WaitRecord, ...]:
    """The records of one device, first writer first; `records` has dtype RECORD. A record whose reason is 0 was
    claimed but never written (its thread died) and is left out."""
    names = ("rank", "row", "col", "wanted", "got", "round", "block", "thread", "since_entry_ns", "line")
    return tuple(
        WaitRecord(REASONS[int(record["reason"])], **{name: int(record[name]) for name in names})
        for record in records[: min(taken, MAX_RECORDS)]
        if int(record["reason"]) in REASONS
    )
