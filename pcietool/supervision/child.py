"""The parent of what may hang: runs one probe in a child process, and outlives it whatever happens there.

Must never initialise CUDA, nor import it: a process that did could not be sure to end.
Order of limits: the kernels' deadline < the child's own host timeout < the silence after which this kills the child.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Protocol

from pcietool.errors import DriverError, PcietoolError
from pcietool.machines.base import Backend
from pcietool.supervision.wire import DEFAULT_REGISTRY, Request, error_from_fields, result_from_fields

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pcietool.contract.results import ProbeResult


@dataclass(frozen=True)
class Limits:
    """How long the child may say nothing, in seconds, before it is killed."""

    quiet_s: float = 120.0
    """Outside a round: starting CUDA, compiling, computing."""
    margin_s: float = 10.0
    """In a round, behind its deadline; the child's own timeout (2 s behind the deadline) must come first."""
    death_s: float = 5.0
    """Between killing it and not waiting for it any more: a driver may hold even a killed process."""


DEFAULT_LIMITS = Limits()


class ChildObserver(Protocol):
    """An Observer that also takes the description of the machine."""

    def progress(self, text: str) -> None: ...

    def begin(self, result: ProbeResult) -> None: ...

    def result(self, result: ProbeResult) -> None: ...

    def describe(self, machine: Mapping[str, Any]) -> None: ...


def run_in_child(
    probe: str,
    config: BaseModel,
    observer: ChildObserver,
    gpus: Sequence[str] | None = None,
    num_gpus: int | None = None,
    backend: Backend = "cuda",
    fabric: str | None = None,
    seed: int = 0,
    registry: str = DEFAULT_REGISTRY,
    limits: Limits = DEFAULT_LIMITS,
) -> list[ProbeResult]:
    """Runs a probe of the registry; its results also go to `observer`, each as soon as it is there.

    A child that falls silent is killed, and the part in progress ends with status hang. Raises the child's error as
    the same class, DriverError if it died, and KeyboardInterrupt on Ctrl-C once it has ended.
    """
    names = None if gpus is None else tuple(gpus)
    request = Request(probe, config.model_dump_json(), backend, names, num_gpus, fabric, seed, registry)
    with _start(request) as child:
        conversation = _Conversation(child, request, observer, limits)
        try:
            conversation.listen()
        except KeyboardInterrupt:
            child.process.send_signal(signal.SIGINT)
            with suppress(PcietoolError):  # whatever else went wrong: the user ended it
                conversation.listen()
            raise
        return conversation.results


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    events: int
    """File descriptor."""
    stderr: IO[bytes]

    def last_words(self) -> str:
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").split("\n")
        return next((f"; its last line: {line.strip()}" for line in reversed(lines) if line.strip()), "")


@contextmanager
def _start(request: Request) -> Iterator[_Child]:
    """The child gets a session of its own: a terminal's Ctrl-C reaches this process only, which passes it on."""
    read_end, write_end = os.pipe()
    # The child must import what this process would: the same checkout, from any directory.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "pcietool.supervision.child_main", str(write_end)]
    with tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=stderr,
                stderr=stderr,
                env=environment,
                pass_fds=[write_end],
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin:  # a child that is already dead says so by its other pipe
                process.stdin.write(request.to_json().encode())
            yield _Child(process, read_end, stderr)
        finally:
            os.close(read_end)
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(DEFAULT_LIMITS.death_s)


class _Conversation:
    """Listens to one child until it ends, or until its silence is too long."""

    def __init__(self, child: _Child, request: Request, observer: ChildObserver, limits: Limits) -> None:
        self.results: list[ProbeResult] = []
        self._child = child
        self._request = request
        self._observer = observer
        self._limits = limits
        self._machine: dict[str, Any] | None = None
        self._begun: ProbeResult | None = None
        self._doing = "starting"
        self._allowed_s = limits.quiet_s
        self._unread = b""
        self._ended = False

    def listen(self) -> None:
        """Returns once the child has ended, raises its error."""
        while not self._ended:
            heard = self._hear()
            if heard is None:
                return self._kill()
            if not heard:
                return self._check_death()
            self._unread += heard
            while b"\n" in self._unread:
                line, _, self._unread = self._unread.partition(b"\n")
                self._take(json.loads(line))
        self._wait()

    def _hear(self) -> bytes | None:
        """What the child sent; b"" if it has ended, None if it was silent for too long."""
        ready, _, _ = select.select([self._child.events], [], [], self._allowed_s)
        return os.read(self._child.events, 1 << 16) if ready else None

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

    def _wait(self) -> bool:
        """Has the process ended, at the latest after a moment?"""
        try:
            self._child.process.wait(self._limits.death_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _check_death(self) -> None:
        """The pipe closed without a goodbye."""
        self._wait()
        code = self._child.process.returncode
        how = f"died from {signal.Signals(-code).name}" if code is not None and code < 0 else f"left with code {code}"
        raise DriverError(f"the process that measures {how} while {self._doing}{self._child.last_words()}")

    def _kill(self) -> None:
        from pcietool.contract.results import ProbeResult, Status

        part = self._begun or ProbeResult(self._request.probe, Status.HANG, "", "unknown", "not measured")
        self._child.process.kill()
        state = "killed" if self._wait() else "killed but not gone: the driver holds it"
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
