"""The launches of an exploration: which run at the same time, and which one after the other.

Streams of a device, and devices, know nothing of each other. Must not know what threads do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcietool.emulator.engine.threads import GridSpec


@dataclass(frozen=True)
class ExploredLaunch:
    """`overlaps`: it may begin before the launch before it in its stream has ended, which is not explored."""

    device: int
    spec: GridSpec
    stream: int = 0
    overlaps: bool = False


@dataclass(frozen=True)
class Placed:
    """A launch among all: `blocks` are the threads of each, by number; `first_block` counts over all launches."""

    launch: ExploredLaunch
    first_block: int
    first_thread: int
    before: tuple[Placed, ...]
    """The launches before it in its stream."""

    @property
    def blocks(self) -> list[tuple[int, ...]]:
        spec = self.launch.spec
        starts = range(self.first_thread, self.first_thread + spec.blocks * spec.threads, spec.threads)
        return [tuple(range(start, start + spec.threads)) for start in starts]

    @property
    def threads(self) -> range:
        spec = self.launch.spec
        return range(self.first_thread, self.first_thread + spec.blocks * spec.threads)

    def waits_for(self, other: Placed) -> bool:
        """Whether it begins only when the other has ended."""
        return other in self.before


def placed(launches: Sequence[ExploredLaunch]) -> list[Placed]:
    found: list[Placed] = []
    block = thread = 0
    for launch in launches:
        where = launch.device, launch.stream
        before = tuple(one for one in found if (one.launch.device, one.launch.stream) == where)
        found.append(Placed(launch, block, thread, before))
        block += launch.spec.blocks
        thread += launch.spec.blocks * launch.spec.threads
    return found
