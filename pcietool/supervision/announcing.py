"""A Machine that says before every round what it starts and how long that may take, so that a parent process knows
when silence means a hang. Must change nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pcietool.contract.outcomes import Outcome
from pcietool.machines.base import (
    Buffer,
    CopyStream,
    Graph,
    HostAgent,
    HostLink,
    Kernel,
    Launch,
    Link,
    Machine,
    Place,
    Program,
)
from pcietool.machines.names import launch_names, round_names

Announce = Callable[[str, float], None]
"""(what starts, its deadline in seconds); (what, 0) when it has ended."""


class AnnouncingMachine(Machine):
    """`machine`, with `announce` called around every round."""

    def __init__(self, machine: Machine, announce: Announce) -> None:
        super().__init__()
        self._machine = machine
        self._announce = announce
        self.backend = machine.backend
        self.label = machine.label
        self.devices = machine.devices

    def run(
        self,
        launches: Sequence[Launch],
        deadline_s: float,
        host_agents: Sequence[HostAgent] = (),
        copy_streams: Sequence[CopyStream] = (),
    ) -> Outcome:
        return self._around(
            round_names(launches, copy_streams),
            deadline_s,
            lambda: self._machine.run(launches, deadline_s, host_agents, copy_streams),
        )

    def graph(self, launches: Sequence[Launch]) -> Graph:
        return _AnnouncingGraph(self._machine.graph(launches), f"graph of {launch_names(launches)}", self._around)

    def _around(self, what: str, deadline_s: float, run: Callable[[], Outcome]) -> Outcome:
        self._announce(what, deadline_s)
        outcome = run()
        self._announce(what, 0)
        return outcome

    def link(self, src: int, dst: int) -> Link:
        return self._machine.link(src, dst)

    def host_link(self, device: int) -> HostLink:
        return self._machine.host_link(device)

    def missing(self, capability: Literal["graphs", "host_agent", "copy_engine"]) -> str | None:
        return self._machine.missing(capability)

    def _load(self, name: str, text: str, defines: Mapping[str, int]) -> Program:
        return self._machine.load_text(name, text, defines)

    def alloc(self, place: Place, nbytes: int, name: str) -> Buffer:
        return self._machine.alloc(place, nbytes, name)

    def copy(self, dst: Buffer, src: Buffer, nbytes: int, engine: Literal["copy engine", "staged"]) -> float:
        return self._machine.copy(dst, src, nbytes, engine)

    def resident_blocks(self, device: int, kernel: Kernel, block: int, shared: int = 0) -> int:
        return self._machine.resident_blocks(device, kernel, block, shared)

    def facts(self) -> dict[str, Any]:
        return self._machine.facts()

    def close(self) -> None:
        self._machine.close()


class _AnnouncingGraph(Graph):
    def __init__(self, graph: Graph, what: str, around: Callable[[str, float, Callable[[], Outcome]], Outcome]) -> None:
        self._graph = graph
        self._what = what
        self._around = around

    def run(self, deadline_s: float) -> Outcome:
        return self._around(self._what, deadline_s, lambda: self._graph.run(deadline_s))
