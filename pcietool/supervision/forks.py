"""The same work for many numbers on several cores: forks of this process, their answers in the numbers' order.

An answer depends on its number alone, so it is the same on any number of cores. Must not be given work that uses CUDA,
which no fork may touch.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from pcietool.errors import PcietoolError
from pcietool.supervision.pipe_child import die_with_parent

Answer = TypeVar("Answer")
ALONE_S = 0.5
"""What takes no longer is not worth a fork; it also makes what all forks then have: translated programs."""
_FORKING = multiprocessing.get_context("fork")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def in_order(
    work: Callable[[int], Answer], count: int, jobs: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Answer]:
    """`work(n)` for n below `count`, on so many cores; whoever has enough stops asking, which ends the forks. Answers
    can be pickled. Raises what `work` raises, and PcietoolError for a fork that was killed."""
    until = clock() + ALONE_S
    for number in range(count):
        if jobs > 1 and count - number > 1 and clock() > until:
            yield from _forked(work, range(number, count), jobs)
            return
        yield work(number)


def _forked(work: Callable[[int], Answer], numbers: Sequence[int], jobs: int) -> Iterator[Answer]:
    jobs = min(jobs, len(numbers))
    forks: list[_Fork[Answer]] = []
    try:
        forks += (_Fork(work, numbers[first::jobs]) for first in range(jobs))
        for position in range(len(numbers)):
            yield forks[position % jobs].answer()
    finally:
        for fork in forks:
            fork.end()


class _Fork(Generic[Answer]):
    """Works through its numbers, as far ahead of who asks as a pipe holds."""

    def __init__(self, work: Callable[[int], Answer], numbers: Sequence[int]) -> None:
        self._answers, answering = _FORKING.Pipe(duplex=False)
        self._process = _FORKING.Process(target=_work, args=(work, numbers, answering, os.getpid()), daemon=True)
        with warnings.catch_warnings():  # other threads' locks do not matter to who only computes
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            self._process.start()
        answering.close()

    def answer(self) -> Answer:
        try:
            answer, error = self._answers.recv()
        except EOFError:
            self._process.join()
            raise PcietoolError(
                f"one of several processes ended early ({_how(self._process.exitcode)}); if memory is short, --jobs 1"
                " needs least"
            ) from None
        if error is not None:
            raise error
        found: Answer = answer
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._answers.close()


def _how(exit_code: int | None) -> str:
    return signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"


def _work(work: Callable[[int], Answer], numbers: Sequence[int], answers: Connection, parent: int) -> None:
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the terminal's whole group; the parent ends this one
    for number in numbers:
        try:
            answer = work(number), None
        except Exception as error:
            answers.send((None, error))
            return
        answers.send(answer)
