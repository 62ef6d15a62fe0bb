"""Processes of a contender: answers in order, named hangs, and nobody left behind."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pcietool.contenders.player import Measurement
from pcietool.contenders.team import Forfeit, Team
from tests.clock import Clock
from tests.processes import is_gone, wait_until_gone

MEASUREMENT = Measurement("all-reduce", "graph", 4)


def team(player: str, processes: int = 1, environment: dict[str, str] | None = None, **options: Any) -> Team:
    seats = [[gpu] for gpu in range(processes)] if processes > 1 else [[0, 1]]
    return Team(f"tests.contenders.fake_players:{player}", seats, environment or {}, options)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_contender_answers_whatever_its_library_prints(processes: int) -> None:
    with team("Honest", processes, {"NCCL_ALGO": "Tree"}) as contender:
        facts = contender.prepare(30)
        assert facts["environment"] == {"NCCL_ALGO": "Tree"}
        contender.init(facts["token"], 30)
        expected = [[100.0, 10.0 + process / 2, 10.0 + process / 2] for process in range(processes)]
        assert contender.run(MEASUREMENT, 3, 0, 30) == expected
        assert contender.report(30)[0]["transports"] == ["P2P/CUMEM"]
        contender.close()


@pytest.mark.parametrize(
    ("player", "status", "text"),
    [
        ("Absent", "waived", "not installed: pip install it"),
        ("Wrong", "fail", "wrong data: element 3 is wrong"),
        ("Fails", "error", "failed in stage falling over: RuntimeError: no reason"),
        ("Dies", "error", "died in stage falling dead: last words"),
        ("NoSuchPlayer", "error", "died in stage prepare: AttributeError"),
    ],
)
def test_whatever_happens_is_a_forfeit_with_its_reason(player: str, status: str, text: str) -> None:
    def play(contender: Team) -> None:
        contender.prepare(30)
        contender.init("secret", 30)
        contender.run(MEASUREMENT, 1, 0, 30)

    with team(player) as contender, pytest.raises(Forfeit, match=text) as caught:
        play(contender)
    assert caught.value.status == status


def test_a_hang_names_its_stage_and_ends_with_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcietool.contenders.team.time", Clock(2.0))
    with team("HangsInInit", processes=2) as contender:
        pids = [one.process.pid for one in contender._processes]
        contender.prepare(30)
        with pytest.raises(Forfeit, match=r"no answer within 30 s in init, stage ncclCommInitAll; .* killed") as caught:
            contender.init("secret", 30)
        assert caught.value.status == "hang"
        assert all(map(is_gone, pids))


def test_leaving_the_context_kills_a_busy_worker() -> None:
    with team("HangsInRun") as contender:
        process = contender._processes[0].process
        contender.prepare(30)
        contender._processes[0].send({"do": "run", "measurement": vars(MEASUREMENT), "repetitions": 1, "iteration": 0})
        assert process.stdout is not None
        assert process.stdout.read(1), "it says its stage, and hangs"
    assert is_gone(process.pid)


def test_a_worker_does_not_outlive_the_one_that_started_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.contenders.fake_players", str(file)], env=environment, check=False
    )
    assert done.returncode == -9
    wait_until_gone(int(file.read_text()))
