"""What a round is called in messages. Must not know machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Launched(Protocol):
    """What a name needs of a launch."""

    @property
    def device(self) -> int: ...

    @property
    def kernel(self) -> Named: ...


def launch_names(launches: Sequence[Launched]) -> str:
    """Such as "barrier_rounds on GPUs 0, 1"."""
    kernels = ", ".join(dict.fromkeys(launch.kernel.name for launch in launches))
    devices = sorted({launch.device for launch in launches})
    return f"{kernels} on GPU{'s' if len(devices) > 1 else ''} {', '.join(map(str, devices))}"
