"""What a litmus test is once it has been read: threads of instructions, initial memory, and a question about the end.

Pure data that the parser makes, the model executes and reports print. Registers and locations are numbers here;
names stay beside them for people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple


class Scope(IntEnum):
    """Narrowest first. A cluster counts as a CTA: litmus threads have none."""

    CTA = 0
    GPU = 1
    SYS = 2


class Operand(NamedTuple):
    """A register of the thread, or a constant where `register` is None."""

    register: int | None
    constant: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """`text` is as a person would write it; `line` counts from 1."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Access(Instruction):
    """What reads or writes memory. A weak access has the scope of its own thread, as far as anybody can tell."""

    location: int
    strong: bool
    acquire: bool
    release: bool
    scope: Scope


@dataclass(frozen=True, slots=True)
class Load(Access):
    register: int


@dataclass(frozen=True, slots=True)
class Store(Access):
    value: Operand


@dataclass(frozen=True, slots=True)
class Rmw(Access):
    """`register` is None for `red`. Only `cas` has `expected`: it writes if that is what it reads."""

    register: int | None
    combine: Callable[[int, int], int]
    value: Operand
    expected: Operand | None


@dataclass(frozen=True, slots=True)
class Copy(Access):
    """A bulk copy of one location, to `location`."""

    source: int


@dataclass(frozen=True, slots=True)
class Commit(Instruction):
    """Makes a group of the copies so far."""


@dataclass(frozen=True, slots=True)
class WaitForCopies(Instruction):
    """For all groups but the last `left`: until they are done, or have read their sources."""

    left: int
    reads_only: bool


@dataclass(frozen=True, slots=True)
class ProxyFence(Instruction):
    """Between generic accesses and bulk copies."""


@dataclass(frozen=True, slots=True)
class Fence(Instruction):
    sequential: bool
    scope: Scope


@dataclass(frozen=True, slots=True)
class Barrier(Instruction):
    """`quorum` threads complete it; without one, all threads of the CTA that contain the `instance`."""

    waits: bool
    instance: int
    barrier: Operand
    quorum: Operand | None


@dataclass(frozen=True, slots=True)
class Arithmetic(Instruction):
    register: int
    combine: Callable[[int, int], int]
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Branch(Instruction):
    target: int
    """Index of the instruction to go on with, if `compare` holds."""
    compare: Callable[[int, int], bool]
    left: Operand
    right: Operand


class Item(NamedTuple):
    """Something with a value at the end: a register of a thread, or a memory location where `thread` is None."""

    thread: int | None
    number: int
    name: str
    """Such as "P1:r0" or "x"."""


Values = Mapping[Item, int]
Proposition = Callable[[Values], bool]
Verdict = Literal["allowed", "forbidden", "undecided"]


@dataclass(frozen=True)
class Question:
    """`proposition` is what is looked for: the negation of what a `forall` states."""

    text: str
    proposition: Proposition
    items: tuple[Item, ...]
    """What it speaks of, and what `locations` adds, each once."""


@dataclass(frozen=True)
class Expectation:
    """What a test says about itself; `verdict` is about whether the question's proposition can come true."""

    verdict: Verdict | None
    hangs: bool = False
    """Whether executions are meant to get stuck."""
    stated: bool = False
    """By the description, whose author says what PTX allows; `~exists` and `forall` only say what is hoped for."""


@dataclass(frozen=True)
class LitmusThread:
    """One warp, in block `cta` of GPU `gpu`."""

    cta: int
    gpu: int
    code: tuple[Instruction, ...]
    registers: tuple[str, ...]
    initial: tuple[int, ...]


def common_scope(one: LitmusThread, other: LitmusThread) -> Scope:
    """The narrowest that contains both."""
    if one.gpu != other.gpu:
        return Scope.SYS
    return Scope.CTA if one.cta == other.cta else Scope.GPU


@dataclass(frozen=True)
class LitmusTest:
    name: str
    description: str
    threads: tuple[LitmusThread, ...]
    locations: tuple[str, ...]
    memory: tuple[int, ...]
    question: Question
    expectation: Expectation
    without_native_atomics: frozenset[int] = frozenset()
    """Locations whose home has none."""
