"""What a thread asks of the memory model, one instruction at a time, with its operands already evaluated.

The model knows a thread's program by this alone: the instruction at a program state, and the program state after it.
`litmus.threads` answers for litmus tests, `emulator.exploring.explored_threads` for PTX. Data only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pcietool.litmus.text.program import Scope


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """`text` is as a person would write it. `private`: no other thread can notice or influence it. `wait_loops`: the
    numbers of the loops that only wait, among those it stands in."""

    text: str
    private: bool = False
    wait_loops: frozenset[int] = frozenset()


Values = tuple[int, ...]
"""One for each location that an access touches."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Access(Request):
    """What reads or writes memory. A weak access has the scope of its own thread, as far as anybody can tell."""

    moments: tuple[tuple[int, ...], ...]
    """The locations, in groups that are read or written at one moment each."""
    size: int = 4
    """Bytes of the scalar, or of each scalar of a vector: accesses of different size are never morally strong."""
    strong: bool
    acquire: bool = False
    release: bool = False
    scope: Scope
    join: Callable[[Values], Any] | None = None
    """What a read of these values returns; None: the one value of its one location."""

    def returned(self, values: Values) -> Any:
        return values[0] if self.join is None else self.join(values)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Load(Access):
    """`poll`: number of the wait loop that its value can only end, or have look again; `carried`: what else decides
    where a turn of that loop leads from here; `counts`: how many turns it takes makes a difference later. One that is
    not `coherent` may return whatever its locations have ever held."""

    poll: int | None = None
    carried: Hashable = None
    counts: bool = False
    coherent: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Store(Access):
    values: Values


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rmw(Access):
    """`modify(old)` is what it writes, None for nothing (a refused compare-and-swap). Where it is not `native`, it is a
    read and a write-back, of what it read if it is refused."""

    modify: Callable[[Values], Values | None]
    native: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fence(Request):
    """One that only `acquires` hands nothing on; one that only `releases` takes nothing over."""

    sequential: bool
    scope: Scope
    acquires: bool = True
    releases: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Barrier(Request):
    """With a `quorum` it completes when so many threads have come to the block's `barrier`; with 0, when all `members`
    have come to the `instance` or ended."""

    block: Hashable
    instance: Hashable
    barrier: int
    quorum: int
    members: Sequence[int]
    waits: bool
    orders: bool = True
    """False for warp votes and shuffles: they hand values on, but nothing that was seen."""
    gives: Any = None
    results: Callable[[Mapping[int, Any]], Mapping[int, Any]] | None = None
    """What each waiting thread gets from what each gave; None: nothing."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pause(Request):
    """The thread can only go on when time has passed, or never, if it never does."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Await(Request):
    """Until these `threads` have ended: it has seen what they have. It may be the first of a thread, which `begins`
    then, once in each of the blocks of `lets`, (block of a barrier, threads), one has come to that barrier or all have
    ended."""

    threads: Sequence[int]
    begins: bool = False
    lets: Sequence[tuple[Hashable, Sequence[int]]] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Copy(Request):
    """A bulk copy, done by thread `agent`, which begins with this state, a load; a store follows, then it ends."""

    agent: int
    begins: ProgramState


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Commit(Request):
    """Makes a group of the thread's copies so far."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WaitForCopies(Request):
    """Until all committed groups but the last `left` are done, or have at least read their sources."""

    left: int
    reads_only: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProxyFence(Request):
    """Between the thread's own accesses and its bulk copies."""


@dataclass(slots=True, eq=False)
class ProgramState:
    """Where a thread is in its program and what its registers hold. One object for each: two go on differently."""

    request: Request | None
    """None at the end of the program."""
    position: int
    """Only a loop leads back to a smaller one, or leaves it as it is."""
    following: dict[Any, ProgramState] = field(default_factory=dict)
    """By (what the request returned, whether that was late), as far as it is known."""


class Threads(Protocol):
    """The programs of all threads of one exploration."""

    @property
    def memory(self) -> Sequence[int]:
        """Initial values, by location."""

    @property
    def nearness(self) -> Sequence[Sequence[Scope]]:
        """The narrowest scope that contains both threads."""

    @property
    def deadlines(self) -> bool:
        """Whether waits end when time passes; if not, time never does."""

    def begin(self, thread: int) -> ProgramState: ...

    def after(self, thread: int, at: Any, value: Any, late: bool) -> ProgramState:
        """Where the thread goes on once its request has returned `value`. `late`: the deadline has passed."""

    def label(self, thread: int) -> str:
        """Such as "P0"."""

    def error(self, thread: int, at: Any, text: str) -> Exception:
        """To be raised by the caller: `text`, and where the instruction stands."""
