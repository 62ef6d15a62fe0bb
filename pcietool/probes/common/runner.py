"""The parts of a probe, one a transport: which run, what a hang leaves of them, and who hears of it.

Must not know what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from pcietool.contract.results import Observer, ProbeResult, Status
from pcietool.probes.common.hangs import Hung, hung
from pcietool.probes.common.world import Waived

Part: TypeAlias = Any
"""The name of a part: a transport, or a litmus placement."""


def run_each(
    name: str,
    transports: Iterable[Part | Waived],
    method: Callable[[Part], str],
    measure: Callable[[Part, ProbeResult], None],
    observer: Observer,
) -> list[ProbeResult]:
    """One result a transport. `measure` fills it, row by row, so that an interrupted part keeps what it has; it may
    raise Hung."""
    results = []
    for transport in transports:
        if isinstance(transport, Waived):
            text = method(transport.transport)
            result = ProbeResult(name, Status.WAIVED, "not run", transport.transport, text, reason=transport.reason)
        else:
            result = ProbeResult(name, Status.PASS, "", transport, method(transport))
            observer.begin(result)
            try:
                measure(transport, result)
            except Hung as stopped:
                result = _stopped(result, stopped)
        results.append(result)
        observer.result(result)
        if result.hang and result.hang["limit"] == "host join timeout":
            break  # the GPUs are lost to this process
    return results


def _stopped(result: ProbeResult, stopped: Hung) -> ProbeResult:
    """As far as it came, with what the hang says."""
    found = hung(result.name, result.transport, result.method, stopped.hang, stopped.during)
    return replace(result, status=found.status, verdict=found.verdict, reason=found.reason, hang=found.hang)
