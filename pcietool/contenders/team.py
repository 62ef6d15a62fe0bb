"""The processes of one contender, as the one who asks sees them: commands with deadlines, and an end that is certain.

Must not import CUDA or any contender's library.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from pcietool.contenders.player import Measurement

_DEATH_S = 5.0
_CLOSE_S = 10.0
_LEAVE_S = 3.0


class Forfeit(Exception):
    """A contender takes part no longer. `status` is the value of a Status: it is absent, hung, wrong, or failed."""

    def __init__(self, status: Literal["waived", "hang", "fail", "error"], text: str) -> None:
        super().__init__(text)
        self.status = status


class _Process:
    """One worker; what it prints on stderr is kept for its last words."""

    def __init__(self, player: str, environment: Mapping[str, str]) -> None:
        self.stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pcietool.contenders.worker", player, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=dict(environment),
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.stage = "start"
        self._unread = b""

    def send(self, command: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError):  # its silence is noticed when it is to answer
            self.stdin.write(json.dumps(command).encode() + b"\n")
            self.stdin.flush()

    def answers(self) -> list[dict[str, Any]] | None:
        """What it said since; blocks until it says something. None if it has ended."""
        heard = os.read(self.stdout.fileno(), 1 << 16)
        if not heard:
            return None
        *lines, self._unread = (self._unread + heard).split(b"\n")
        return [json.loads(line) for line in lines]

    def last_words(self) -> str:
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")

    def end(self) -> bool:
        """Kills it. False if it is not gone then: a driver may hold even a killed process."""
        self.process.kill()
        gone = True
        try:
            self.process.wait(_DEATH_S)
        except subprocess.TimeoutExpired:
            gone = False
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                stream.close()
        return gone


class Team:
    """All processes of one contender. Leaving the context kills what has not ended."""

    def __init__(
        self, player: str, seats: Sequence[Sequence[int]], environment: Mapping[str, str], options: Mapping[str, Any]
    ) -> None:
        """`seats`: the GPUs of each process. `environment` is added to this process's."""
        # The worker must import what this process would: the same checkout, from any directory.
        path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
        whole = {**os.environ, "PYTHONPATH": path, **environment}
        self._seats = seats
        self._options = dict(options)
        self._processes: list[_Process] = []
        try:
            for _ in seats:
                self._processes.append(_Process(player, whole))
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def prepare(self, deadline_s: float) -> dict[str, Any]:
        """Loads and builds in every process; the facts of the first one, `token` among them if it gave one."""
        count = len(self._seats)
        fields = [
            {"process": process, "processes": count, "gpus": list(gpus), "options": self._options}
            for process, gpus in enumerate(self._seats)
        ]
        facts: dict[str, Any] = self._ask("prepare", deadline_s, fields)[0]
        return facts

    def init(self, token: str | None, deadline_s: float) -> None:
        self._ask_all("init", deadline_s, token=token)

    def run(self, measurement: Measurement, repetitions: int, iteration: int, deadline_s: float) -> list[list[float]]:
        """[process][repetition], microseconds of one operation."""
        fields = {"measurement": asdict(measurement), "repetitions": repetitions, "iteration": iteration}
        return self._ask_all("run", deadline_s, **fields)

    def report(self, deadline_s: float) -> list[dict[str, Any]]:
        return self._ask_all("report", deadline_s)

    def close(self) -> None:
        """In good order; `end` follows in any case."""
        self._ask_all("close", _CLOSE_S)
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(_LEAVE_S)

    def end(self) -> bool:
        """Kills what is left; are all processes gone?"""
        gone = [process.end() for process in self._processes]
        self._processes = []
        return all(gone)

    def _ask_all(self, do: str, deadline_s: float, **fields: Any) -> list[Any]:
        return self._ask(do, deadline_s, [fields] * len(self._processes))

    def _ask(self, do: str, deadline_s: float, fields: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Every process's answer, in order. Raises Forfeit."""
        until = time.monotonic() + deadline_s
        for process, own in zip(self._processes, fields, strict=True):
            process.stage = do
            process.send({"do": do, **own})
        answered: dict[int, Any] = {}
        with selectors.DefaultSelector() as selector:
            for index, process in enumerate(self._processes):
                selector.register(process.stdout, selectors.EVENT_READ, index)
            while len(answered) < len(self._processes):
                ready = selector.select(max(0.0, until - time.monotonic()))
                if not ready:
                    self._give_up(do, deadline_s, answered)
                for key, _ in ready:
                    self._hear(key.data, answered)
                    if key.data in answered:  # it may leave after that, while others still answer
                        selector.unregister(key.fileobj)
        return [answered[index] for index in range(len(self._processes))]

    def _hear(self, index: int, answered: dict[int, Any]) -> None:
        process = self._processes[index]
        answers = process.answers()
        if answers is None:
            text = f"process {index} died in stage {process.stage}: {process.last_words()}"
            self.end()
            raise Forfeit("error", text)
        for answer in answers:
            match answer:
                case {"stage": stage}:
                    process.stage = stage
                case {"ok": value}:
                    answered[index] = value
                case {"absent": reason}:
                    raise Forfeit("waived", reason)
                case {"wrong": text}:
                    raise Forfeit("fail", f"wrong data: {text}")
                case {"failed": text}:
                    raise Forfeit("error", f"failed in stage {process.stage}: {text}")

    def _give_up(self, do: str, deadline_s: float, answered: Mapping[int, Any]) -> None:
        stages = [process.stage for index, process in enumerate(self._processes) if index not in answered]
        where = ", ".join(dict.fromkeys(stages))
        gone = "its processes were killed" if self.end() else "a killed process is not gone: the driver holds it"
        raise Forfeit("hang", f"no answer within {deadline_s:g} s in {do}, stage {where}; {gone}")
