"""The parent of what may hang: runs one probe in a child process, and outlives it whatever happens there.

Must never initialise CUDA, nor import it: a process that did could not be sure to end.
Order of limits: the kernels' deadline < the child's own, 2 s later < the silence after which this kills the child.
"""

from __future__ import annotations

import select
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pcietool.contract.results import ProbeResult, Status
from pcietool.errors import DriverError, PcietoolError
from pcietool.machines.base import Backend
from pcietool.supervision.pipe_child import DEATH_S, PipeChild
from pcietool.supervision.wire import Request, error_from_fields, result_from_fields

if TYPE_CHECKING:
    from pcietool.contract.config import Config


@dataclass(frozen=True)
class Limits:
    """How long the child may say nothing, in seconds, before it is killed."""

    quiet_s: float = 120.0
    """Outside a round: starting CUDA, compiling, computing."""
    margin_s: float = 10.0
    """In a round, behind its deadline; the child's own (2 s behind the kernels') must come first."""


DEFAULT_LIMITS = Limits()


class ChildObserver(Protocol):
    """An Observer that also takes the description of the machine."""

    def progress(self, text: str) -> None: ...

    def begin(self, result: ProbeResult) -> None: ...

    def result(self, result: ProbeResult) -> None: ...

    def describe(self, machine: Mapping[str, Any]) -> None: ...


def run_in_child(
    probe: str,
    config: Config,
    observer: ChildObserver,
    registry: str,
    gpus: Sequence[str] | None = None,
    num_gpus: int | None = None,
    backend: Backend = "cuda",
    fabric: str | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> list[ProbeResult]:
    """Runs a probe of the `registry`, "module:attribute" of {probe: (config model, function)}. Its results also go to
    `observer`, each as soon as it is there.

    A child that falls silent is killed, and the part in progress ends with status hang. Raises the child's error as
    the same class, DriverError if it died, and KeyboardInterrupt on Ctrl-C once it has ended.
    """
    names = None if gpus is None else tuple(gpus)
    request = Request(registry, probe, asdict(config), backend, names, num_gpus, fabric, seed)
    with PipeChild("pcietool.supervision.child_main") as child:
        child.send(asdict(request))
        conversation = _Conversation(child, request, observer, limits)
        try:
            conversation.listen()
        except KeyboardInterrupt:
            child.process.send_signal(signal.SIGINT)
            with suppress(PcietoolError):  # whatever else went wrong: the user ended it
                conversation.listen()
            raise
        return conversation.results


class _Conversation:
    """Listens to one child until it ends, or until its silence is too long."""

    def __init__(self, child: PipeChild, request: Request, observer: ChildObserver, limits: Limits) -> None:
        self.results: list[ProbeResult] = []
        self._child = child
        self._request = request
        self._observer = observer
        self._limits = limits
        self._machine: dict[str, Any] | None = None
        self._begun: ProbeResult | None = None
        self._doing = "starting"
        self._allowed_s = limits.quiet_s
        self._ended = False

    def listen(self) -> None:
        """Returns once the child has ended, raises its error."""
        while True:
            for message in self._child.messages():
                self._take(message)
            if self._ended:
                self._child.wait(DEATH_S)
                return
            ready, _, _ = select.select([self._child], [], [], self._allowed_s)
            if not ready:
                return self._kill()
            if not self._child.hear():
                return self._check_death()

    def _take(self, event: dict[str, Any]) -> None:
        match event.pop("event"):
            case "round":
                running = event["deadline_s"] > 0
                self._doing = event["what"] if running else f"after {event['what']}"
                self._allowed_s = event["deadline_s"] + self._limits.margin_s if running else self._limits.quiet_s
            case "progress":
                self._observer.progress(event["text"])
            case "begin":
                self._begun = result_from_fields(event["result"])
                self._observer.begin(self._begun)
            case "grown" if self._begun is not None:
                self._begun.rows += event["rows"]
                self._begun.checks += event["checks"]
            case "result":
                self._add(result_from_fields(event["result"]))
            case "machine":
                self._machine = event["machine"]
                self._observer.describe(event["machine"])
            case "kernels" if self._machine is not None:
                self._machine["facts"]["kernels_sha256"] = event["kernels_sha256"]
                self._observer.describe(self._machine)
            case "facts" if self._machine is not None:
                self._observer.describe({**self._machine, "facts": {**self._machine["facts"], "after": event["facts"]}})
            case "error":
                raise error_from_fields(event)
            case "end" | "interrupted":
                self._ended = True

    def _add(self, result: ProbeResult) -> None:
        self._begun = None
        self.results.append(result)
        self._observer.result(result)

    def _check_death(self) -> None:
        """The pipe closed without a goodbye."""
        self._child.wait(DEATH_S)
        code = self._child.process.returncode
        how = f"died from {signal.Signals(-code).name}" if code is not None and code < 0 else f"left with code {code}"
        words = self._child.last_words()
        quoted = f"; its last line: {words}" if words else ""
        raise DriverError(f"the process that measures {how} while {self._doing}{quoted}")

    def _kill(self) -> None:
        part = self._begun or ProbeResult(self._request.probe, Status.HANG, "", "unknown", "not measured")
        state = "killed" if self._child.end() else "killed but not gone: the driver holds it"
        hang = {"limit": "kill of the child process", "running": self._doing}
        self._add(
            replace(
                part,
                status=Status.HANG,
                verdict=f"hung, and had to be killed, while {self._doing}",
                reason=(
                    f"the measuring process said nothing for {self._allowed_s:.1f} s ({state}); check nvidia-smi: a"
                    " GPU at 100 % utilisation and idle power with no process needs `nvidia-smi --gpu-reset`"
                ),
                hang=hang | {"records": [], "dropped_records": 0, "proof": []},
            )
        )
