"""What a scenario function is handed: it allocates, launches and expects, and all of it is written down to be played
as often as needed, on any machine and in any order.

Must not run anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from pcietool.check.arrays import Array, Passed, Piece, Pointers, Struct, Values
from pcietool.check.expectations import Equal, Expectation, OneOf, Reader, Same, That
from pcietool.check.kernel import Kernel
from pcietool.errors import ScenarioError

Shape = int | tuple[int, ...]
MOST_BYTES = 1 << 30
"""Of one array."""


@dataclass(frozen=True, eq=False)
class PlannedLaunch:
    """One grid of one rank."""

    rank: int
    kernel: Kernel
    grid: Shape
    block: Shape
    args: tuple[Passed, ...]
    shared: int
    stream: int
    overlaps: bool
    spins: bool
    cooperative: bool
    place: str
    """The line of the scenario that says so."""


@dataclass(frozen=True, eq=False)
class Round:
    """Launches that start together; those of one rank and stream run one after the other."""

    launches: tuple[PlannedLaunch, ...]
    graph: bool = False
    """Recorded once and replayed: the arguments are those of the first time."""


@dataclass(frozen=True, eq=False)
class Write:
    """The host stores values while nothing runs."""

    piece: Piece
    values: Values


@dataclass(frozen=True, eq=False)
class Do:
    """The host reads and writes while nothing runs, by a function of the scenario's own."""

    function: Callable[[HostView], None]


Step = Round | Write | Do | Expectation


class HostView:
    """What a function of the host sees between launches."""

    def __init__(self, read: Reader, write: Callable[[Piece, np.ndarray], None]) -> None:
        self._read = read
        self._write = write

    def read(self, piece: Piece | Array) -> np.ndarray:
        """A copy of the values, shape (count,)."""
        return self._read(_piece(piece))

    def write(self, piece: Piece | Array, values: Values) -> None:
        """All of them: one value, or as many as there are."""
        one = _piece(piece)
        self._write(one, one.array.values(values, one))


def _piece(one: Piece | Array) -> Piece:
    return one.only if isinstance(one, Array) else one


@dataclass
class World:
    """`w` of a scenario. Sizes in elements; `count` is at least one."""

    ranks: range
    kernel: Kernel
    grid: Shape
    block: Shape
    arrays: dict[str, Array] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    _recording: list[PlannedLaunch] = field(default_factory=list)
    _in_graph: bool = False

    # -- memory -----------------------------------------------------------------------------------------------------

    def each(self, name: str, dtype: DTypeLike, count: int = 1, initial: Values = None) -> Array:
        """One array on every rank, which all ranks can reach; zeros, or `initial`: values, or a function of the
        rank."""
        return self._array(name, dtype, count, tuple(self.ranks), initial)

    def one(self, name: str, dtype: DTypeLike, count: int = 1, initial: Values = None, *, rank: int = 0) -> Array:
        """A single array, in the memory of `rank`."""
        if rank not in self.ranks:
            raise ScenarioError(f"{name}: there is no rank {rank}; the scenario has {len(self.ranks)} ranks")
        return self._array(name, dtype, count, (rank,), initial)

    def pinned(self, name: str, dtype: DTypeLike, count: int = 1, initial: Values = None) -> Array:
        """A single array in pinned host memory, which every rank maps."""
        return self._array(name, dtype, count, (None,), initial)

    def _array(self, name: str, dtype: DTypeLike, count: int, ranks: Sequence[int | None], initial: Values) -> Array:
        try:
            kind = np.dtype(dtype)
        except TypeError as error:
            raise ScenarioError(f"{name}: {dtype!r} is no type; use one of numpy's, such as np.uint32") from error
        if kind.hasobject or not kind.itemsize:
            raise ScenarioError(f"{name}: {kind} has no fixed size in memory; use a type such as np.uint32")
        if name in self.arrays:
            raise ScenarioError(f"there are two arrays called {name!r}; reports would not tell them apart")
        if not isinstance(count, int | np.integer) or not 1 <= count * kind.itemsize <= MOST_BYTES:
            raise ScenarioError(
                f"{name}: cannot have {count} elements; from 1 up to {MOST_BYTES >> 30} GiB is possible"
            )
        array = Array(name, kind, int(count), ranks, initial)
        for piece in array.pieces:
            array.values(initial, piece)  # what does not fit is said where it was written
        self.arrays[name] = array
        return array

    def pointers(self, array: Array) -> Pointers:
        """For a kernel that takes a table in device memory: the address of each rank's piece, by rank."""
        return Pointers(array)

    def struct(self, *members: Array | Piece | Pointers | np.generic, nbytes: int | None = None) -> Struct:
        """For a kernel that takes a struct by value; an array is the addresses of all its pieces. Zeros follow up to
        `nbytes`."""
        for member in members:
            if not isinstance(member, Array | Piece | Pointers | np.generic):
                kind = type(member).__name__
                raise ScenarioError(
                    f"a struct's member needs a size: {member!r} is a {kind}; write np.uint32({member!r}) or the like"
                )
        return Struct(members, nbytes)

    # -- what happens -----------------------------------------------------------------------------------------------

    def launch(
        self,
        args: Callable[[int], Sequence[Passed]] | Sequence[Passed],
        *,
        kernel: Kernel | None = None,
        ranks: Sequence[int] | None = None,
        grid: Shape | None = None,
        block: Shape | None = None,
        shared: int = 0,
        stream: int = 0,
        overlaps: bool = False,
        spins: bool = True,
        cooperative: bool = False,
    ) -> None:
        """One grid on each rank (or those named), all at once. Of one rank and stream they run in the order written,
        until the host does something. `args`: the kernel's parameters, by rank; `shared`: bytes of dynamic shared
        memory; `overlaps`: launched with programmatic serialization; `spins`: blocks wait for each other or for
        other ranks, so all must be resident; `cooperative`: launched so that `this_grid().sync()` works."""
        chosen = kernel or self.kernel
        check_kernel(chosen)
        shape = self.grid if grid is None else grid, self.block if block is None else block
        check_shape("grid", shape[0])
        check_shape("block", shape[1])
        caller = sys._getframe(1)
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        for rank in self.ranks if ranks is None else ranks:
            if rank not in self.ranks:
                raise ScenarioError(f"launch: there is no rank {rank}; the scenario has {len(self.ranks)} ranks")
            listed = args(rank) if callable(args) else args
            if not isinstance(listed, list | tuple):
                raise ScenarioError(f"launch: takes a list of arguments, not a {type(listed).__name__}")
            given = tuple(listed)
            _check_passed(given)
            how = {"overlaps": overlaps, "spins": spins, "cooperative": cooperative}
            self._recording.append(PlannedLaunch(rank, chosen, *shape, given, shared, stream, **how, place=place))

    @contextmanager
    def graph(self, replays: int) -> Iterator[None]:
        """Launches written inside are recorded once and replayed: each replay has the same arguments."""
        self._end_round()
        self._in_graph = True
        yield
        recorded = tuple(self._recording)
        self._recording.clear()
        self._in_graph = False
        if not recorded or replays < 1:
            raise ScenarioError("graph: needs at least one launch inside, and at least one replay")
        self.steps += [Round(recorded, graph=True)] * replays

    def write(self, array: Array | Piece, values: Values) -> None:
        """The host waits for all launches before, then sets these values: one, or as many as there are."""
        self._end_round()
        pieces = array.pieces if isinstance(array, Array) else (array,)
        for piece in pieces:
            piece.array.values(values, piece)
            self.steps.append(Write(piece, values))

    def between(self, function: Callable[[HostView], None]) -> None:
        """The host waits for all launches before, then runs `function(host)`: `host.read(array[0])`,
        `host.write(array[0], values)`."""
        self._end_round()
        self.steps.append(Do(function))

    # -- what has to be true ----------------------------------------------------------------------------------------

    def expect(self, array: Array, expected: Values, *, tolerance: float = 0.0) -> None:
        """By now each piece holds these values: one, as many as there are, or a function of the rank. Floats may differ
        by `tolerance`, relative or absolute."""
        for piece in array.pieces:
            array.values(expected, piece)
        self._expect(Equal(array, expected, tolerance))

    def expect_same(self, array: Array) -> None:
        """By now all ranks hold the same values in it."""
        if len(array.pieces) < 2:
            raise ScenarioError(f"expect_same: {array.name} is a single array, which is always the same as itself")
        self._expect(Same(array))

    def expect_that(self, array: Array, holds: Callable[[np.ndarray, int], object], about: str) -> None:
        """By now `holds(values, rank)` is true of each piece; `about` says in words what that means."""
        self._expect(That(array, holds, about))

    def expect_one_of(self, *alternatives: Mapping[Array, Values]) -> None:
        """By now one of these is true: of each, all arrays hold its values."""
        if not alternatives or not all(alternatives):
            raise ScenarioError("expect_one_of: needs at least one alternative, and each at least one array")
        for one in alternatives:
            for array, values in one.items():
                for piece in array.pieces:
                    array.values(values, piece)
        self._expect(OneOf(alternatives))

    def _expect(self, expectation: Expectation) -> None:
        self._end_round()
        self.steps.append(expectation)

    def _end_round(self) -> None:
        if self._in_graph:
            raise ScenarioError("graph: only launches can be recorded; put what the host does before or after it")
        if self._recording:
            self.steps.append(Round(tuple(self._recording)))
            self._recording.clear()

    def finished(self) -> Sequence[Step]:
        """All steps. Raises ScenarioError for a scenario that runs or expects nothing."""
        self._end_round()
        if not any(isinstance(step, Round) for step in self.steps):
            raise ScenarioError("it launches nothing; call w.launch(...)")
        if not isinstance(self.steps[-1], Expectation):
            raise ScenarioError("it expects nothing at its end, so it proves nothing; call w.expect(...)")
        return tuple(self.steps)


def check_shape(name: str, shape: object) -> None:
    """Raises ScenarioError for what is no grid or block."""
    parts = shape if isinstance(shape, tuple) else (shape,)
    if not 1 <= len(parts) <= 3 or any(not isinstance(one, int) or one < 1 for one in parts):
        raise ScenarioError(f"{name}={shape!r}: one number from 1 on, or a tuple of two or three")


def check_kernel(kernel: object) -> None:
    """Raises ScenarioError for what is none."""
    if not isinstance(kernel, Kernel):
        raise ScenarioError(f'{kernel!r} is no kernel; write Kernel("file.cuh", "entry")')


def _check_passed(given: Sequence[Passed]) -> None:
    for position, one in enumerate(given):
        if isinstance(one, Array) and len(one.pieces) > 1:
            raise ScenarioError(
                f"launch: argument {position} is {one.name}, an array on every rank; say whose: {one.name}[rank], or"
                f" w.pointers({one.name}) for a table of all"
            )
        if not isinstance(one, int | float | bytes | np.generic | np.ndarray | Array | Piece | Pointers | Struct):
            raise ScenarioError(f"launch: argument {position} is a {type(one).__name__}, which no kernel takes")
