"""What a litmus test is once it has been read: threads of instructions, initial memory, and a question about the end.

Pure data that the parser makes, the model executes and reports print. Registers and locations are numbers here;
names stay beside them for people. Values are two's complement and wrap: of 64 bits in wide registers and in accesses
of 8 bytes, else of 32. They are written as signed numbers, those of 1 or 2 bytes as the access extends them.
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


class Part(NamedTuple):
    """Which bytes of a location an access touches: so many `scalars` of `size` bytes from byte `offset` on. A scalar of
    less than 4 bytes fills its register up with zeros, or with its sign if it is `signed`."""

    offset: int = 0
    size: int = 4
    scalars: int = 1
    signed: bool = False

    @property
    def offsets(self) -> range:
        """Of each scalar."""
        return range(self.offset, self.end, self.size)

    @property
    def end(self) -> int:
        return self.offset + self.size * self.scalars


WORD = Part()


@dataclass(frozen=True, slots=True)
class Access(Instruction):
    """What reads or writes memory. A weak access has the scope of its own thread, as far as anybody can tell."""

    location: int
    part: Part
    strong: bool
    acquire: bool
    release: bool
    scope: Scope


@dataclass(frozen=True, slots=True)
class Load(Access):
    """One register a scalar. `coherent` is False for ld.nc: it may read anything the location has ever held."""

    registers: tuple[int, ...]
    coherent: bool = True


@dataclass(frozen=True, slots=True)
class Store(Access):
    """One value a scalar."""

    values: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Rmw(Access):
    """`register` is None for `red`. Only `cas` has `expected`: it writes if that is what it reads."""

    operation: str
    """Such as "add"."""
    register: int | None
    combine: Callable[[int, int], int]
    value: Operand
    expected: Operand | None


@dataclass(frozen=True, slots=True)
class Copy(Access):
    """A bulk copy of a whole location, to `location`."""

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
    """The result has as many bits as the register."""

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
    """Something with a value at the end: a register of a thread, or, where `thread` is None, the scalar at this part of
    a memory location."""

    thread: int | None
    number: int
    name: str
    """Such as "P1:r0" or "x"."""
    part: Part = WORD


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
    wide: frozenset[int] = frozenset()
    """Registers of 64 bits."""

    def bits(self, register: int) -> int:
        return 64 if register in self.wide else 32


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
    contents: tuple[bytes, ...]
    """What each location holds at first: little-endian, as many bytes as anything touches, at least 4."""
    question: Question
    expectation: Expectation
    not_native: frozenset[tuple[int, str]] = frozenset()
    """(location, operation of an RMW) that the location's home does not have as a native atomic."""

    @property
    def memory(self) -> tuple[int, ...]:
        """The first word of each location at first."""
        return tuple(int.from_bytes(content[:4], "little", signed=True) for content in self.contents)


def wrapped(value: int, bits: int) -> int:
    """`value` as a signed number of so many bits."""
    half = 1 << bits - 1
    return (value + half & 2 * half - 1) - half
