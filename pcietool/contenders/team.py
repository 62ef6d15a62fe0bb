"""The processes of one contender, as the one who asks sees them: commands with deadlines, and an end that is certain.

Must not import CUDA or any contender's library.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, Self

from pcietool.contenders.player import Measurement
from pcietool.supervision.pipe_child import PipeChild

_CLOSE_S = 10.0
_LEAVE_S = 3.0
_CHECK_S = 30.0


class Forfeit(Exception):
    """A contender takes part no longer. `status` is the value of a Status: it is absent, hung, wrong, or failed."""

    def __init__(self, status: Literal["waived", "hang", "fail", "error"], text: str) -> None:
        super().__init__(text)
        self.status = status


class Team:
    """All processes of one contender. Leaving the context kills what has not ended."""

    def __init__(
        self, player: str, seats: Sequence[Sequence[int]], environment: Mapping[str, str], options: Mapping[str, Any]
    ) -> None:
        """`seats`: the GPUs of each process. `environment` is added to this process's."""
        self._seats = seats
        self._options = dict(options)
        self._stages = ["start" for _ in seats]
        self._processes: list[PipeChild] = []
        try:
            for _ in seats:
                self._processes.append(PipeChild("pcietool.contenders.worker", player, environment=environment))
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
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
            process.wait(_LEAVE_S)

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
        self._stages = [do for _ in self._processes]
        for process, own in zip(self._processes, fields, strict=True):
            process.send({"do": do, **own})
        answered: dict[int, Any] = {}
        with selectors.DefaultSelector() as selector:
            for index, process in enumerate(self._processes):
                selector.register(process, selectors.EVENT_READ, index)
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
        if not process.hear():
            text = f"process {index} died in stage {self._stages[index]}: {process.last_words() or 'it said nothing'}"
            self.end()
            raise Forfeit("error", text)
        for answer in process.messages():
            match answer:
                case {"stage": stage}:
                    self._stages[index] = stage
                case {"ok": value}:
                    answered[index] = value
                case {"absent": reason}:
                    raise Forfeit("waived", reason)
                case {"wrong": text}:
                    raise Forfeit("fail", f"wrong data: {text}")
                case {"failed": text}:
                    raise Forfeit("error", f"failed in stage {self._stages[index]}: {text}")

    def _give_up(self, do: str, deadline_s: float, answered: Mapping[int, Any]) -> None:
        stages = [stage for index, stage in enumerate(self._stages) if index not in answered]
        where = ", ".join(dict.fromkeys(stages))
        gone = "its processes were killed" if self.end() else "a killed process is not gone: the driver holds it"
        raise Forfeit("hang", f"no answer within {deadline_s:g} s in {do}, stage {where}; {gone}")


def gpus_answer(count: int, environment: Mapping[str, str]) -> tuple[str, bool]:
    """After a contender hung and was killed: (what is to say about the first `count` GPUs that `environment` shows, can
    a fresh process use them)."""
    with PipeChild("pcietool.machines.cuda.gpu_check", str(count), environment=environment) as check:
        if not check.wait(_CHECK_S):
            return f"a fresh process could not use the GPUs within {_CHECK_S:g} s: look at nvidia-smi and dmesg", False
        if check.process.returncode:
            return f"a fresh process cannot use the GPUs: {check.last_words() or 'it said nothing'}", False
    return "a fresh process can use all GPUs", True
