"""What a contender is inside its own process: the interface that `worker` calls and every library fills in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Stage = Callable[[str], None]
"""Says what is being done now, so that a contender that hangs is reported with the name of what hung."""


class AbsentError(Exception):
    """This contender cannot take part on this machine; the message says why and what to install."""


class WrongDataError(Exception):
    """A result of this contender is not what it must be."""


@dataclass(frozen=True)
class Seat:
    """One process of a contender: which one it is, and the GPUs that are its own (as this process numbers them)."""

    process: int
    processes: int
    gpus: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """Of all processes: one process has all GPUs, or each has one."""
        return max(self.processes, len(self.gpus))


@dataclass(frozen=True)
class Measurement:
    """What to run: `what` is "all-reduce" or the name of a barrier. `nodes` of them in a graph or launched back to
    back, or `rounds` inside one kernel."""

    what: str
    mode: str
    nbytes: int = 0
    nodes: int = 20
    rounds: int = 0


class Player(ABC):
    """One process of a contender. Every call may raise AbsentError; whatever else it raises is a failure. The option
    `folder` names a directory that is there until the contender has ended."""

    def __init__(self, seat: Seat, options: dict[str, Any], stage: Stage) -> None:
        self.seat = seat
        self.options = options
        self.stage = stage

    @abstractmethod
    def prepare(self) -> dict[str, Any]:
        """Without the other processes: loads, builds, and returns facts about the library. The first process may add
        `token`, which all of them get for `init`."""

    @abstractmethod
    def init(self, token: str | None) -> None:
        """Together with the other processes."""

    @abstractmethod
    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        """Microseconds of one operation, one a repetition: of this process's GPUs the one that the rule of the mode
        counts (longest in a kernel, shortest around launches). `iteration` makes the payload new. Raises
        WrongDataError."""

    def report(self) -> dict[str, Any]:
        """Facts that are known only after it ran."""
        return {}

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Ends it in good order; not called after a failure."""
