"""Which variant of the engine a modelled machine needs: with or without a fault, a trace, and weak memory order.

Must not model anything itself.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.engine.faults import FaultyEngine
from pcietool.emulator.engine.trace import EventTrace, TracedEngine, TracedFaultyEngine
from pcietool.emulator.fabric.defects import FaultyFabric
from pcietool.emulator.fabric.fabric import Fabric, FabricSpec
from pcietool.emulator.memory import Memory
from pcietool.emulator.order.random_order import RandomOrder
from pcietool.emulator.order.timing_order import TimingOrder

MAX_EVENTS = 200_000_000
OrderName: TypeAlias = Literal["timing", "random"]
"""Of memory: one legal execution, or weak outcomes by seed with a report of unordered accesses."""


def engine_of(
    memory: Memory, spec: FabricSpec, seed: int, order: OrderName, trace: EventTrace | None, *, tear: bool = False
) -> Engine:
    """The engine that does no more than it has to. `tear`: as in `RandomOrder`."""

    def memory_order(core: Core) -> TimingOrder:
        return RandomOrder(core, seed, tear=tear) if order == "random" else TimingOrder()

    fabric = Fabric(spec, seed) if spec.fault is None else FaultyFabric(spec, seed, memory)
    machine = memory, fabric, MAX_EVENTS, memory_order
    engine: Engine
    if spec.fault is None:
        engine = Engine(*machine) if trace is None else TracedEngine(*machine, trace)
    else:
        engine = FaultyEngine(*machine) if trace is None else TracedFaultyEngine(*machine, trace)
    engine.handlers = engine.order.scheduled(engine.handlers)
    return engine
