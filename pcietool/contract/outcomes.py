"""How a round of launches ended: finished, or hung with what its waits left behind, and what was found meanwhile.

Plain data that every floor shares; must not know who ran it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class WaitRecord:
    """One wait without its signal: `rank` waited for its slot (row, col), wanted one sequence, got another.

    `line`: of a WAIT_UNTIL, which waits for rank `col` and knows nothing else; 0 for a slot."""

    reason: Literal["deadline", "abort"]
    rank: int
    row: int
    col: int
    wanted: int
    got: int
    round: int
    block: int
    thread: int
    since_entry_ns: int
    line: int = 0

    def __str__(self) -> str:
        who = f"block {self.block}, thread {self.thread}, {self.since_entry_ns / 1e6:.1f} ms after start"
        if self.line:
            return f"rank {self.rank} waited for rank {self.col} in line {self.line} ({who})"
        return (
            f"rank {self.rank} waited for slot (row {self.row}, col {self.col}): wanted {self.wanted}, got {self.got}"
            f" (round {self.round}, {who})"
        )


@dataclass(frozen=True)
class BlockedThread:
    """One waiting thread of a proved deadlock."""

    device: int
    block: int
    thread: int
    source: str
    """file:line of the load that waits."""
    address: str
    """Readable: allocation, offset; or what else it waits for."""
    value: int | None
    """What is there now; None where the thread waits for an answer that never comes."""
    last_writer: str | None
    """Who stored the present value, or None if nobody ever did."""

    @property
    def is_word(self) -> bool:
        """Does it wait for a word of memory, with a value and a writer? Else for other threads, or for an answer."""
        return self.value is not None and self.address.startswith("'")

    def __str__(self) -> str:
        return f"GPU {self.device} block {self.block} thread {self.thread} at {self.source}: {self.address}"


@dataclass(frozen=True)
class Hang:
    """A round that did not finish: what its waits left behind."""

    limit: Literal["device deadline", "host join timeout"]
    records: tuple[WaitRecord, ...]
    dropped_records: int = 0
    proof: tuple[BlockedThread, ...] = ()
    """Only the emulator can prove a deadlock; empty elsewhere."""
    running: tuple[BlockedThread, ...] = ()
    """Threads that the host's deadline stopped as they ran on, then those that wait; known on the emulator only."""


Effect = Literal["old value", "either value", "none"]
"""Of two unordered accesses: a read got a value that was no longer the newest; which value is read, or stays, depends
on who comes first; or neither in this run: the values are the same, or a write came after a read."""
EFFECTS: Mapping[Effect, str] = {
    "old value": "an old value was read",
    "either value": "which value it is depends on who comes first",
    "none": "no value depended on it in this run",
}


@dataclass(frozen=True)
class UnorderedAccess:
    """Two accesses to the same bytes, one of them a write, that no synchronisation orders, in random memory order."""

    kind: Literal["read", "overwrite"]
    """A read not ordered after the write it should see; or a write not ordered after a read or write before it."""
    device: int
    block: int
    thread: int
    """Who made the access; -1 for what has none, such as the host."""
    source: str
    """file:line and PTX of the access."""
    address: str
    """Readable: allocation, offset."""
    by: str
    """Who made the other one, such as "GPU 0 block 1 thread 2"."""
    by_source: str
    count: int
    """How often this pair of instructions."""
    effect: Effect = "either value"
    """What it made of the run, at its gravest."""
    mend: str = ""
    """What would order the two."""

    def __str__(self) -> str:
        which = "read, not ordered after the write" if self.kind == "read" else "written, not ordered after the access"
        return (
            f"{self.address} {which} of {self.by} ({self.by_source}): GPU {self.device} block {self.block} thread"
            f" {self.thread}, {self.source}; {self.count} times; {EFFECTS[self.effect]}; mend: {self.mend}"
        )


def told(unordered: Sequence[UnorderedAccess]) -> list[str]:
    """One line each; where any mattered, those that did not are one line together."""
    grave = [one for one in unordered if one.effect != "none"]
    slight = len(unordered) - len(grave)
    if not grave or not slight:
        return [str(one) for one in unordered]
    folded = f"{slight} more pair{'s' * (slight > 1)} on which no value depended in this run"
    return [*map(str, grave), folded]


@dataclass(frozen=True)
class Printed:
    """What one thread printed, by one call of printf."""

    device: int
    block: int
    thread: int
    text: str

    def __str__(self) -> str:
        return f"GPU {self.device} block {self.block} thread {self.thread}: {self.text.rstrip()}"


@dataclass(frozen=True)
class Outcome:
    """How a round ended. `elapsed_ns[device]`: GPU time from its first launch's start to its last one's end."""

    elapsed_ns: Mapping[int, float]
    hang: Hang | None = None
    host_agents_ns: tuple[float, ...] = ()
    copy_streams_ns: tuple[float, ...] = ()
    """GPU time of each copy stream, from its first step's start to its last one's end."""
    unordered: tuple[UnorderedAccess, ...] = ()
    """Only the emulator can tell, in timing order only of loads through the non-coherent path; empty elsewhere."""

    printed: tuple[Printed, ...] = ()
    """Emulated, in the order of time; a driver prints to the terminal itself."""

    @property
    def finished(self) -> bool:
        return self.hang is None
