"""Players without any library: each behaves, or misbehaves, in another way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from pcietool.contenders.player import AbsentError, Measurement, Player, WrongDataError


class Honest(Player):
    """One operation takes `us` (100 for the first repetition), half a microsecond longer in each further process."""

    us = 10.0

    def prepare(self) -> dict[str, Any]:
        sys.stdout.write("a library prints on stdout\n")
        os.write(1, b"and past Python's buffers\n")
        facts = {"library": "honest 1.0", "path": "nowhere", "environment": {"NCCL_ALGO": os.environ.get("NCCL_ALGO")}}
        return facts | ({"token": "secret"} if self.seat.process == 0 else {})

    def init(self, token: str | None) -> None:
        assert token == "secret"

    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        return [100.0 if number == 0 else self.us + self.seat.process / 2 for number in range(repetitions)]

    def report(self) -> dict[str, Any]:
        return {"transports": ["P2P/CUMEM"], "choices": {"4": "RING LL"}}


class Absent(Honest):
    def prepare(self) -> dict[str, Any]:
        raise AbsentError("it is not installed: pip install it")


class Wrong(Honest):
    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        raise WrongDataError("element 3 is wrong")


class Fails(Honest):
    def init(self, token: str | None) -> None:
        self.stage("falling over")
        raise RuntimeError("no reason")


class Dies(Honest):
    def init(self, token: str | None) -> None:
        self.stage("falling dead")
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Honest):
    def hang(self, stage: str) -> NoReturn:
        """Says so again and again, so that whoever waits looks at its clock again and again."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            self.stage(stage)
            time.sleep(0.02)


class HangsInInit(Hangs):
    def init(self, token: str | None) -> None:
        self.stage("ncclCommInitAll")
        if self.seat.process == self.seat.processes - 1:
            self.hang("ncclCommInitAll")


class HangsInRun(Hangs):
    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        self.hang(f"{measurement.what}, {measurement.mode}")


class TellsItsId(Honest):
    """Writes its process id to the file that the options name."""

    def prepare(self) -> dict[str, Any]:
        Path(self.options["file"]).write_text(str(os.getpid()))
        return super().prepare()


if __name__ == "__main__":  # a parent that dies while its worker lives
    from pcietool.contenders.team import Team

    team = Team("tests.contenders.fake_players:TellsItsId", [[0]], {}, {"file": sys.argv[1]})
    team.prepare(30)
    subprocess.run(["true"], check=True)
    os.kill(os.getpid(), signal.SIGKILL)
