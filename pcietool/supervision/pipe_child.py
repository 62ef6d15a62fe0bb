"""A process that dies with the one that started it: lines of JSON both ways, last words, an end that is certain.

`python -m pcietool.supervision.pipe_child PARENT_PID MODULE ARGUMENT...` is the other side: it calls the module's
`main(answers, *arguments)`, where `answers` is the pipe to the parent and stdin holds what the parent sends. Must not
know what they say, nor import CUDA.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

DEATH_S = 5.0
"""Between killing it and not waiting for it any more: a driver may hold even a killed process."""
_PR_SET_PDEATHSIG = 1
"""Of prctl, see linux/prctl.h."""


class PipeChild:
    """Leaving the context kills it. It has a session of its own: a terminal's Ctrl-C reaches only this process."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is added to this process's."""
        # It must import what this process would: the same checkout, from any directory.
        path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pcietool.supervision.pipe_child", str(os.getpid()), module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **(environment or {}), "PYTHONPATH": path},
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def fileno(self) -> int:
        """What becomes readable when it says something or ends."""
        return self._stdout.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError):  # whoever waits for an answer notices that it is dead
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def hear(self) -> bool:
        """Takes in what it said since; blocks until it says something. False if it has ended."""
        heard = os.read(self.fileno(), 1 << 16)
        self._unread += heard
        return bool(heard)

    def messages(self) -> Iterator[dict[str, Any]]:
        """What was heard, each message once."""
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            yield json.loads(line)

    def last_words(self) -> str | None:
        """The last line that it, or a library in it, printed."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), None)

    def wait(self, deadline_s: float) -> bool:
        """Has it ended by then?"""
        try:
            self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> bool:
        """Kills it. False if it is not gone then."""
        self.process.kill()
        gone = self.wait(DEATH_S)
        for stream in (self._stdin, self._stdout, self._stderr):
            with suppress(BrokenPipeError):
                stream.close()
        return gone


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when the one that started it ends, however that ends: no orphan holds a GPU."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def main() -> None:
    parent, module, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print
    import_module(module).main(answers, *arguments)


if __name__ == "__main__":
    main()
