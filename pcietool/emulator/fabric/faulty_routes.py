"""Routes of a machine with a defect in its timing: links that stick, and links on which writes overtake each other.

Must not change what is carried (`faults`).
"""

from __future__ import annotations

import random
from math import inf

from pcietool.emulator.fabric.fabric import Fabric, FabricSpec, Route
from pcietool.emulator.fabric.fault_spec import RelaxedOrdering, StuckLink
from pcietool.emulator.memory import HOST


class StuckRoute(Route):
    """Nothing that leaves at `from_ns` or later ever arrives."""

    def __init__(self, healthy: Route, rng: random.Random, from_ns: float) -> None:
        super().__init__(healthy.link, healthy.ports, rng)
        self.from_ns = from_ns

    def _arrive(self, now: float, nbytes: float, latency: float) -> float:
        return super()._arrive(now, nbytes, latency) if now < self.from_ns else inf


class RelaxedRoute(Route):
    """Coalesced writes, which are weak stores and copies, are late and in order among themselves; strong stores are
    not held up by them. Reads wait for both."""

    def __init__(self, healthy: Route, rng: random.Random, late_ns: float) -> None:
        super().__init__(healthy.link, healthy.ports, rng)
        self.late_ns = late_ns
        self.last_late_arrival = 0.0

    def write(self, now: float, nbytes: int, *, coalesced: bool) -> float:
        arrival = super().write(now, nbytes, coalesced=coalesced)
        if not coalesced:
            return arrival
        self.last_late_arrival = max(self.last_late_arrival, arrival + self.late_ns * self.random())
        return self.last_late_arrival

    def request(self, now: float) -> float:
        return max(super().request(now), self.last_late_arrival)


class FaultyFabric(Fabric):
    """The fabric with the routes that its defect changes."""

    def __init__(self, spec: FabricSpec, seed: int) -> None:
        super().__init__(spec, seed)
        fault = spec.fault
        for (src, dst), route in self.routes.items():
            if isinstance(fault, StuckLink) and fault.has(src, dst):
                self.routes[src, dst] = StuckRoute(route, self.rng, fault.from_ns)
            elif isinstance(fault, RelaxedOrdering) and HOST not in (src, dst):
                self.routes[src, dst] = RelaxedRoute(route, self.rng, fault.late_ns)
