"""One litmus test on one machine: where its variables lie, the launches that run it, and the outcomes they leave.

A trial has its own words, written before the launch. Must not judge what is seen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from pcietool.litmus.model.search import Outcome
from pcietool.litmus.text.cuda_source import MOST_WARPS, gpus_of, result_rows
from pcietool.litmus.text.program import Access, Item, LitmusTest, Load, Rmw, Store
from pcietool.machines.base import HOST, Launch, Machine, Place, Program, on_device
from pcietool.probes.atomics.counting import Requesters
from pcietool.probes.atomics.word_home import Home
from pcietool.probes.common.hangs import finished
from pcietool.probes.litmus.config import Placement
from pcietool.protocol.slots import SLOT_STRIDE

WORD_STRIDE = SLOT_STRIDE
"""Bytes between the same variable of two trials: each has a line of its own, and no variable is another's neighbour,
since each variable has an allocation of its own."""
MEMORY_BYTES = 2**28
"""That the words of one launch take at most."""
PTX_NAMES = {"sub": "add", "exch": "exchange"}
"""RMWs that the driver's table of native operations calls otherwise; PTX has no sub of its own."""


@dataclass(frozen=True)
class Crowd:
    """How many instances of a test run at once, and how."""

    blocks: int
    """That each block of the test has on the machine."""
    instances_a_block: int
    lanes: int
    """Threads of a warp: only the first one works, and where every thread is emulated there is no other."""
    trials: int
    """Of one launch."""
    turns_a_meeting: int
    """Threads meet before each turn on GPUs. Emulated ones drift less, and waiting costs them much."""

    @classmethod
    def of(cls, machine: Machine, test: LitmusTest) -> Crowd:
        gpus = gpus_of(test)
        instances_a_block = min(4, MOST_WARPS // max(gpu.warps for gpu in gpus))
        sms = min(device.sms for device in machine.devices)
        room = max(1, MEMORY_BYTES // (WORD_STRIDE * len(test.locations)))
        if machine.backend == "emulated":
            # In random order a fence.sc costs in proportion to the words in use, so launches are short.
            return cls(2, instances_a_block, lanes=1, trials=min(256, room), turns_a_meeting=8)
        blocks = max(1, sms // max(len(gpu.blocks) for gpu in gpus))
        return cls(blocks, instances_a_block, lanes=32, trials=min(65_536, room), turns_a_meeting=1)

    @property
    def instances(self) -> int:
        return self.blocks * self.instances_a_block


def homes(test: LitmusTest, placement: Placement) -> list[Place]:
    """Where each variable lives. peer: with the last thread that reads it, so that stores cross the link; writer: with
    the first thread that writes it, so that loads do. What nobody reads lies with its last writer, what nobody writes
    with its first reader."""
    if placement == "host":
        return [HOST] * len(test.locations)
    return [on_device(_owner(test, variable, placement)) for variable in range(len(test.locations))]


def _owner(test: LitmusTest, variable: int, placement: Placement) -> int:
    devices = _devices(test)

    def users(kinds: tuple[type[Access], ...]) -> list[int]:
        return [
            devices[index]
            for index, thread in enumerate(test.threads)
            if any(isinstance(one, kinds) and one.location == variable for one in thread.code)
        ]

    readers, writers = users((Load, Rmw)), users((Store, Rmw))
    if placement == "peer":
        return (readers or writers or [0])[-1]
    return (writers or readers or [0])[0]


def _devices(test: LitmusTest) -> list[int]:
    """The device of each thread: GPUs of a test are numbered from 0, whatever it calls them."""
    where = {thread: gpu for gpu, one in enumerate(gpus_of(test)) for block in one.blocks for thread in block}
    return [where[index] for index in range(len(test.threads))]


def not_native(machine: Machine, test: LitmusTest, places: list[Place]) -> str | None:
    """Which RMW of the test goes over a path that the driver does not call native for it, or None."""
    devices = _devices(test)
    for index, thread in enumerate(test.threads):
        for one in thread.code:
            if isinstance(one, Rmw) and not _is_native(Home(machine, places[one.location]), devices[index], one):
                return (
                    f"atomics of P{index} on {test.locations[one.location]} are not native on their way, and the model"
                    " takes for granted that they are"
                )
    return None


def _is_native(home: Home, device: int, one: Rmw) -> bool:
    return home.promises(Requesters((device,)), PTX_NAMES.get(one.operation, one.operation))


class Trials:
    """The memory of a test on a machine, and its launches."""

    def __init__(self, machine: Machine, test: LitmusTest, program: Program, places: list[Place], seed: int) -> None:
        self._machine = machine
        self._test = test
        self._program = program
        self._seed = seed
        self._crowd = Crowd.of(machine, test)
        self._turn = self._crowd.turns_a_meeting
        self._gpus = gpus_of(test)
        self._items = test.question.items
        self._rows = result_rows(test)
        crowd = self._crowd
        self._words = [
            machine.alloc(place, crowd.trials * WORD_STRIDE, f"words of {name}")
            for name, place in zip(test.locations, places, strict=True)
        ]
        self._results = [
            machine.alloc(on_device(gpu), 4 * crowd.trials * max(1, _count(rows)), f"registers of GPU {gpu}")
            for gpu, rows in enumerate(self._rows)
        ]
        meeting = [HOST if HOST in places else on_device(device) for device in _devices(test)]
        self._starts = [
            machine.alloc(place, crowd.instances * len(test.threads) * SLOT_STRIDE, f"start slots of P{index}")
            for index, place in enumerate(meeting)
        ]
        addresses = np.array([start.address for start in self._starts], np.uint64)
        self._tables = [
            machine.alloc(on_device(gpu), addresses.nbytes, "start table") for gpu in range(len(self._gpus))
        ]
        for table in self._tables:
            table.write(addresses)

    def run(self, trials: int, deadline_s: float) -> tuple[Counter[Outcome], float]:
        """(how often each outcome was seen, GPU time in ns). Raises Hung."""
        seen: Counter[Outcome] = Counter()
        elapsed_ns = 0.0
        left = trials
        while left:
            now = min(left, self._crowd.trials)
            elapsed_ns += self._launch(now, deadline_s)
            seen += histogram(self._values(now))
            left -= now
        return seen, elapsed_ns

    def free(self) -> None:
        for buffer in (*self._words, *self._results, *self._starts, *self._tables):
            buffer.free()

    def _launch(self, trials: int, deadline_s: float) -> float:
        for buffer, content in zip(self._words, self._test.contents, strict=True):
            if any(content):
                of_trial = np.frombuffer(content.ljust(WORD_STRIDE, b"\0"), np.uint8)
                buffer.write(np.tile(of_trial, buffer.nbytes // WORD_STRIDE))
            else:
                buffer.fill(0)
        crowd = self._crowd
        launches = [
            Launch(
                gpu,
                self._program.kernel(f"gpu{gpu}"),
                crowd.blocks * len(one.blocks),
                crowd.instances_a_block * one.warps * crowd.lanes,
                args=(
                    self._tables[gpu],
                    self._results[gpu],
                    self._turn,
                    trials,
                    crowd.instances,
                    len(one.blocks),
                    one.warps,
                    crowd.lanes,
                    crowd.turns_a_meeting,
                    self._seed % 2**32,
                    WORD_STRIDE // 4,
                    *self._words,
                ),
            )
            for gpu, one in enumerate(self._gpus)
        ]
        outcome = finished(self._machine.run(launches, deadline_s), self._test.name)
        turns = -(-trials // crowd.instances)
        self._turn += -(-turns // crowd.turns_a_meeting) * crowd.turns_a_meeting
        return max(outcome.elapsed_ns.values())

    def _values(self, trials: int) -> np.ndarray:
        """What the question's items were at the end of each trial: shape (items, trials), int64."""
        values: dict[object, np.ndarray] = {}
        for rows, results in zip(self._rows, self._results, strict=True):
            words = results.read(np.uint32, _count(rows) * trials).reshape(_count(rows), trials)
            for item, places in rows.items():
                halves = np.ascontiguousarray(words[list(places)].T)
                values[item] = halves.view(np.int64 if len(places) == 2 else np.int32)[:, 0]
        columns = [self._final(item, trials) if item.thread is None else values[item] for item in self._items]
        return np.array(columns, np.int64).reshape(len(columns), trials)

    def _final(self, item: Item, trials: int) -> np.ndarray:
        part = item.part
        of_trials = self._words[item.number].read(np.uint8, trials * WORD_STRIDE).reshape(trials, WORD_STRIDE)
        letter = "i" if part.size >= 4 else "u"
        return np.ascontiguousarray(of_trials[:, part.offset : part.end]).view(f"{letter}{part.size}")[:, 0]


def _count(rows: dict[Item, tuple[int, ...]]) -> int:
    return sum(map(len, rows.values()))


def histogram(values: np.ndarray) -> Counter[Outcome]:
    """How often each column of `values`, shape (items, trials), int64, stands there."""
    code = np.zeros(values.shape[1], np.int64)
    for row in values:  # equal columns so far have equal codes
        _, numbers = np.unique(row, return_inverse=True)
        _, code = np.unique(code << 32 | numbers, return_inverse=True)
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return Counter({tuple(values[:, at].tolist()): int(n) for at, n in zip(first, counts, strict=True)})
