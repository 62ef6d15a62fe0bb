"""What every probe shares: the observer it reports to and the result it returns.

A probe is a function `probe(machine, config, observer) -> ProbeResult`. It knows buffers, launches and what is
right; it must not know CUDA, the emulator, the terminal or files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

Row = dict[str, Any]
"""JSON values only. Units stand in the key (`one_way_us`); what could not be measured is None, and a key
`reason` says why."""


class Status(StrEnum):
    """Worst last: the order in which statuses win when several are merged."""

    PASS = "pass"
    INFO = "info"
    WARN = "warn"
    WAIVED = "waived"
    INTERRUPTED = "interrupted"
    ERROR = "error"
    FAIL = "fail"
    HANG = "hang"


@dataclass
class ProbeResult:
    """One probe on one transport. `method` says what was timed, with which timer, one way or round trip."""

    name: str
    status: Status
    verdict: str
    """One line for the first screen: what is true on this machine, with the figure that says so."""
    transport: str
    method: str
    rows: list[Row] = field(default_factory=list)
    reason: str | None = None
    """Why it was waived or failed, and what to do."""
    checks: list[Row] = field(default_factory=list)
    """Self-tests and negative controls: {"name", "passed", "text"}; with "severity": "warn" a failed one is only
    a reason for doubt."""
    matrix: dict[str, Any] | None = None
    """One figure for each ordered pair: {"figure", "unit", "labels", "cells"}; cells[writer][owner], None where there
    is no such pair. Rows with "in_matrix" set are what it was made of, and no table repeats them."""
    hang: dict[str, Any] | None = None
    """For status hang: records, arrival matrix, proof (emulator)."""
    details: dict[str, Any] = field(default_factory=dict)
    """What one command alone has to say, in JSON values; its own report shows it."""
    effort: dict[str, Any] = field(default_factory=dict)
    """How much was measured, with every default filled in; JSON values only."""
    samples: dict[str, Any] = field(default_factory=dict, repr=False)
    """Raw samples by name, numpy arrays; only written with --raw."""


class Observer(Protocol):
    """Where a probe reports while it runs, so that an interrupted run keeps what was measured."""

    def progress(self, text: str) -> None:
        """What is being measured right now; shown on stderr."""

    def begin(self, result: ProbeResult) -> None:
        """A part whose rows and checks grow from now on. If it is never finished, this is what remains of it."""

    def result(self, result: ProbeResult) -> None:
        """A finished part. A probe calls it once per transport."""
