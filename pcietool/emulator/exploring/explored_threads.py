"""PTX threads as the memory model sees them: generated code without any access in place, one request a step.

Which accesses other threads can notice becomes known on the way (`locations`). Must not know the rules of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcietool.emulator.engine.threads import GridSpec
from pcietool.emulator.exploring.locations import Locations, Use
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

PHASES = 16
"""That are told apart; more would keep a loop with barriers from coming back to a state."""
KINDS_NOT_EXPLORED = {
    *((Code.FENCE, kind) for kind in ("proxy", "acquire", "release")),
    *((Code.BARRIER, vote) for vote in BARRIER_VOTES),
}
"""Of opcodes that are explored otherwise."""


@dataclass
class PtxThreads:
    """Implements `requests.Threads`."""

    launches: Sequence[tuple[int, GridSpec]]
    """With the device of each."""
    memory_before: Memory
    is_native: Callable[[int, int], bool]
    """(device, home) -> whether the device's atomics are performed there in one step."""
    locations: Locations = field(default_factory=Locations, init=False)
    deadlines: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.threads: list[ExploredThread] = []
        block = 0
        for device, spec in self.launches:
            facts = Facts.of(spec.lowered)
            for index in range(spec.blocks):
                self.threads += (ExploredThread(device, block, spec, index, tid, facts) for tid in range(spec.threads))
                block += 1
        self._members: dict[int, list[int]] = {}
        for number, thread in enumerate(self.threads):
            self._members.setdefault(thread.block, []).append(number)
        self.nearness = [[_nearness(one, other) for other in self.threads] for one in self.threads]
        self._known: list[tuple[int, PtxState]] = []
        """All states, each with its thread; elements of vectors have no key of their own."""
        self._replay = Replay(self.threads, self._reached)
        self._memory: list[int] = []
        """Kept, so that executions can still be read when the machine has gone on."""
        self._makers: dict[int, Callable[[int, tuple[Any, ...], PtxState], requests.Request]] = {
            Code.LOAD: self._load,
            Code.STORE: self._store,
            Code.RMW: self._rmw,
            Code.FENCE: self._fence,
            Code.BARRIER: self._barrier,
            Code.WARP: self._warp,
        }

    # -- what the model asks ------------------------------------------------------------------------------------------

    @property
    def memory(self) -> list[int]:
        new = self.locations.places[len(self._memory) :]
        self._memory += [self._value_before(address, size) for address, size in new]
        return self._memory

    def begin(self, thread: int) -> PtxState:
        return self._replay.begin(thread)

    def after(self, thread: int, at: PtxState, value: Any, late: bool) -> PtxState:
        assert at.asked is not None
        op: Op = at.asked[0]
        if op.count > 1:
            got = (*at.got, value)
            if len(got) < op.count:
                element = PtxState(None, at.position + 1, asked=at.asked, sent=at.sent, phase=at.phase, got=got)
                self._reached(thread, element)
                return element
            value = got if op.code == Code.LOAD else None
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
        """Before the search starts again: which accesses are private has changed."""
        for thread, state in self._known:
            self._request(thread, state)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _reached(self, thread: int, state: PtxState) -> None:
        self._request(thread, state)
        self._known.append((thread, state))

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
            self._access_text(thread, op, address, len(state.got)),
            **self._access(thread, op, address, state),
            wait_loops=loops if poll is None else frozenset({poll}),
            poll=poll,
        )

    def _store(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Store:
        op, address, value = asked
        element = len(state.got)
        value = value if op.count == 1 else value[element]
        return requests.Store(
            f"{self._access_text(thread, op, address, element)} <- {value}",
            **self._access(thread, op, address, state),
            values=(value,),
        )

    def _rmw(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Rmw:
        op, address, b, c = asked

        def modify(values: requests.Values) -> requests.Values | None:
            assert op.modify is not None
            (old,) = values
            return None if op.kind == "cas" and old != b else (op.modify(old, b, c),)

        operands = f"{b}, {c}" if op.kind == "cas" else f"{b}"
        return requests.Rmw(
            f"{self._access_text(thread, op, address)} with {operands}",
            **self._access(thread, op, address, state),
            modify=modify,
            native=self._is_native(thread, address),
        )

    def _is_native(self, thread: int, address: int) -> bool:
        if address & SHARED_WINDOW:
            return True
        return self.is_native(self.threads[thread].device, self.memory_before.find(address, 1)[0].device)

    def _fence(self, thread: int, asked: tuple[Any, ...], state: PtxState) -> requests.Fence:
        op: Op = asked[0]
        sequential = op.kind == "sc"
        return requests.Fence(
            op.where(),
            private=not sequential,
            wait_loops=self._wait_loops(thread, op),
            sequential=sequential,
            scope=Scope(op.scope),
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

    def _access(self, thread: int, op: Op, address: int, state: PtxState) -> dict[str, Any]:
        """Checked, and known as a location."""
        use = Use(thread, self.threads[thread].block, state.phase, writes=op.code != Code.LOAD)
        try:
            place = self._checked(thread, address, op.bytes) + len(state.got) * op.size
            location = self.locations.used(place, op.size, use)
        except EmulationError as error:
            raise self._error(thread, op, str(error)) from None
        return {
            "private": not self.locations.is_contested(location, use),
            "moments": ((location,),),
            "size": op.size,
            "strong": op.strong,
            "acquire": op.acquire,
            "release": op.release,
            "scope": Scope(op.scope),
        }

    def _wait_loops(self, thread: int, op: Op) -> frozenset[int]:
        return self.threads[thread].facts.wait_loops.get(id(op.instruction), frozenset())

    def _checked(self, thread: int, address: int, size: int) -> int:
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

    def _value_before(self, address: int, size: int) -> int:
        if address & SHARED_WINDOW:
            return 0
        segment, offset = self.memory_before.find(address, size)
        return segment.views[size][offset // size]

    def _access_text(self, thread: int, op: Op, address: int, element: int = 0) -> str:
        """The instruction and where the element lies."""
        place = address + element * op.size
        shared = f"shared memory+{place & OFFSET_MASK}"
        return f"{op.where()}, {shared if place & SHARED_WINDOW else self.memory_before.describe(place)}"

    def _error(self, thread: int, op: Op, text: str) -> EmulationError:
        name = self.threads[thread].spec.lowered.function.name
        return EmulationError(f"{self.threads[thread]}, kernel {name}: {text} at {op.where()}")


def _nearness(one: ExploredThread, other: ExploredThread) -> Scope:
    if one.device != other.device:
        return Scope.SYS
    return Scope.CTA if one.block == other.block else Scope.GPU
