"""One process of a contender: commands on stdin, answers on stdout.

`python -m pcietool.contenders.worker MODULE:CLASS PARENT_PID`. A command is one line of JSON, {"do": ..., ...}; the
answer is any number of {"stage": text} and then one of {"ok": ...}, {"absent": reason}, {"wrong": text},
{"failed": text}. What a library prints goes to stderr. Must know no library.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from importlib import import_module
from typing import Any, cast

from pcietool.contenders.player import AbsentError, Measurement, Player, Seat, WrongDataError

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when the one that started it ends, however that ends: no orphan holds a GPU."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


class Channel:
    """The worker's end: stdout for answers alone, since libraries print."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)

    def send(self, **answer: Any) -> None:
        self._answers.write(json.dumps(answer).encode() + b"\n")

    def stage(self, text: str) -> None:
        self.send(stage=text)


class Worker:
    """Answers commands until `close` or the end of stdin."""

    def __init__(self, player: str, channel: Channel) -> None:
        module, _, name = player.partition(":")
        self._class = cast("type[Player]", getattr(import_module(module), name))
        self._channel = channel
        self._player: Player | None = None

    def answer(self, do: str, fields: dict[str, Any]) -> None:
        try:
            self._channel.send(ok=getattr(self, f"_{do}")(**fields))
        except AbsentError as absent:
            self._channel.send(absent=str(absent))
        except WrongDataError as wrong:
            self._channel.send(wrong=str(wrong))
        except Exception as error:
            traceback.print_exc()
            self._channel.send(failed=f"{type(error).__name__}: {error}")

    @property
    def player(self) -> Player:
        if self._player is None:
            raise RuntimeError("prepare comes first")
        return self._player

    def _prepare(self, process: int, processes: int, gpus: list[int], options: dict[str, Any]) -> dict[str, Any]:
        self._player = self._class(Seat(process, processes, tuple(gpus)), options, self._channel.stage)
        return self._player.prepare()

    def _init(self, token: str | None) -> None:
        self.player.init(token)

    def _run(self, measurement: dict[str, Any], repetitions: int, iteration: int) -> list[float]:
        return self.player.run(Measurement(**measurement), repetitions, iteration)

    def _report(self) -> dict[str, Any]:
        return self.player.report()

    def _close(self) -> None:
        self.player.close()


def main() -> None:
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides when this ends
    channel = Channel()
    worker = Worker(sys.argv[1], channel)
    for line in sys.stdin:
        command = json.loads(line)
        do = command.pop("do")
        worker.answer(do, command)
        if do == "close":
            break


if __name__ == "__main__":
    main()
