"""A child of pipes by itself: this module is what runs in it."""

import json
import os
import subprocess
import sys
import time
from typing import IO

import pytest

from pcietool.supervision import pipe_child
from pcietool.supervision.pipe_child import PipeChild


def main(answers: IO[bytes], does: str) -> None:
    sys.stdout.write("a library prints on stdout\n")
    sys.stdout.flush()
    os.write(1, b"and past Python's buffers\n\n")
    if does == "sleep":
        time.sleep(60)
    for line in sys.stdin:
        answers.write(json.dumps({"heard": json.loads(line), "set": os.environ.get("SET")}).encode() + b"\n")
        answers.flush()


def test_messages_go_both_ways_whatever_a_library_prints() -> None:
    with PipeChild(__name__, "echo", environment={"SET": "here"}) as child:
        for number in range(3):
            message = {"number": number, "text": "x" * 200_000}
            child.send(message)
            while not (answers := list(child.messages())):
                assert child.hear()
            assert answers == [{"heard": message, "set": "here"}]
        assert child.last_words() == "and past Python's buffers"
        assert not child.wait(0)
    assert child.process.returncode == -9


def test_a_child_that_ends_says_why() -> None:
    with PipeChild(f"{__name__}_that_is_not_there") as child:
        child.send({"to": "nobody"})
        assert not child.hear()
        assert child.wait(30)
        assert (child.last_words() or "").startswith("ModuleNotFoundError")


def test_the_end_of_a_process_that_the_driver_holds_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with PipeChild(__name__, "sleep") as child:
        with monkeypatch.context() as held:
            held.setattr(pipe_child, "DEATH_S", 0.05)
            held.setattr(child.process, "kill", lambda: None)
            assert not child.end()
        assert child.end()


def test_a_child_whose_parent_has_ended_already_does_nothing() -> None:
    command = [sys.executable, "-m", "pcietool.supervision.pipe_child", str(os.getpid() + 1), __name__, "sleep"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
