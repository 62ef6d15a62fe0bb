"""The launches of an exploration: which run at the same time, and which one after the other.

Streams of a device, and devices, know nothing of each other. In a stream a launch begins when the one before it has
ended or, if it may overlap that, when all of its blocks let it. Must not know what threads do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcietool.emulator.engine.threads import GridSpec


@dataclass(frozen=True)
class ExploredLaunch:
    device: int
    spec: GridSpec


@dataclass(frozen=True)
class Placed:
    """A launch among all: `blocks` are the threads of each, by number; `first_block` counts over all launches."""

    launch: ExploredLaunch
    first_block: int
    first_thread: int
    earlier: tuple[Placed, ...]
    """The launches before it in its stream."""

    @property
    def lets(self) -> Placed | None:
        """The launch whose blocks let it begin, if it need not wait for that one's end."""
        return self.earlier[-1] if self.earlier and self.launch.spec.overlaps else None

    @property
    def before(self) -> tuple[Placed, ...]:
        """The launches that have ended when it begins."""
        return self.lets.before if self.lets else self.earlier

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
        where = launch.device, launch.spec.stream
        earlier = tuple(one for one in found if (one.launch.device, one.launch.spec.stream) == where)
        found.append(Placed(launch, block, thread, earlier))
        block += launch.spec.blocks
        thread += launch.spec.blocks * launch.spec.threads
    return found
