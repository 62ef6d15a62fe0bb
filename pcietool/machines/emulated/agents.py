"""CPU threads of a round in virtual time: each access takes effect at once, in host memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcietool.emulator.engine.engine import Engine
from pcietool.emulator.memory import HOST
from pcietool.machines.host_agents import REPORT, WORD_BYTES, HostAgent, Stores


@dataclass
class RunningAgent:
    """One host agent. `ended_ns`: when it made its last access so far."""

    engine: Engine
    asked: HostAgent
    interval_ns: float
    """From one access to the next."""
    deadline_ns: float
    """Of stores."""
    ended_ns: float

    @property
    def address(self) -> int:
        return self.asked.buffer.address + self.asked.offset

    def add(self, left: int, _: object = None) -> None:
        self._write(self.address, np.uint32(self._word() + 1 & 0xFFFFFFFF))
        if left > 1:
            self.engine.at(self.engine.now + self.interval_ns, self.add, left - 1)

    def store(self, at: tuple[Stores, int, int], _: object = None) -> None:
        """`at`: what is stored, how many were made so far, and how many of them undone."""
        stores, made, undone = at
        self._write(self.address, np.uint32(made + 1))
        self.engine.at(self.engine.now + stores.watched_ns, self._look, (stores, made + 1, undone))

    def _look(self, at: tuple[Stores, int, int], _: object) -> None:
        stores, made, undone = at
        undone += self._word() != made
        if made < stores.most and self.engine.now < self.deadline_ns:
            self.engine.at(self.engine.now + self.interval_ns, self.store, (stores, made, undone))
        else:
            report = np.array([(1, made, undone)], REPORT)
            self._write(self.asked.buffer.address + stores.report, report)

    def _word(self) -> int:
        segment, offset = self.engine.memory.find(self.address, WORD_BYTES)
        return int(segment.views[WORD_BYTES][offset // WORD_BYTES])

    def _write(self, address: int, value: np.generic | np.ndarray) -> None:
        stamp = self.engine.order.outside("host agent", HOST, strong=True)
        self.engine.deliver(HOST, address, value.tobytes(), stamp)
        self.ended_ns = self.engine.now


def start_agent(
    engine: Engine, agent: HostAgent, began_ns: float, interval_ns: float, deadline_ns: float
) -> RunningAgent:
    """Lets it begin when launches do. Half of `deadline_ns` ends its stores."""
    running = RunningAgent(engine, agent, interval_ns, began_ns + deadline_ns / 2, began_ns)
    begins = began_ns + engine.gpu.launch_ns.value
    if agent.stores is not None:
        engine.at(begins, running.store, (agent.stores, 0, 0))
    elif agent.adds:
        engine.at(begins, running.add, agent.adds)
    return running
