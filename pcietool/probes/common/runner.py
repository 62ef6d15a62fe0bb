"""The cases of a probe, one a transport: which run, what a hang leaves of them, and who hears of it.

Must not know what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pcietool.contract.results import Observer, ProbeResult, Status
from pcietool.machines.base import Machine
from pcietool.probes.common.hangs import Hung, gpus_lost, stopped
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import SELF_RANKS, Waived, runnable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class HasTransport(Protocol):
    """A probe's config."""

    @property
    def transport(self) -> str | None: ...


C = TypeVar("C", bound=HasTransport)
E = TypeVar("E", bound="DataclassInstance")


@dataclass(frozen=True)
class Case(Generic[C, E]):
    """A probe on one transport: what it works with, and the result that it fills."""

    machine: Machine
    transport: Transport
    config: C
    effort: E
    observer: Observer
    result: ProbeResult

    @property
    def ranks(self) -> int:
        """As many as there can be."""
        return SELF_RANKS if self.transport == "self" else len(self.machine.devices)

    def progress(self, text: str) -> None:
        self.observer.progress(f"{self.transport}: {text}")


def run_transports(
    name: str,
    machine: Machine,
    config: C,
    observer: Observer,
    method: Callable[[Transport], str],
    effort_of: Callable[[Transport], E],
    measure: Callable[[Case[C, E]], None],
    alone: Container[Transport] = ("self",),
) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError; one GPU suffices for
    those in `alone`."""

    def measure_one(transport: Transport, result: ProbeResult) -> None:
        effort = effort_of(transport)
        result.effort = asdict(effort)
        measure(Case(machine, transport, config, effort, observer, result))

    return run_each(name, runnable(machine, config.transport, alone), method, measure_one, observer)


def run_each(
    name: str,
    cases: Iterable[Any | Waived],
    method: Callable[[Any], str],
    measure: Callable[[Any, ProbeResult], None],
    observer: Observer,
) -> list[ProbeResult]:
    """One result a case, which is a transport or a litmus placement. `measure` fills it, row by row, so that an
    interrupted case keeps what it has; it may raise Hung."""
    results = []
    for case in cases:
        if isinstance(case, Waived):
            text = method(case.transport)
            result = ProbeResult(name, Status.WAIVED, "not run", case.transport, text, reason=case.reason)
        else:
            result = ProbeResult(name, Status.PASS, "", case, method(case))
            observer.begin(result)
            try:
                measure(case, result)
            except Hung as hung:
                result = stopped(result, hung)
        results.append(result)
        observer.result(result)
        if gpus_lost(result):
            break
    return results
