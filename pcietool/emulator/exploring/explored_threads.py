"""PTX threads as the memory model sees them: generated code without any access in place, one request a step.

Which accesses other threads can notice becomes known on the way (`locations`). Must not know the rules of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from pcietool.emulator import mbarriers
from pcietool.emulator.exploring.explored_mbarriers import mbarrier_request
from pcietool.emulator.exploring.launches import ExploredLaunch, Placed, placed
from pcietool.emulator.exploring.locations import Locations, TableChanged, Use
from pcietool.emulator.exploring.replay import ExploredThread, Facts, PtxState, Replay
from pcietool.emulator.memory import OFFSET_MASK, Memory
from pcietool.emulator.ops import Code, Op
from pcietool.emulator.translate import isa
from pcietool.emulator.translate.instructions import BARRIER_VOTES
from pcietool.emulator.translate.lower import SHARED_WINDOW
from pcietool.emulator.warps import warp_results
from pcietool.errors import EmulationError
from pcietool.litmus.model import requests
from pcietool.litmus.text.program import Scope

NEVER = 1 << 32
"""Threads that have to come to a barrier at which nobody waits."""
PHASES = 16
"""That are told apart; more would keep a loop with barriers from coming back to a state."""
KINDS_NOT_EXPLORED = {
    (Code.FENCE, "proxy"),
    *((Code.BARRIER, vote) for vote in BARRIER_VOTES),
}
"""Of opcodes that are explored otherwise."""


@dataclass
class PtxThreads:
    """Implements `requests.Threads`."""

    launches: Sequence[ExploredLaunch]
    memory_before: Memory
    is_native: Callable[[int, int], bool]
    """(device, home) -> whether the device's atomics are performed there in one step."""
    bytes_whole: Callable[[int], float]
    """Home -> up to how many bytes a vector there is read and written as one."""
    deadlines: bool = field(default=True, init=False)
    tolerant: bool = field(default=False, init=False)
    """States may be reached before it is known what they ask for; `renew_requests` tells."""

    def __post_init__(self) -> None:
        self.threads: list[ExploredThread] = []
        self._launches = placed(self.launches)
        self._launch_of_block: list[Placed] = []
        for one in self._launches:
            spec = one.launch.spec
            facts = Facts.of(spec.lowered)
            for index in range(spec.blocks):
                block = one.first_block + index
                self._launch_of_block.append(one)
                self.threads += (
                    ExploredThread(one.launch.device, block, spec, index, tid, facts) for tid in range(spec.threads)
                )
        self._members = dict(enumerate(threads for one in self._launches for threads in one.blocks))
        self.nearness = [[_nearness(one, other) for other in self.threads] for one in self.threads]
        self.locations = Locations(self._are_ordered)
        self.known: list[tuple[int, PtxState]] = []
        """All states, each with its thread."""
        self._replay = Replay(self.threads, self._reached)
        self._memory: dict[tuple[int, int], int] = {}
        """Kept, so that executions can still be read when the machine has gone on."""
        self._makers: dict[int, Callable[[int, tuple[Any, ...], PtxState], requests.Request]] = {
            Code.LOAD: self._load,
            Code.STORE: self._store,
            Code.RMW: self._rmw,
            Code.FENCE: self._fence,
            Code.BARRIER: self._barrier,
            Code.WARP: self._warp,
            Code.GRID: self._grid,
            Code.MBARRIER: self._mbarrier,
            Code.MBARRIER: self._mbarrier,
        }

    def _are_ordered(self, one: int, other: int) -> bool:
        a, b = self._launch_of_block[one], self._launch_of_block[other]
        return a is not b and (a.waits_for(b) or b.waits_for(a))

    # -- what the model asks ------------------------------------------------------------------------------------------

    @property
    def memory(self) -> list[int]:
        places = [(cell.address, cell.size) for cell in self.locations.cells]
        for place in places:
            if place not in self._memory:
                self._memory[place] = self.value_before(*place)
        return [self._memory[place] for place in places]

    def begin(self, thread: int) -> PtxState:
        launch = self._launch_of_block[self.threads[thread].block]
        if not launch.earlier:
            return self._replay.begin(thread)
        blocks = enumerate(launch.lets.blocks, launch.lets.first_block) if launch.lets else ()
        wait = requests.Await(
            "starts",
            private=True,
            threads=_threads_of(launch.before),
            begins=True,
            lets=[(_trigger_of(block), threads) for block, threads in blocks],
        )
        return PtxState(wait, -1, asked=None, sent=None, phase=0)

    def after(self, thread: int, at: PtxState, value: Any, late: bool) -> PtxState:
        if at.asked is None:
            return self._replay.begin(thread)
        op: Op = at.asked[0]
        phase = at.phase
        if isinstance(at.request, requests.Barrier) and op.code == Code.BARRIER and not at.request.quorum:
            phase = (phase + 1) % PHASES
        return self._replay.after(thread, at, value, late, phase)

    def label(self, thread: int) -> str:
        return str(self.threads[thread])

    def error(self, thread: int, at: PtxState, text: str) -> EmulationError:
        assert at.asked is not None
        return self._error(thread, at.asked[0], text)

    def renew_requests(self) -> None:
        """Before the search starts again: which cells there are has changed, or which accesses are private."""
        changed = True
        while changed:
            changed = False
            for thread, state in self.known:
                try:
                    self._request(thread, state)
                except TableChanged:
                    changed = True

    # -- requests -----------------------------------------------------------------------------------------------------

    def _reached(self, thread: int, state: PtxState) -> None:
        try:
            self._request(thread, state)
        except TableChanged:
            if not self.tolerant:
                raise
        self.known.append((thread, state))

    def _request(self, thread: int, state: PtxState) -> None:
        """Gives the state its request. Raises TableChanged; EmulationError for what is not explored."""
        if state.asked is None:
            return
        op: Op = state.asked[0]
        if state.waits_for_time:
            state.request = requests.Pause(op.where())
            return
        if (op.code, op.kind) in KINDS_NOT_EXPLORED or not isa.row(op.instruction).explored:
            what = op.instruction.form
            raise self._error(thread, op, f"{what} is not explored; leave it out, or run the kernel instead")
        state.request = self._makers[op.code](thread, state.asked, state)

    def _load(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Load:
        op, address = asked
        poll = op.poll
        loops = self._wait_loops(thread, op)
        if poll not in loops:  # a loop that control can enter again unnoticed
            poll = None
        return requests.Load(
            self._access_text(thread, op, address),
            **self._access(thread, op, address, state),
            wait_loops=loops if poll is None else frozenset({poll}),
            poll=poll,
            carried=state.carried,
            counts=poll is not None and op.counts,
            coherent=not op.instruction.has("nc"),
        )

    def _store(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Store:
        op, address, value = asked
        access = self._access(thread, op, address, state)
        text = str(value) if op.count == 1 else f"{{{', '.join(map(str, value))}}}"
        return requests.Store(
            f"{self._access_text(thread, op, address)} <- {text}",
            **access,
            values=self._split(op, access["moments"], (value,) if op.count == 1 else value),
        )

    def _rmw(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Rmw:
        op, address, b, c = asked
        access = self._access(thread, op, address, state)

        def modify(values: requests.Values) -> requests.Values | None:
            assert op.modify is not None
            old = access["join"](values) if access["join"] else values[0]
            if op.kind == "cas" and old != b:
                return None
            return self._split(op, access["moments"], (op.modify(old, b, c),))

        operands = f"{b}, {c}" if op.kind == "cas" else f"{b}"
        return requests.Rmw(
            f"{self._access_text(thread, op, address)} with {operands}",
            **access,
            modify=modify,
            native=self._is_native(thread, address),
        )

    def _is_native(self, thread: int, address: int) -> bool:
        if address & SHARED_WINDOW:
            return True
        return self.is_native(self.threads[thread].device, self._home(address))

    def _home(self, address: int) -> int:
        return self.memory_before.find(address, 1)[0].device

    def _fence(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Fence:
        op: Op = asked[0]
        sequential = op.kind == "sc"
        return requests.Fence(
            op.where(),
            private=not sequential,
            wait_loops=self._wait_loops(thread, op),
            sequential=sequential,
            scope=Scope(op.scope),
            acquires=op.kind != "release",
            releases=op.kind != "acquire",
        )

    def _barrier(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Barrier:
        op, number, count = asked
        if number > 15:
            raise self._error(thread, op, f"barrier {number}: a block has barriers 0 to 15")
        block = self.threads[thread].block
        waits = op.kind == "sync"
        return requests.Barrier(
            op.where(),
            private=waits and not count,  # who comes when makes no difference
            block=block,
            instance=number,
            barrier=number,
            quorum=count,
            members=self._members[block],
            waits=waits,
        )

    def _warp(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Barrier:
        op, mask, given = asked
        block, warp = self.threads[thread].block, self.threads[thread].tid >> 5
        members = [
            member
            for member in self._members[block]
            if self.threads[member].tid >> 5 == warp and mask >> (self.threads[member].tid & 31) & 1
        ]

        def results(gives: Any) -> dict[int, Any]:
            by_lane = warp_results(op.kind, {self.threads[lane]: value for lane, value in gives.items()})
            return {lane: by_lane[self.threads[lane]] for lane in gives}

        return requests.Barrier(
            op.where(),
            private=True,
            block=(block, "warp", warp),
            instance=(op, mask),
            barrier=0,
            quorum=0,
            members=members,
            waits=True,
            orders=op.kind == "sync",
            gives=given,
            results=results,
        )

    def _mbarrier(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Access:
        op, address, operand, *times = asked
        if op.instruction.has("expect_tx"):
            raise self._error(thread, op, "an mbarrier that waits for bytes is not explored; run the kernel instead")
        try:
            text = f"{op.where()}, {mbarriers.check(address, self.threads[thread].spec.shared)}"
            if op.kind == "init":
                mbarriers.check(address, self.threads[thread].spec.shared, operand)
        except EmulationError as error:
            raise self._error(thread, op, str(error)) from None
        access = self._access(thread, op, address | SHARED_WINDOW, state)
        unknown = self._error(thread, op, str(mbarriers.never_initialised(address)))
        split = partial(self._split, op, access["moments"])
        return mbarrier_request(text, access, op.kind, operand, times, split, unknown)

    def _grid(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Request:
        op: Op = asked[0]
        block = self.threads[thread].block
        if op.kind == "wait":
            threads = _threads_of(self._launch_of_block[block].earlier)
            return requests.Await(op.where(), private=True, threads=threads)
        return requests.Barrier(
            op.where(),
            private=True,  # the next launch may begin then, and knows nothing of it
            block=_trigger_of(block),
            instance=None,
            barrier=0,
            quorum=NEVER,
            members=(),
            waits=False,
        )

    def _access(self, thread: int, op: Op, address: int, state: PtxState) -> dict[str, Any]:
        """Checked, and known as cells."""
        writes = op.code != Code.LOAD and op.kind not in ("try_wait", "test_wait")
        use = Use(thread, self.threads[thread].block, state.phase, writes)
        try:
            place = self.checked(thread, address, op.bytes)
        except EmulationError as error:
            raise self._error(thread, op, str(error)) from None
        starts = range(place, place + op.bytes, op.size)
        elements = [self.locations.used(start, op.size, use) for start in starts]
        cells = tuple(chain(*elements))
        is_whole = address & SHARED_WINDOW or op.bytes <= self.bytes_whole(self._home(address))
        return {
            "private": not any(self.locations.is_contested(cell, use) for cell in cells),
            "moments": (cells,) if is_whole else tuple(elements),
            "size": op.size,
            "strong": op.strong,
            "acquire": op.acquire,
            "release": op.release,
            "scope": Scope(op.scope),
            "join": None if len(cells) == 1 else partial(self._joined, elements),
        }

    def _joined(self, elements: Sequence[Sequence[int]], values: requests.Values) -> Any:
        """What an access has read: a number, or one for each element of a vector."""
        pieces = iter(values)
        scalars = []
        for cells in elements:
            raw = b"".join(next(pieces).to_bytes(self.locations.cells[cell].size, "little") for cell in cells)
            scalars.append(int.from_bytes(raw, "little"))
        return scalars[0] if len(scalars) == 1 else tuple(scalars)

    def _split(self, op: Op, moments: Sequence[Sequence[int]], scalars: Sequence[int]) -> requests.Values:
        """What each cell holds once these are written."""
        raw = b"".join(scalar.to_bytes(op.size, "little") for scalar in scalars)
        values = []
        for cell in chain(*moments):
            size = self.locations.cells[cell].size
            values.append(int.from_bytes(raw[:size], "little"))
            raw = raw[size:]
        return tuple(values)

    def _wait_loops(self, thread: int, op: Op) -> frozenset[int]:
        return self.threads[thread].facts.wait_loops.get(id(op.instruction), frozenset())

    def checked(self, thread: int, address: int, size: int) -> int:
        """The address, which for shared memory tells blocks apart. Raises EmulationError."""
        if not address & SHARED_WINDOW:
            self.memory_before.find(address, size)
            return address
        offset = address & OFFSET_MASK
        shared = self.threads[thread].spec.shared
        if offset % size:
            raise EmulationError(f"misaligned {size} byte access to shared memory at offset {offset}")
        if offset + size > shared:
            raise EmulationError(
                f"{size} byte access at offset {offset} of shared memory, which is {shared} bytes long"
            )
        return SHARED_WINDOW | self.threads[thread].block << 32 | offset

    def value_before(self, address: int, size: int) -> int:
        if address & SHARED_WINDOW:
            return 0
        segment, offset = self.memory_before.find(address, 1)
        return int.from_bytes(segment.raw[offset : offset + size], "little")

    def _access_text(self, thread: int, op: Op, address: int) -> str:
        """The instruction and where it goes."""
        shared = f"shared memory+{address & OFFSET_MASK}"
        return f"{op.where()}, {shared if address & SHARED_WINDOW else self.memory_before.describe(address)}"

    def _error(self, thread: int, op: Op, text: str) -> EmulationError:
        name = self.threads[thread].spec.lowered.function.name
        return EmulationError(f"{self.threads[thread]}, kernel {name}: {text} at {op.where()}")


def _trigger_of(block: int) -> Hashable:
    """Where the threads of a block come to let the next launch begin."""
    return block, "lets the next launch begin"


def _threads_of(launches: Sequence[Placed]) -> list[int]:
    return [thread for one in launches for thread in one.threads]


def _nearness(one: ExploredThread, other: ExploredThread) -> Scope:
    if one.device != other.device:
        return Scope.SYS
    return Scope.CTA if one.block == other.block else Scope.GPU
