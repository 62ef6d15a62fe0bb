"""The memory that an entry works in, and the checks that every entry has in common.

Must not know what is sent; the entries do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import ClassVar

import numpy as np

from pcietool.errors import UsageError
from pcietool.machines.base import Argument, Buffer, Launch, Part, Place
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.world import World, changed_guards
from pcietool.probes.verify.trial import Corruption, Finding, Report, Trial
from pcietool.protocol.rows import POISON, first_wrong_byte
from pcietool.protocol.slots import GUARD_BYTE, GUARD_BYTES

LOCAL_ROW, ACK_ROW, RETURN_ACK_ROW, RETURN_ROW, FIRST_ROW = range(5)
"""Rows of a rank's slots, as in kernels/verify.cuh."""
ENDPOINT = np.dtype([(name, "<u8") for name in ("slots", "landing", "returns")])
POISON_WORD = np.uint32(POISON)
SlotUse = tuple[int, int, int]
"""(owner, row, writer)"""


class EntryMemory(Memory):
    """Ranks, slots and memory of one entry."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._guarded: list[Buffer] = []

    def alloc(self, place: Place, nbytes: int, name: str) -> Buffer:
        return super().alloc(place, max(16, nbytes), name)

    def table(self, rank: int, values: np.ndarray, name: str) -> Buffer:
        """Values that the kernel is given, in the memory of the rank's device."""
        buffer = self.local(rank, values.nbytes, name)
        if values.nbytes:
            buffer.write(values)
        return buffer

    def shared(self, rank: int, nbytes: int, name: str) -> Buffer:
        """Where others write to the rank, with guards around it, poisoned."""
        whole = self.reachable(rank, nbytes + 2 * GUARD_BYTES, name)
        self._guarded.append(whole)
        whole.fill(GUARD_BYTE)
        inner = Part(whole, GUARD_BYTES, nbytes)
        poison(inner)
        return inner

    def endpoints(self, landing: list[Buffer], returns: list[Buffer] | int = 0) -> dict[int, Buffer]:
        """Endpoint of verify.cuh for every rank, on each device."""
        slots = self.world.slot_addresses.tolist()
        return self.structs(ENDPOINT, "endpoints", slots=slots, landing=landing, returns=returns)

    def damaged_guards(self) -> Iterator[Finding]:
        """Of slots, and of everything else that others write to."""
        for text in self.world.damaged_guards():
            yield Finding("guards", text)
        for buffer in self._guarded:
            for text in changed_guards(buffer, buffer.name):
                yield Finding("guards", text)


def words(buffer: Buffer, shape: tuple[int, ...]) -> np.ndarray:
    """What lies at the start of a buffer, as uint32 of this shape."""
    read: np.ndarray = buffer.read(np.uint32, prod(shape)).reshape(shape)
    return read


def increment(buffer: Buffer, offset: int = 0) -> None:
    """Makes the 32-bit word at this byte wrong by one."""
    buffer.write(buffer.read(np.uint32, 1, offset) + np.uint32(1), offset)


def poison(buffer: Buffer) -> None:
    buffer.write(np.full(buffer.nbytes // 4, POISON_WORD, np.uint32))


class Entry(ABC):
    """One protocol alone, with one routing: its tables, its launches, and what must have come of them."""

    name: ClassVar[str]
    source: ClassVar[str]
    """Of the kernel, which is named as the file."""

    def __init__(self, memory: EntryMemory, iterations: int) -> None:
        self.memory = memory
        self.iterations = iterations
        """Of every trial."""

    @property
    def world(self) -> World:
        return self.memory.world

    @abstractmethod
    def prepare(self, trial: Trial) -> None:
        """Writes everything for the one trial that this entry is made for, and poisons what that leaves; applies its
        corruption of counts and routes."""

    @abstractmethod
    def wrong_tables(self) -> Iterator[Finding]:
        """What the kernel is given, read back and compared element by element with a recount by naive loops."""

    @abstractmethod
    def launches(self, trial: Trial) -> list[Launch]: ...

    def grids(
        self,
        trial: Trial,
        blocks: int,
        threads: int,
        arguments: Callable[[int], tuple[Argument, ...]],
        shared: int = 0,
    ) -> list[Launch]:
        """One grid a device with `blocks` blocks a rank; `arguments(device)` come before the trial's."""
        kernel = self.world.machine.load(self.source, trial.defines).kernel(self.source.removesuffix(".cu"))
        corrupt_row = self.corrupt_row(trial)

        def all_arguments(device: int, first_rank: int) -> tuple[Argument, ...]:
            return *arguments(device), *trial.arguments(first_rank, self.world.size, corrupt_row)

        return self.world.launches(kernel, blocks, threads, all_arguments, shared=shared)

    @abstractmethod
    def corrupt_row(self, trial: Trial) -> int:
        """The number of the row of which the trial's corruption changes a bit. Raises UsageError if there is none."""

    @abstractmethod
    def wrong_data(self, trial: Trial, report: Report) -> Iterator[Finding]:
        """Compares all that was read with what was sent, and counts with the tables; adds up what it compared."""

    def miscount(self, rank: int) -> None:
        """Makes one of the counts wrong that the kernel made at `rank`. Raises UsageError where it makes none."""
        raise UsageError(f"{self.name} counts nothing")

    @abstractmethod
    def slot_uses(self) -> list[SlotUse]:
        """Every slot that a rank stores to in each iteration, by naive loops: once for each writer it has."""

    @abstractmethod
    def slot_total(self) -> int:
        """How many those are, in closed form."""


def damage(entry: Entry, corruption: Corruption) -> None:
    """What a kernel that has just run has left, made wrong by one."""
    world, rank = entry.world, corruption.rank
    if corruption.kind == "tally":
        entry.miscount(rank)
    elif corruption.kind == "slot":
        increment(world.slots[rank], GUARD_BYTES)
    elif corruption.kind == "guard":
        increment(world.slots[rank])


def wrong_slot_map(entry: Entry) -> Iterator[Finding]:
    """One writer a slot, as many slots as the closed form says, none outside the map."""
    uses = entry.slot_uses()
    slot_map = entry.world.slot_map
    writers: dict[int, tuple[int, int, int]] = {}
    for owner, row, writer in uses:
        offset = owner * slot_map.nbytes + slot_map.offset(row, writer)
        if offset in writers:
            yield Finding("slots", f"slot (row {row}, col {writer}) of rank {owner} has two writers")
        writers[offset] = (owner, row, writer)
    if len(writers) != entry.slot_total():
        yield Finding("slots", f"{len(writers)} slots are stored to, the closed form says {entry.slot_total()}")


def wrong_slots(entry: Entry, trial: Trial) -> Iterator[Finding]:
    """After the launch each slot in use holds the last sequence number, and every other one what it began with."""
    world = entry.world
    expected = np.full((world.size, world.slot_map.rows, world.slot_map.cols), trial.before, np.uint32)
    for owner, row, writer in entry.slot_uses():
        expected[owner, row, writer] = trial.last
    for owner in range(world.size):
        values = world.slot_values(owner)
        wrong = np.argwhere(values != expected[owner])
        if len(wrong):
            row, col = (int(index) for index in wrong[0])
            yield Finding(
                "slots",
                f"slot (row {row}, col {col}) of rank {owner} holds {int(values[row, col])}, expected"
                f" {int(expected[owner, row, col])}",
            )
            return


def compare_rows(
    report: Report, expected: np.ndarray, seen: np.ndarray, name_row: str, chunk_rows: int | None = None
) -> Iterator[Finding]:
    """[iterations, rows, words] each. `name_row` has {row} and {chunk} in it."""
    report.bytes_checked += expected.nbytes
    report.rows += expected.shape[0] * expected.shape[1]
    wrong = first_wrong_byte(expected, seen)
    if wrong is not None:
        where = name_row.format(row=wrong.row, chunk=wrong.row // chunk_rows if chunk_rows else 0)
        yield Finding("bytes", f"iteration {wrong.iteration}: {where}: {wrong}")


def compare_table(name: str, given: np.ndarray, counted: object, axes: Sequence[str]) -> Iterator[Finding]:
    """`given` to the kernel against `counted` by naive loops; names the first element that differs."""
    recount = np.array(counted, dtype=np.int64).reshape(given.shape)
    wrong = np.argwhere(given.astype(np.int64) != recount)
    if len(wrong):
        index = tuple(int(n) for n in wrong[0])
        where = ", ".join(f"{axis} {n}" for axis, n in zip(axes, index, strict=True))
        yield Finding("table", f"{name}, {where}: given {int(given[index])}, counted {int(recount[index])}")


def compare_counts(name: str, seen: np.ndarray, expected: np.ndarray, axes: Sequence[str]) -> Iterator[Finding]:
    """What a kernel counted, iteration by iteration, [iterations, ...], against [...]."""
    wrong = np.argwhere(seen != expected[None])
    if len(wrong):
        index = tuple(int(n) for n in wrong[0])
        where = ", ".join(f"{axis} {n}" for axis, n in zip(("iteration", *axes), index, strict=True))
        yield Finding("count", f"{name}, {where}: {int(seen[index])} rows, expected {int(expected[index[1:]])}")


def compare_fields(name: str, given: np.ndarray, counted: Sequence[tuple[int, ...]], element: str) -> Iterator[Finding]:
    """A table of records that the kernel is given, field by field."""
    if len(given) != len(counted):
        yield Finding("table", f"{name}: {len(given)} {element}s given, {len(counted)} counted")
        return
    for number, field in enumerate(given.dtype.names or ()):
        yield from compare_table(f"{name}: {field}", given[field], [row[number] for row in counted], (element,))


def off_by_one(table: np.ndarray, field: str | None = None) -> np.ndarray:
    """The table with one element in its middle changed."""
    changed = table.copy()
    column = changed if field is None else changed[field]
    column[len(table) // 2] += 1
    return changed


def row_of_rank(trial: Trial, rows: Sequence[int], verb: str) -> int:
    """Which of the `rows` of its rank the trial's corruption is about. Raises UsageError if there is none."""
    if trial.corruption is None:
        return 0
    if not rows[trial.corruption.rank]:
        raise UsageError(f"--inject: rank {trial.corruption.rank} {verb} no rows here; choose another --distribution")
    return rows[trial.corruption.rank] // 2
