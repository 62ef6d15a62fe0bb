"""Which orderings a kernel needs, and which one it lacks: answered by running it with one changed.

A change is judged by the same engines as the kernel itself. Must not know PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Literal

from pcietool.check.changing.changes import Change, changes, in_helpers
from pcietool.check.changing.edits import Edit
from pcietool.check.changing.strengthen import ORDER, strengthenings
from pcietool.check.changing.weaken import weakenings
from pcietool.check.running.engines import Effort, in_random_orders, safely, timed, tried
from pcietool.check.running.exploring import explored
from pcietool.check.running.findings import Engine, Said, worst
from pcietool.check.running.sources import Built, Sources
from pcietool.check.scenario import Described
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.ptx.model import Module
from pcietool.supervision.forks import in_order
from pcietool.units import count

_Run = Callable[[EmulatedMachine, Described, Sources, Effort, Mapping[Built, str]], Said]
Answer = Literal["needed", "nothing tried needs it", "redundant", "not tried"]
NATIVE_ATOMICS = (
    "ranks update one word by atomics across a path that has none (a read, then a write: updates are lost): let one"
    " rank alone update each word, as single-writer slots do (docs/use-in-your-kernel.md), or place it where one rank's"
    " atomics reach it"
)
MOST_PAIRED = 24
"""So many changes, the likeliest, are tried two by two."""
PATIENCE, LEAST_EVENTS = 20, 20_000
FAILING_SEEDS = 4
"""By so many it is tried first whether a change mends."""
NEED_SEEDS = 50
"""Tried of a weakened kernel that no execution at the small size breaks."""


@dataclass(frozen=True)
class Place:
    """A scenario at one size, with its kernels compiled for it."""

    described: Described
    sources: Sources


@dataclass(frozen=True)
class Bench:
    """Where changes are tried: `usual` in timing and random order, `small` in every order, if the kernel as it is could
    be explored to the end."""

    machine: EmulatedMachine
    usual: Place
    small: Place | None
    events: int
    """Of the usual run in timing order: a changed kernel that needs many times as many will not end."""

    def explored(self, change: Change, effort: Effort) -> Said:
        assert self.small is not None
        return self._safely("explore", explored, self.small, change, effort)

    def random(self, change: Change, effort: Effort) -> Said:
        return self._safely("random", in_random_orders, self.usual, change, effort)

    def timed(self, change: Change, effort: Effort) -> Said:
        with EmulatedMachine(self.machine.spec, self.machine.gpus, self.machine.seed) as machine:
            machine.engine.max_events = PATIENCE * self.events + LEAST_EVENTS
            return self._safely("timing", timed, self.usual, change, effort, machine)

    def _safely(
        self,
        engine: Engine,
        run: _Run,
        place: Place,
        change: Change,
        effort: Effort,
        machine: EmulatedMachine | None = None,
    ) -> Said:
        edits = change.made_in(place.sources)
        what = partial(run, machine or self.machine, place.described, place.sources, effort, edits)
        return safely(what, engine, place.described.size.label)


@dataclass(frozen=True)
class Need:
    """What became of the kernel with one ordering weakened."""

    change: Change
    answer: Answer
    by: str
    """The execution that needs it, or how far it was tried."""


def needed(bench: Bench, effort: Effort) -> Iterator[Need]:
    """Each ordering weakened, one at a time, until time is out: the rest is "not tried"."""
    until = effort.clock() + effort.max_seconds
    everything = changes(bench.usual.sources, weakenings)
    alone = replace(effort, first=True, seeds=effort.seeds[:NEED_SEEDS], jobs=1, progress=lambda text: None)

    def answered(number: int) -> tuple[Answer, str]:
        left = until - effort.clock()
        if left <= 0:
            return "not tried", f"no time left (--max-seconds {effort.max_seconds:g})"
        return _need(bench, everything[number], replace(alone, max_seconds=left))

    for number, (answer, by) in enumerate(in_order(answered, len(everything), effort.jobs)):
        effort.progress(f"what is needed: {number + 1} of {len(everything)}, {everything[number].about}")
        yield Need(everything[number], answer, by)


def _need(bench: Bench, change: Change, effort: Effort) -> tuple[Answer, str]:
    everywhere = None
    if bench.small is not None:
        everywhere = bench.explored(change, effort)
        if everywhere.findings:
            return "needed", _by(everywhere)
    for said in (bench.timed(change, effort), bench.random(change, effort)):
        if said.findings:
            return "needed", _by(said)
        if not said.tries:
            return "not tried", said.not_covered[0]
    if everywhere is not None and everywhere.proved:
        return "redundant", f"every execution at {everywhere.size} is right without it, {tried(everywhere)}"
    return "nothing tried needs it", f"{tried(said)} of random order"


def _by(said: Said) -> str:
    found = worst(said.findings)
    assert found is not None
    where = {"explore": f"an execution at {said.size}", "random": f"seed {found.seed}", "timing": "timing order"}
    return f"{found.kind} in {where.get(said.engine, said.engine)}"


@dataclass(frozen=True)
class Repair:
    """The smallest change found with which nothing is found any more."""

    edits: tuple[Edit, ...]
    tried: str
    """By what it was judged."""
    advice: str = ""
    """Where no edit, but another machine mends it: what that means."""


@dataclass(frozen=True)
class Search:
    """What came of looking for a repair among `tried` changes; `complete`: there are no others of one or two."""

    repair: Repair | None
    tried: int
    complete: bool


def search(bench: Bench, found: Sequence[Said], effort: Effort) -> Search:
    """Looks for the smallest change of order alone that mends what was found. A hang in timing order, where every store
    arrives as it was made, is of no order: nothing is tried."""
    if any(one.kind == "HANG" for said in found if said.engine == "timing" for one in said.findings):
        return Search(None, 0, complete=True)
    return _Search(bench, found, effort).result()


class _Search:
    """Small changes first. What is tried of each: the seeds that failed, then everything that found something."""

    def __init__(self, bench: Bench, found: Sequence[Said], effort: Effort) -> None:
        self._bench = bench
        findings = [one for said in found for one in said.findings]
        self._failing = sorted({one.seed for one in findings if one.seed is not None})[:FAILING_SEEDS]
        self._places = {place for one in findings for place in one.places}
        self._only_races = all(one.kind == "RACE" for one in findings)
        self._effort = replace(effort, first=True, jobs=1, progress=lambda text: None)
        self._jobs, self._progress = effort.jobs, effort.progress
        self._until = effort.clock() + effort.max_seconds
        self._tried = 0

    def result(self) -> Search:
        repair = next(self._repairs(), None)
        return Search(repair, self._tried, complete=self._effort.clock() <= self._until)

    def _repairs(self) -> Iterator[Repair]:
        yield from self._with_native_atomics()
        scopes = ("sys",) if self._bench.usual.described.size.ranks > 1 else ("gpu",)
        alone = [one for one in changes(self._bench.usual.sources, _STRONGER[scopes]) if not self._silences(one)]
        singles = sorted([*alone, *in_helpers(alone)], key=self._likely)
        yield from self._mending(sorted(singles, key=lambda one: (one.cost, self._likely(one))))
        pairs = [
            one & other
            for one, other in combinations(singles[:MOST_PAIRED], 2)
            if one.source == other.source and not _places(one) & _places(other)
        ]
        yield from self._mending(sorted(pairs, key=lambda one: one.cost))

    def _with_native_atomics(self) -> Iterator[Repair]:
        """Is it the path, which cannot do atomics, and not the order?"""
        spec = self._bench.machine.spec
        everywhere = spec.with_native_atomics()
        if everywhere == spec:
            return
        other = replace(
            self._bench, machine=EmulatedMachine(everywhere, self._bench.machine.gpus, self._bench.machine.seed)
        )
        nothing = Change("", (), weakenings)
        self._tried += 1
        if self._mends(nothing, other):
            yield Repair((), "nothing found with native atomics on every path", NATIVE_ATOMICS)

    def _silences(self, change: Change) -> bool:
        """Where there is a race and nothing else wrong: it makes the racing accesses strong, which is then no race by
        name, and orders nothing that was not."""
        (edit,) = change.edits
        weak = not edit.site.instruction.has("relaxed", "volatile", "acquire", "release", "acq_rel")
        is_access = edit.site.instruction.opcode in ("ld", "st") and edit.form is not None
        return self._only_races and weak and is_access and edit.site.own_place in self._places

    def _likely(self, change: Change) -> tuple[bool, bool, int]:
        """A wider scope or more order for what is strong already comes first: that is what signals are made of. Then
        what stands where something was found, the smaller the sooner."""
        near = all({edit.site.own_place, str(edit.site.source)} & self._places for edit in change.edits)
        return change.cost > ORDER, not near, change.cost

    def _mending(self, tries: Sequence[Change]) -> Iterator[Repair]:
        for number, mends in enumerate(in_order(lambda n: self._mends(tries[n]), len(tries), self._jobs)):
            self._tried += 1
            self._progress(f"what is missing: {count(self._tried)} changes tried")
            if mends:
                small = self._bench.small
                every = f" and every execution at {small.described.size.label}" if small else ""
                by = f"timing order and {len(self._effort.seeds)} seeds{every}"
                yield Repair(tries[number].edits, f"nothing found with it in {by}")
            if self._effort.clock() > self._until:
                return

    def _mends(self, change: Change, bench: Bench | None = None) -> bool:
        """What shows a failure soonest is asked first."""
        bench = bench or self._bench
        effort = replace(self._effort, max_seconds=max(0.1, self._until - self._effort.clock()))
        if not _clean(bench.timed(change, effort)):
            return False
        for seed in self._failing:
            if not _clean(bench.random(change, replace(effort, seeds=range(seed, seed + 1)))):
                return False
        if bench.small is not None and not _clean(bench.explored(change, effort)):
            return False
        return _clean(bench.random(change, effort))


def _places(change: Change) -> set[str]:
    return {edit.site.place for edit in change.edits}


def _clean(said: Said) -> bool:
    """It ran, to its end, and nothing was found."""
    return bool(said.tries) and not said.findings and not said.cut_short and not said.not_covered


def _to_system(module: Module) -> list[Edit]:
    return strengthenings(module, ("sys",))


def _to_gpu(module: Module) -> list[Edit]:
    return strengthenings(module, ("gpu",))


_STRONGER = {("sys",): _to_system, ("gpu",): _to_gpu}
