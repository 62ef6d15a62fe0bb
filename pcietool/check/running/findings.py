"""What an engine says of a scenario: what it found, by kind, and what it did not look at.

Plain data; must not run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pcietool.check.running.witness import Step, place, step
from pcietool.contract.outcomes import EFFECTS, BlockedThread, Hang, Printed, UnorderedAccess, WaitRecord
from pcietool.errors import EmulationError

Kind = Literal["CRASH", "HANG", "WRONG DATA", "RACE"]
KINDS: tuple[Kind, ...] = ("CRASH", "HANG", "WRONG DATA", "RACE")
"""Gravest first."""
Engine = Literal["timing", "random", "explore", "cuda"]
NO_RECORDS = (
    "; which wait it was is not known: with a Watch and WAIT_UNTIL (docs/use-in-your-kernel.md) each one names its line"
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `text`: one line; `witness`: how it comes about; `places`: "file:line", gravest
    first."""

    kind: Kind
    engine: Engine
    text: str
    witness: tuple[Step, ...] = ()
    places: tuple[str, ...] = ()
    seed: int | None = None
    times: int = 1
    """In so many of the tries."""
    matters: bool = True
    """Of a race: a value depended on it."""
    records: tuple[WaitRecord, ...] = ()
    """Of a hang: what waits that gave up have left."""


@dataclass
class Said:
    """What one engine says at one size."""

    engine: Engine
    size: str
    tries: int = 0
    """Runs in random order, states of an exploration."""
    findings: list[Finding] = field(default_factory=list)
    not_covered: list[str] = field(default_factory=list)
    """What this engine did not look at, in words."""
    cut_short: str = ""
    """Fewer tries than were asked for: a proof by another engine stands all the same."""
    events: int = 0
    """What the emulator had to do."""
    printed: list[Printed] = field(default_factory=list)
    """Of the one run, where there is only one."""
    elapsed_ns: float | None = None
    """GPU time of one run, where the engine has a clock."""

    @property
    def proved(self) -> bool:
        """Every execution was looked at, and none is wrong."""
        return self.engine == "explore" and not self.findings and not self.not_covered


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The gravest: by kind, then one whose text names memory, then the one that was seen most often."""

    def gravity(one: Finding) -> tuple[bool, int, bool, int]:
        return not one.matters, KINDS.index(one.kind), "'" not in one.text, -one.times

    return min(findings, key=gravity, default=None)


Rewrite = Callable[[str], str]
"""From an engine's text to one with places as the kernel's author knows them."""


def hang(engine: Engine, found: Hang, as_written: Rewrite, seed: int | None = None) -> Finding:
    """Of a round that did not end: who waits where, and for what."""
    waits = _waits((*found.proof, *found.running), as_written) or tuple(map(_gave_up, found.records))
    who = waits[0] if waits else None
    first = f": {who.who} of rank {who.rank}{f' at {who.at}' * bool(who.at)}: {who.does}" if who else ""
    if found.proof:
        number = len(found.proof)
        text = f"{number} thread{'s wait' if number > 1 else ' waits'} for what never comes{first}"
    elif found.running:
        text = f"still running at the deadline{first}"
    else:
        text = f"did not end in time ({found.limit}){first or NO_RECORDS}"
    places = tuple(dict.fromkeys(one.at for one in waits if one.at))
    return Finding("HANG", engine, text, waits, places, seed, records=found.records)


def _waits(blocked: Iterable[BlockedThread], as_written: Rewrite) -> tuple[Step, ...]:
    """Threads of a block that wait for the same in the same place are one step."""
    alike: dict[BlockedThread, list[int]] = {}
    for one in blocked:
        alike.setdefault(replace(one, thread=0), []).append(one.thread)
    return tuple(_wait(one, threads, as_written) for one, threads in alike.items())


def _wait(one: BlockedThread, threads: Sequence[int], as_written: Rewrite) -> Step:
    writer = f", written by {one.last_writer or 'nobody'}"
    value = f" is {one.value}{writer}" if one.is_word else ""
    who = f"block {one.block} {_names(threads)}"
    return Step(one.device, who, place(as_written(one.source)), f"waits: {one.address}{value}")


def _names(threads: Sequence[int]) -> str:
    first, last = min(threads), max(threads)
    if first == last:
        return f"thread {first}"
    if last - first + 1 == len(threads):
        return f"threads {first} to {last}"
    return f"{len(threads)} threads from {first} to {last}"


def _gave_up(one: WaitRecord) -> Step:
    return Step(one.rank, f"block {one.block} thread {one.thread}", "", str(one))


def crash(engine: Engine, error: EmulationError, as_written: Rewrite, seed: int | None = None) -> Finding:
    """Of what a GPU answers with an error: an access out of bounds, a barrier that cannot be, a trap."""
    text = as_written(str(error))
    at = step(text)
    return Finding("CRASH", engine, text, (at,), (at.at,) if at.at else (), seed)


def wrong(engine: Engine, said: Sequence[object], seed: int | None = None, execution: tuple[Step, ...] = ()) -> Finding:
    """Of an expectation that does not hold, at the end of an execution if that is known."""
    lines = list(map(str, said))
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    witness = (*execution, *(Step(None, "", "", line) for line in lines))
    return Finding("WRONG DATA", engine, lines[0] + more, witness, (), seed)


def race(engine: Engine, pair: UnorderedAccess, as_written: Rewrite, seed: int | None = None) -> Finding:
    """Of two accesses that nothing orders."""
    source, by_source = as_written(pair.source), as_written(pair.by_source)
    here, there = place(source), place(by_source)
    does = "reads" if pair.kind == "read" else "overwrites"
    text = f"{pair.address}: {here} (rank {pair.device}) {does} it, and nothing orders that after {there} ({pair.by})"
    witness = (
        step(f"{pair.by}: {by_source}"),
        step(f"GPU {pair.device} block {pair.block} thread {pair.thread}: {source}"),
        Step(None, "", "", f"{EFFECTS[pair.effect]}; {pair.count} times in this run"),
        *([Step(None, "", "", f"would order them: {pair.mend}")] if pair.mend else []),
    )
    return Finding(
        "RACE", engine, text, witness, tuple(dict.fromkeys((here, there))), seed, matters=pair.effect != "none"
    )
