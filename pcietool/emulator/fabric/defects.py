"""What each kind of fault does: a class a kind, which in everything else is the healthy machine.

A defect replaces routes (links that stick, crawl, or let writes overtake each other), or redirects accesses that cross
a link to an alias of the allocation: one that swallows what is written, a private copy, or one that reads as all ones.
Must not know threads, nor how an access reaches it (`engine.faults`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pcietool.emulator.fabric import fault_spec
from pcietool.emulator.fabric.fabric import Fabric, FabricSpec, LinkModel, Route
from pcietool.emulator.memory import HOST, Memory, Segment

Access: TypeAlias = Literal["load", "store", "modify"]
Kind = TypeVar("Kind", bound=fault_spec.Fault)


class Unwritable:
    """Memory, or a view of it, on which nothing that is written has an effect."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def __getitem__(self, index: Any) -> Any:
        return self.content[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        pass


class Defect(Generic[Kind]):
    """What can be wrong: this one changes nothing."""

    stuck: str | None = None
    """The link that nothing crosses any more, if there is one."""

    def __init__(self, fault: Kind, memory: Memory, rng: random.Random) -> None:
        self.fault = fault
        self.memory = memory
        self.rng = rng
        self._aliases: dict[tuple[int, str], Segment] = {}

    def route(self, healthy: Route, src: int, dst: int) -> Route:
        """What a route between two places is in its stead."""
        return healthy

    def target(self, device: int, segment: Segment, access: Access) -> Segment:
        """Where an access of a GPU to memory that is not its own ends up."""
        return segment

    def damages(self, device: int, home: int, nbytes: int, time: float) -> bool:
        """Is the lowest bit of a store that leaves now flipped on its way?"""
        return False

    # -- other faces of allocations, each made when it is first needed ----------------------------------------------

    def swallowing(self, segment: Segment) -> Segment:
        """Reads as the allocation itself; what is written is lost."""
        return self._alias(segment, "lost on the way", lambda: segment.raw)

    def mirror(self, segment: Segment, device: int) -> Segment:
        """A copy that only `device` reads and writes."""
        name = f"private mirror of GPU {device}"
        return self._alias(segment, name, lambda: bytearray(segment.raw), writable=True)

    def all_ones(self, segment: Segment) -> Segment:
        return self._alias(segment, "all ones", lambda: bytearray(b"\xff" * segment.nbytes))

    def _alias(
        self, segment: Segment, name: str, content: Callable[[], bytearray], *, writable: bool = False
    ) -> Segment:
        key = (segment.number, name)
        if key not in self._aliases:
            alias = self.memory.add_alias(segment, f"{segment.name} ({name})", content())
            if not writable:
                views: Any = {size: Unwritable(view) for size, view in alias.views.items()}
                raw: Any = Unwritable(alias.raw)
                alias.views, alias.raw = views, raw
            self._aliases[key] = alias
        return self._aliases[key]


class DroppedWrites(Defect[fault_spec.DroppedWrites]):
    def target(self, device: int, segment: Segment, access: Access) -> Segment:
        if access == "load" or HOST in (device, segment.device) or self.rng.random() >= self.fault.share:
            return segment
        return self.swallowing(segment)


class PrivateMirror(Defect[fault_spec.PrivateMirror]):
    def target(self, device: int, segment: Segment, access: Access) -> Segment:
        return segment if HOST in (device, segment.device) else self.mirror(segment, device)


class DeadDirection(Defect[fault_spec.DeadDirection]):
    def target(self, device: int, segment: Segment, access: Access) -> Segment:
        is_dead = (device, segment.device) == (self.fault.writer, self.fault.owner) and access != "load"
        return self.swallowing(segment) if is_dead else segment


@dataclass
class _Burst:
    """Bytes that one GPU has sent to another without a pause, and when it last sent any."""

    nbytes: int = 0
    last_ns: float = -inf


class CorruptBeyond(Defect[fault_spec.CorruptBeyond]):
    def __init__(self, fault: fault_spec.CorruptBeyond, memory: Memory, rng: random.Random) -> None:
        super().__init__(fault, memory, rng)
        self._bursts: dict[tuple[int, int], _Burst] = {}

    def damages(self, device: int, home: int, nbytes: int, time: float) -> bool:
        if HOST in (device, home):
            return False
        burst = self._bursts.setdefault((device, home), _Burst())
        if time - burst.last_ns > self.fault.pause_ns:
            burst.nbytes = 0
        burst.nbytes += nbytes
        burst.last_ns = time
        return burst.nbytes > self.fault.bytes


class StuckRoute(Route):
    """Nothing that leaves at `from_ns` or later ever arrives."""

    def __init__(self, healthy: Route, rng: random.Random, from_ns: float) -> None:
        super().__init__(healthy.link, healthy.ports, rng)
        self.from_ns = from_ns

    def _arrive(self, now: float, nbytes: float, latency: float) -> float:
        return super()._arrive(now, nbytes, latency) if now < self.from_ns else inf


class StuckLink(Defect[fault_spec.StuckLink]):
    def __init__(self, fault: fault_spec.StuckLink, memory: Memory, rng: random.Random) -> None:
        super().__init__(fault, memory, rng)
        ends = " and ".join(f"GPU {gpu}" for gpu in fault.gpus)
        self.stuck = f"the link between {ends}, stuck since {fault.from_ns / 1e3:g} µs"

    def route(self, healthy: Route, src: int, dst: int) -> Route:
        return StuckRoute(healthy, self.rng, self.fault.from_ns) if self.fault.has(src, dst) else healthy


class SlowLink(Defect[fault_spec.SlowLink]):
    def route(self, healthy: Route, src: int, dst: int) -> Route:
        return Route(self._slowed(healthy.link), healthy.ports, self.rng) if self.fault.has(src, dst) else healthy

    def _slowed(self, link: LinkModel) -> LinkModel:
        times = self.fault.times
        factors = dict.fromkeys(("write_latency_ns", "read_round_trip_ns", "acknowledge_ns", "flush_ns"), times)
        factors["bandwidth_gb_s"] = 1 / times
        figures = {name: getattr(link, name) for name in factors}
        return link.model_copy(
            update={name: old.model_copy(update={"value": old.value * factors[name]}) for name, old in figures.items()}
        )


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


class RelaxedOrdering(Defect[fault_spec.RelaxedOrdering]):
    def route(self, healthy: Route, src: int, dst: int) -> Route:
        return healthy if HOST in (src, dst) else RelaxedRoute(healthy, self.rng, self.fault.late_ns)


class AllOnesReads(Defect[fault_spec.AllOnesReads]):
    def target(self, device: int, segment: Segment, access: Access) -> Segment:
        sees_ones = access != "store" and self.fault.gpu in (device, segment.device)
        return self.all_ones(segment) if sees_ones else segment


DEFECTS: Mapping[type[fault_spec.Fault], type[Defect[Any]]] = {
    fault_spec.DroppedWrites: DroppedWrites,
    fault_spec.PrivateMirror: PrivateMirror,
    fault_spec.DeadDirection: DeadDirection,
    fault_spec.CorruptBeyond: CorruptBeyond,
    fault_spec.StuckLink: StuckLink,
    fault_spec.SlowLink: SlowLink,
    fault_spec.RelaxedOrdering: RelaxedOrdering,
    fault_spec.AllOnesReads: AllOnesReads,
}


class FaultyFabric(Fabric):
    """The fabric of a machine with a defect, and with the routes that it changes."""

    def __init__(self, spec: FabricSpec, seed: int, memory: Memory) -> None:
        super().__init__(spec, seed)
        assert spec.fault is not None
        self.defect = DEFECTS[type(spec.fault)](spec.fault, memory, self.rng)
        self.routes = {ends: self.defect.route(route, *ends) for ends, route in self.routes.items()}
