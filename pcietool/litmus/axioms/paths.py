"""The ways through the program of one thread, each with the events on it and what must hold for it to be taken.

A turn of a loop that changes nothing, as those of a wait, is left out: the execution without it ends in the same way,
and is consistent if the one with it is. Other loops are taken a few times; then the path is cut. Must not know the
axioms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from pcietool.litmus.axioms.domains import Domains
from pcietool.litmus.axioms.events import Event, Kind, Meeting
from pcietool.litmus.axioms.terms import ReadName, Term, Values, applied, constant, read
from pcietool.litmus.layout import Layout, extended, in_register
from pcietool.litmus.liveness import live_before
from pcietool.litmus.text.operations import ARITHMETIC
from pcietool.litmus.text.program import (
    Access,
    Arithmetic,
    Barrier,
    Branch,
    Commit,
    Copy,
    Fence,
    Instruction,
    LitmusTest,
    Load,
    Operand,
    ProxyFence,
    Rmw,
    Store,
    WaitForCopies,
    wrapped,
)

MOST_TURNS = 4
"""Of loops that change something, on one path."""
MOST_EVENTS = 200
MOST_PATHS = 2_000
MOST_STEPS = 20_000


class TooLarge(Exception):
    """Nobody would wait for the answer. Never seen outside of the axioms."""


@dataclass(frozen=True)
class Path:
    """`cut`: the thread goes on where the path does not."""

    events: tuple[Event, ...]
    constraints: tuple[Term, ...]
    """Each 1 where the path is taken."""
    registers: tuple[Term, ...]
    cut: bool = False


@dataclass
class _Walk:
    """Somewhere on a path."""

    position: int
    registers: tuple[Term, ...]
    events: list[Event] = field(default_factory=list)
    constraints: list[Term] = field(default_factory=list)
    stage: int = 0
    controls: set[tuple[ReadName, int | None]] = field(default_factory=set)
    """Reads that have decided on a branch, with the position that it leads to either way, if it does."""
    passed: dict[int, tuple[int, tuple[Term, ...]]] = field(default_factory=dict)
    """By position: how many events there had been, and the registers, when the path came by."""
    turns: int = 0
    steps: int = 0
    groups: list[list[int]] = field(default_factory=lambda: [[]])
    """Copies that no full wait has taken, by group; the last group is not committed yet."""
    done: list[int] = field(default_factory=list)
    """Writes of copies that a full wait has taken."""

    def forked(self) -> _Walk:
        return replace(
            self,
            events=list(self.events),
            constraints=list(self.constraints),
            controls=set(self.controls),
            passed=dict(self.passed),
            groups=[list(group) for group in self.groups],
            done=list(self.done),
        )


def paths_of(test: LitmusTest, layout: Layout, known: Domains, thread: int, tear: bool) -> list[Path]:
    """Raises TooLarge."""
    found = []
    for path in _Paths(test, layout, known, thread, tear).walk():
        found.append(path)
        if len(found) > MOST_PATHS:
            raise TooLarge(f"P{thread} has more than {MOST_PATHS:,} ways through its program")
    return found


class _Paths:
    def __init__(self, test: LitmusTest, layout: Layout, known: Domains, thread: int, tear: bool) -> None:
        self._test = test
        self._layout = layout
        self._domains = known
        self._thread = thread
        self._tear = tear
        self._place = test.threads[thread]
        self._code = self._place.code
        asked = [item.number for item in test.question.items if item.thread == thread]
        self._live = live_before(self._code, asked)
        self._joins = joins(self._code)
        self._heads = {one.target for at, one in enumerate(self._code) if isinstance(one, Branch) and one.target <= at}

    def walk(self) -> Iterator[Path]:
        waiting = [_Walk(0, tuple(map(constant, self._place.initial)))]
        while waiting:
            now = waiting.pop()
            if not self._is_possible(now):
                continue
            if now.position == len(self._code):
                yield self._path(now)
            elif now.turns > MOST_TURNS or len(now.events) > MOST_EVENTS or now.steps > MOST_STEPS:
                yield self._path(now, cut=True)
            else:
                waiting += self._behind(now)

    def _is_possible(self, walk: _Walk) -> bool:
        """Whether each read could return something with which the path is taken, as far as it decides alone."""
        alone: dict[ReadName, list[Term]] = {}
        for constraint in walk.constraints:
            if len(constraint.needs) == 1:
                alone.setdefault(next(iter(constraint.needs)), []).append(constraint)
        return all(self._can_return(walk.events[name[1]], terms) for name, terms in alone.items())

    def _can_return(self, event: Event, constraints: list[Term]) -> bool:
        held = self._domains.get(event.cells[0]) if len(event.cells) == 1 else None
        if held is None or event.part is None:
            return True
        scalars = [extended(self._layout.join(event.cells, (value,)), event.part) for value in held]
        return any(all(_holds(constraint, {event.name: scalar}) for constraint in constraints) for scalar in scalars)

    def _path(self, walk: _Walk, cut: bool = False) -> Path:
        return Path(tuple(walk.events), tuple(walk.constraints), walk.registers, cut)

    def _behind(self, walk: _Walk) -> list[_Walk]:
        """The next instruction, in each of the ways there are; none that divides by zero."""
        try:
            return self._onward(walk)
        except ZeroDivisionError:
            return []

    def _onward(self, walk: _Walk) -> list[_Walk]:
        """Raises ZeroDivisionError."""
        at = walk.position
        walk.steps += 1
        walk.controls = {(name, join) for name, join in walk.controls if join != at}
        if at in self._heads:
            walk.passed[at] = len(walk.events), walk.registers
        one = self._code[at]
        walk.position += 1
        match one:
            case Branch():
                return self._branched(walk, at, one)
            case Rmw():
                return self._rmw(walk, one)
            case Arithmetic():
                bits = self._place.bits(one.register)
                terms = self._term(walk, one.left), self._term(walk, one.right)
                combine = one.combine
                term = applied(lambda left, right: wrapped(combine(left, right), bits), *terms)
                self._set(walk, one.register, term)
                if combine is ARITHMETIC["div"]:
                    walk.constraints.append(applied(_differ, terms[1], constant(0)))
            case Load():
                self._load(walk, one)
            case Store():
                self._store(walk, one)
            case Fence():
                self._add(walk, Kind.FENCE, one, strong=True, scope=one.scope, sequential=one.sequential)
                walk.stage += 1
            case ProxyFence():
                self._add(walk, Kind.PROXY_FENCE, one)
                walk.stage += 1
            case Barrier():
                self._barrier(walk, one)
            case Copy():
                self._copy(walk, one)
            case Commit():
                walk.groups.append([])
            case WaitForCopies():
                self._wait(walk, one)
        return [walk]

    # Values

    def _term(self, walk: _Walk, operand: Operand) -> Term:
        return constant(operand.constant) if operand.register is None else walk.registers[operand.register]

    def _set(self, walk: _Walk, register: int | None, term: Term) -> None:
        if register is not None:
            walk.registers = (*walk.registers[:register], term, *walk.registers[register + 1 :])

    def _taken(self, walk: _Walk, access: Access, register: int | None, scalar: Term) -> None:
        """Into a register."""
        if register is not None:
            part, bits = access.part, self._place.bits(register)
            self._set(walk, register, applied(lambda value: in_register(value, part, bits), scalar))

    # Events

    def _add(self, walk: _Walk, kind: Kind, one: Instruction, **facts: Any) -> ReadName:
        """Its name. In the stage of the path, unless the facts say otherwise."""
        name = self._thread, len(walk.events)
        walk.events.append(Event(name, kind, one, **{"stage": walk.stage, **facts}))
        return name

    def _access(self, access: Access, cells: tuple[int, ...]) -> dict[str, Any]:
        return {"cells": cells, "size": access.part.size, "strong": access.strong, "scope": access.scope}

    def _load(self, walk: _Walk, load: Load) -> None:
        for register, cells in zip(load.registers, self._layout.scalars(load), strict=True):
            facts = self._access(load, cells) | {"acquire": load.acquire, "coherent": load.coherent}
            name = self._add(walk, Kind.READ, load, **facts, part=load.part, whole=not self._tear)
            self._taken(walk, load, register, read(name))
        walk.stage += 1

    def _store(self, walk: _Walk, store: Store) -> None:
        for value, cells in zip(store.values, self._layout.scalars(store), strict=True):
            facts = self._access(store, cells) | {"release": store.release, "controls": _names(walk)}
            self._add(walk, Kind.WRITE, store, **facts, term=self._term(walk, value), whole=not self._tear)
        walk.stage += 1

    def _rmw(self, walk: _Walk, rmw: Rmw) -> list[_Walk]:
        (cells,) = self._layout.scalars(rmw)
        bits = 8 * rmw.part.size
        name = self._add(walk, Kind.READ, rmw, **self._access(rmw, cells), acquire=rmw.acquire, part=rmw.part)
        walk.stage += 1
        old = read(name)
        operand = applied(lambda value: wrapped(value, bits), self._term(walk, rmw.value))
        native = (rmw.location, rmw.operation) not in self._test.not_native
        facts = self._access(rmw, cells) | {"partner": name[1], "native": native}
        walks = [walk]
        if rmw.expected is None:
            combine = rmw.combine
            new = applied(lambda left, right: wrapped(combine(left, right), bits), old, operand)
            self._add(walk, Kind.WRITE, rmw, **facts, release=rmw.release, controls=_names(walk), term=new)
        else:
            expected = applied(lambda value: wrapped(value, bits), self._term(walk, rmw.expected))
            refused = walk.forked()
            walks.append(refused)
            walk.constraints.append(applied(lambda a, b: int(a == b), old, expected))
            refused.constraints.append(applied(_differ, old, expected))
            self._add(walk, Kind.WRITE, rmw, **facts, release=rmw.release, controls=_names(walk), term=operand)
            if not native:
                self._add(refused, Kind.WRITE, rmw, **facts, controls=_names(refused), term=old)
        for one in walks:
            one.stage += 1
            self._taken(one, rmw, rmw.register, old)
        return walks

    def _barrier(self, walk: _Walk, barrier: Barrier) -> None:
        number = self._number(walk, barrier.barrier)
        quorum = self._number(walk, barrier.quorum) if barrier.quorum else 0
        place = ("number", number) if quorum else ("instance", barrier.instance)
        block = self._place.gpu, self._place.cta
        turn = sum(
            1 for event in walk.events if event.kind is Kind.ARRIVE and event.meeting and event.meeting.place == place
        )
        meeting = Meeting(block, place, number, quorum, turn)
        self._add(walk, Kind.ARRIVE, barrier, meeting=meeting)
        walk.stage += 1
        if barrier.waits:
            self._add(walk, Kind.GO_ON, barrier, meeting=meeting)
            walk.stage += 1

    def _number(self, walk: _Walk, operand: Operand) -> int:
        term = self._term(walk, operand)
        if term.needs:
            raise TooLarge(f"which barrier P{self._thread} comes to depends on what it reads")
        return term.of({})

    # Bulk copies

    def _copy(self, walk: _Walk, copy: Copy) -> None:
        """It follows what its thread has done before its last proxy fence, and copies that were waited for."""
        fences = [number for number, event in enumerate(walk.events) if event.kind is Kind.PROXY_FENCE][-1:]
        begins = {"stage": None, "follows": (*fences, *walk.done)}
        sources, targets = self._layout.copied(copy)
        reads = [self._add(walk, Kind.READ, copy, **begins, cells=(cell,), part=None) for cell in sources]
        behind = {"stage": None, "follows": tuple(number for _, number in reads), "controls": _names(walk)}
        for name, cell in zip(reads, targets, strict=True):
            wrote = self._add(walk, Kind.WRITE, copy, **behind, cells=(cell,), term=read(name))
            walk.groups[-1].append(wrote[1])

    def _wait(self, walk: _Walk, wait: WaitForCopies) -> None:
        due = max(0, len(walk.groups) - 1 - wait.left)
        writes = list(chain(*walk.groups[:due]))
        if wait.reads_only:
            reads = sorted(set(chain(*(walk.events[number].follows for number in writes))))
            self._add(walk, Kind.WAIT, wait, follows=tuple(reads))
        else:
            self._add(walk, Kind.WAIT, wait, follows=tuple(writes))
            walk.done += writes
            walk.groups = walk.groups[due:]
        walk.stage += 1

    # Branches and loops

    def _branched(self, walk: _Walk, at: int, branch: Branch) -> list[_Walk]:
        terms = self._term(walk, branch.left), self._term(walk, branch.right)
        compare = branch.compare
        condition = applied(lambda left, right: int(compare(left, right)), *terms)
        if not condition.needs:
            return self._jumped(walk, at, branch) if condition.of({}) else [walk]
        walk.controls |= {(name, self._joins[at]) for name in condition.needs}
        other = walk.forked()
        walk.constraints.append(condition)
        other.constraints.append(applied(lambda value: 1 - value, condition))
        if branch.target <= at:
            walk.turns += 1
        return [*self._jumped(walk, at, branch), other]

    def _jumped(self, walk: _Walk, at: int, branch: Branch) -> list[_Walk]:
        walk.position = branch.target
        if branch.target > at:
            return [walk]
        start, before = walk.passed[branch.target]
        turn = walk.events[start:]
        if any(not _alike(before[n], walk.registers[n]) for n in self._live[branch.target]) or any(map(_lasts, turn)):
            return [walk]
        written = [(event.partner, event.term) for event in turn if event.term and event.partner is not None]
        if not written:
            return []
        changes = [applied(_differ, read((self._thread, partner)), new) for partner, new in written]
        walk.constraints.append(applied(max, *changes) if len(changes) > 1 else changes[0])
        return [walk]


def _holds(constraint: Term, values: Values) -> bool:
    try:
        return bool(constraint.of(values))
    except ZeroDivisionError:
        return False


def _differ(one: int, other: int) -> int:
    return int(one != other)


def _names(walk: _Walk) -> frozenset[ReadName]:
    return frozenset(name for name, _ in walk.controls)


def _lasts(event: Event) -> bool:
    """Whether leaving it out may make a difference even if it changes nothing in memory."""
    if event.kind is Kind.WRITE:
        return event.partner is None or not event.native
    return event.kind in (Kind.ARRIVE, Kind.WAIT, Kind.PROXY_FENCE)


def _alike(one: Term, other: Term) -> bool:
    return one is other or (not one.needs and not other.needs and one.of({}) == other.of({}))


def joins(code: Sequence[Instruction]) -> dict[int, int | None]:
    """For each branch, the position that is reached either way; None if a loop may keep a thread from it."""
    end = len(code)
    everything = frozenset(range(end + 1))
    behind = [everything] * end + [frozenset({end})]
    before: list[frozenset[int]] = []
    while before != behind:
        before = list(behind)
        for at in reversed(range(end)):
            one = code[at]
            following = [at + 1]
            if isinstance(one, Branch):
                following = _following(at, one)
            behind[at] = frozenset({at}).union(frozenset.intersection(*(behind[other] for other in following)))
    loops = [(one.target, at) for at, one in enumerate(code) if isinstance(one, Branch) and one.target <= at]
    found: dict[int, int | None] = {}
    for at, one in enumerate(code):
        if isinstance(one, Branch):
            join = max(behind[at] - {at}, key=lambda other: len(behind[other]))
            leaves = any(first <= at <= last and not first <= join <= last for first, last in loops)
            found[at] = None if leaves else join
    return found


def _following(at: int, branch: Branch) -> list[int]:
    if branch.left.register is not None or branch.right.register is not None:
        return [at + 1, branch.target]
    return [branch.target if branch.compare(branch.left.constant, branch.right.constant) else at + 1]
