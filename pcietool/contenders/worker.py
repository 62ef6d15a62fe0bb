"""One process of a contender: commands on stdin, answers through its pipe. Started only by `contenders.team`.

A command is one line of JSON, {"do": ..., ...}; the answer is any number of {"stage": text} and then one of
{"ok": ...}, {"absent": reason}, {"wrong": text}, {"failed": text}. Must know no library.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from importlib import import_module
from typing import IO, Any, cast

from pcietool.contenders.player import AbsentError, Measurement, Player, Seat, WrongDataError


class Worker:
    """Answers commands until `close` or the end of stdin. `player` is "module:class"."""

    def __init__(self, player: str, answers: IO[bytes]) -> None:
        module, _, name = player.partition(":")
        self._class = cast("type[Player]", getattr(import_module(module), name))
        self._answers = answers
        self._player: Player | None = None

    def answer(self, do: str, fields: dict[str, Any]) -> None:
        try:
            self._send(ok=getattr(self, f"_{do}")(**fields))
        except AbsentError as absent:
            self._send(absent=str(absent))
        except WrongDataError as wrong:
            self._send(wrong=str(wrong))
        except Exception as error:
            traceback.print_exc()
            self._send(failed=f"{type(error).__name__}: {error}")

    def _send(self, **answer: Any) -> None:
        self._answers.write(json.dumps(answer).encode() + b"\n")
        self._answers.flush()

    @property
    def player(self) -> Player:
        if self._player is None:
            raise RuntimeError("prepare comes first")
        return self._player

    def _prepare(self, process: int, processes: int, gpus: list[int], options: dict[str, Any]) -> dict[str, Any]:
        self._player = self._class(Seat(process, processes, tuple(gpus)), options, lambda text: self._send(stage=text))
        return self._player.prepare()

    def _init(self, token: str | None) -> None:
        self.player.init(token)

    def _run(self, measurement: dict[str, Any], repetitions: int, iteration: int) -> list[float]:
        return self.player.run(Measurement(**measurement), repetitions, iteration)

    def _report(self) -> dict[str, Any]:
        return self.player.report()

    def _close(self) -> None:
        self.player.close()


def main(answers: IO[bytes], player: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides when this ends
    worker = Worker(player, answers)
    for line in sys.stdin:
        command = json.loads(line)
        do = command.pop("do")
        worker.answer(do, command)
        if do == "close":
            break
