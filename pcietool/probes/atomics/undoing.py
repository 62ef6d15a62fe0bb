"""Do RMWs that change nothing undo the stores of a word's only writer? Rounds of kernels/undone.cu, and their rows.

An atomic that is a read and a write puts back what it has read. Must not decide what undone stores mean; `judge` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np

from pcietool.contract.results import Row
from pcietool.machines.base import Launch, Part
from pcietool.machines.host_agents import REPORT, HostAgent, Stores
from pcietool.probes.atomics.config import Grid
from pcietool.probes.atomics.counting import Form, Requesters
from pcietool.probes.atomics.rows import blank
from pcietool.probes.atomics.word_home import Home
from pcietool.probes.common.checks import check
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.structs import struct_of
from pcietool.probes.common.world import World
from pcietool.protocol.slots import SLOT_STRIDE
from pcietool.units import count

WATCHED_NS = 3000
"""Longer than an RMW takes over any link from its read to its write."""
UNDOING = np.dtype(
    [(name, "<u8") for name in ("word", "started", "report", "accesses")]
    + [(name, "<u4") for name in ("rank", "other", "most", "watched_ns", "nothing")],
    align=True,
)
"""Undoing of kernels/undone.cu."""
RMWS = tuple(Form(operation, "no-op", "sys") for operation in ("cas", "add", "min", "max", "and", "or", "xor"))
CONTROLS = tuple(Form(operation, "control", "sys") for operation in ("nothing", "load", "cas beside"))
"""None of them may undo a store: the last one is a CAS that fails, 4 bytes beside the word."""
PLAIN = "plain"
"""A load, and a store of what it read: it must undo stores."""

Storing: TypeAlias = int | Literal["CPU"]
"""Who stores: a GPU or the CPU."""


def name_of(storing: Storing) -> str:
    return storing if storing == "CPU" else f"GPU {storing}"


class Undoer:
    """A word on one home, and what both sides of a round share."""

    def __init__(self, world: World, home: Home, stores: int) -> None:
        """`stores`: of each round."""
        self.world = world
        self.home = home
        self._stores = stores
        self._memory = Memory(world)
        self._words = self._memory.alloc(home.place, 3 * SLOT_STRIDE, "the word that is stored to")
        self._accesses = self._memory.per_device(4, "accesses that change nothing")

    def rows(self, accessing: int, storing: Storing) -> Iterator[Row]:
        """One for each access: `accessing` performs it, while `storing` stores."""
        for form in (*RMWS, *CONTROLS):
            requesters = Requesters((accessing,))
            row = blank(self.home, form, requesters, Grid(1, 1), None)
            writer = name_of(storing)
            row |= {
                "requesters": [*requesters.names, writer],
                "requesters_text": f"{requesters}, {writer} stores",
                "storing": writer,
            }
            if reason := self._why_not(storing):
                yield row | {"reason": reason}
                continue
            stores, undone, accesses, elapsed_ns = self.run(form.operation, accessing, storing)
            yield row | {
                "wanted": self._stores,
                "made": stores,
                "expected": stores,
                "seen": stores - undone,
                "lost": undone,
                "lost_fraction": undone / stores,
                "accesses": accesses,
                "elapsed_us": elapsed_ns / 1e3,
                "ns_per_operation": elapsed_ns / accesses,
                "reason": None if stores == self._stores else "cut short by --timeout",
            }

    def control(self, accessing: int, storing: Storing) -> Iterator[Row]:
        """Who stores must be able to see a store undone."""
        if self._why_not(storing):
            return
        stores, undone, *_ = self.run(PLAIN, accessing, storing)
        yield check(
            "control: a plain load and store undoes stores",
            undone > 0,
            f"{count(undone)} of {count(stores)} by {name_of(storing)} undone by GPU {accessing}",
            severity="warn",
            reason="that an RMW undid no store proves nothing here",
        )

    def run(self, access: str, accessing: int, storing: Storing) -> tuple[int, int, int, float]:
        """(stores made, stores undone, accesses made, GPU time in ns). Raises Hung."""
        self._words.fill(0)
        agents = []
        launches = [self._launch(f"access_{access.removeprefix('cas ')}", accessing, storing)]
        if storing == "CPU":
            agents.append(HostAgent(self._words, 0, stores=Stores(self._stores, WATCHED_NS, 2 * SLOT_STRIDE)))
        else:
            launches.append(self._launch("store_and_look", storing, accessing))
        during = f"stores by {name_of(storing)} under {access} by GPU {accessing}"
        outcome = self.world.run(launches, during, agents)
        report = self._words.read(REPORT, 1, 2 * SLOT_STRIDE)[0]
        accesses = int(self._accesses[accessing].read(np.uint32, 1)[0])
        return int(report["made"]), int(report["undone"]), accesses, outcome.elapsed_ns[accessing]

    def free(self) -> None:
        self._memory.free()

    def _why_not(self, storing: Storing) -> str | None:
        return self.home.machine.missing("host_agent") if storing == "CPU" else None

    def _launch(self, entry: str, gpu: int, other: Storing) -> Launch:
        given = struct_of(
            UNDOING,
            word=self._words,
            started=Part(self._words, SLOT_STRIDE, SLOT_STRIDE),
            report=Part(self._words, 2 * SLOT_STRIDE, SLOT_STRIDE),
            accesses=self._accesses[gpu],
            rank=gpu,
            other=self.world.size if other == "CPU" else other,
            most=self._stores,
            watched_ns=WATCHED_NS,
            nothing=0,
        )
        return Launch(gpu, self.world.machine.load("undone.cu").kernel(entry), 1, 1, args=(given,))
