"""Collects what a probe reports while it runs, and shows on stderr how far it is. Must not touch stdout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from pcietool.contract.results import ProbeResult, Status
from pcietool.units import MISSING

if TYPE_CHECKING:
    from pcietool.emulator.engine.trace import EventTrace


BEAT_S = 1.0
SILENCE_S = 10.0
"""After so much of it a line says that the run goes on, where no terminal shows a spinner."""


class Recorder:
    """The observer of a run: a spinner on a terminal, else a line now and then, plain lines with `verbose`, nothing
    with `quiet`. `clock` gives seconds."""

    def __init__(
        self, console: Console, quiet: bool = False, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.machine: Mapping[str, Any] | None = None
        self.results: list[ProbeResult] = []
        self.begun: ProbeResult | None = None
        """A part that grows, and is not finished yet."""
        self.trace: EventTrace | None = None
        """The memory events of an emulated run, if the user wants them."""
        self.opening = ""
        """Noted once there is a machine: a machine that cannot be opened leaves its error, and nothing else."""
        self._console = console
        self._quiet = quiet
        self._verbose = verbose
        self._clock = clock
        self._began = self._spoke = clock()
        self._doing = "preparing"
        self._ended = threading.Event()
        self._spinner: Spinner | None = None
        if console.is_terminal and not quiet:
            self._spinner = Spinner("", console=console)

    def describe(self, machine: Mapping[str, Any]) -> None:
        """What the machine is; a later description replaces an earlier one."""
        if self.machine is None and self.opening:
            self.note(self.opening)
        self.machine = machine

    def progress(self, text: str) -> None:
        self._doing = text
        if self._spinner:
            self._spinner.update(Text(self._far()))
        if self._verbose:
            self._console.print(Text(text))
            self._spoke = self._clock()

    def beat(self) -> None:
        """Called every second or so: the run goes on."""
        if self._spinner:
            self._spinner.update(Text(self._far()))
        elif self._clock() - self._spoke >= SILENCE_S:
            self._spoke = self._clock()
            self.note(self._far())

    def _far(self) -> str:
        """Such as "20 s: host: barrier, 3 of 22; complete: peer"."""
        complete = ", ".join(dict.fromkeys(result.transport for result in self.results))
        return f"{self._clock() - self._began:.0f} s: {self._doing}" + (f"; complete: {complete}" if complete else "")

    def _beat_until_ended(self) -> None:
        while not self._ended.wait(BEAT_S):
            self.beat()

    def begin(self, result: ProbeResult) -> None:
        self.begun = result

    def result(self, result: ProbeResult) -> None:
        self.begun = None
        self.results.append(result)

    def cut_short(self, probe: str, status: Status, reason: str) -> None:
        """Ends the run where it is: what the part in progress has so far becomes its result."""
        before = ", ".join(result.transport for result in self.results) or "nothing"
        part = self.begun or ProbeResult(probe, status, "", MISSING, "not measured")
        verdict = f"ended early; rows so far: {len(part.rows)}, checks: {len(part.checks)}; complete before: {before}"
        self.result(replace(part, status=status, verdict=verdict, reason=reason))

    @property
    def has_measured(self) -> bool:
        return bool(self.results or (self.begun and (self.begun.rows or self.begun.checks)))

    def note(self, text: str) -> None:
        """A line that stays on stderr, unless the user wants none."""
        if not self._quiet:
            self._console.print(Text(f"pcietool: {text}"), soft_wrap=True)

    def __enter__(self) -> Recorder:
        if self._spinner:
            self._spinner.start()
        if not self._quiet:
            threading.Thread(target=self._beat_until_ended, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._spinner:
            self._spinner.stop()
