"""The child process: takes a Request from stdin, opens the machine, runs one probe, and sends events.

Started only by `supervision.child`, as a `pipe_child`.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import IO, Any

from pcietool.contract.results import ProbeResult
from pcietool.errors import ExitCode
from pcietool.machines import open_machine
from pcietool.machines.base import Machine
from pcietool.machines.description import describe, loaded_kernels
from pcietool.supervision.wire import Request, error_to_fields, result_to_fields, to_line


class Events:
    """The child's end of the pipe; the Observer of its probe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._begun: ProbeResult | None = None
        self._rows_sent = self._checks_sent = 0

    def send(self, event: str, **fields: Any) -> None:
        """Behind what the part in progress has gained, so that the parent has it whatever comes next."""
        self._send_growth()
        self._pipe.write(to_line(event, **fields))
        self._pipe.flush()

    def progress(self, text: str) -> None:
        self.send("progress", text=text)

    def begin(self, result: ProbeResult) -> None:
        self.send("begin", result=result_to_fields(result))
        self._begun = result
        self._rows_sent, self._checks_sent = len(result.rows), len(result.checks)

    def result(self, result: ProbeResult) -> None:
        self._begun = None  # the whole goes now
        self.send("result", result=result_to_fields(result))

    def round(self, what: str, deadline_s: float) -> None:
        self.send("round", what=what, deadline_s=deadline_s)

    def _send_growth(self) -> None:
        if self._begun is None:
            return
        rows, checks = self._begun.rows[self._rows_sent :], self._begun.checks[self._checks_sent :]
        if rows or checks:
            self._rows_sent += len(rows)
            self._checks_sent += len(checks)
            self._pipe.write(to_line("grown", rows=rows, checks=checks))


def run(request: Request, events: Events) -> None:
    """Raises what the probe raises."""
    model, probe = request.load_probe()
    config = model(**request.config)
    machine = open_machine(request.backend, request.gpus, request.num_gpus, request.fabric, request.seed)
    try:
        events.send("machine", machine=describe(machine))
        machine.announce = events.round
        try:
            probe(machine, config, events)
        finally:
            events.send("kernels", kernels_sha256=loaded_kernels(machine))
    except (Exception, KeyboardInterrupt) as error:
        _leave_if_stuck(machine, events, error)
        machine.close()
        raise
    _leave_if_stuck(machine, events)
    events.send("facts", facts=machine.facts())
    machine.close()


def _leave_if_stuck(machine: Machine, events: Events, error: BaseException | None = None) -> None:
    """With a kernel that never ends, even the ordinary end of the process would wait for it."""
    if machine.stuck:
        _say_how_it_ended(events, error)
        sys.stderr.flush()
        os._exit(ExitCode.HANG)


def _say_how_it_ended(events: Events, error: BaseException | None) -> None:
    if error is None:
        events.send("end")
    elif isinstance(error, Exception):
        traceback.print_exception(error)
        events.send("error", **error_to_fields(error))
    else:
        events.send("interrupted")


def main(answers: IO[bytes]) -> None:
    events = Events(answers)
    ending: BaseException | None = None
    try:
        run(Request.from_json(sys.stdin.readline()), events)
    except (Exception, KeyboardInterrupt) as error:
        ending = error
    _say_how_it_ended(events, ending)
