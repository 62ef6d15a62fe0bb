"""PTX threads that can go back: a program state is where a thread's generator waits, with the registers that matter.

Generators cannot be copied: to go on from a state in another way, a fresh one is given all answers that led there. Time
stands still until all deadlines have passed at once. Must not know what requests mean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pcietool.emulator.engine.threads import GridSpec
from pcietool.emulator.ops import Code, Op
from pcietool.emulator.translate import polls
from pcietool.emulator.translate.isa import registers_written
from pcietool.emulator.translate.liveness import live_after
from pcietool.emulator.translate.lower import Lowered, ThreadGenerator
from pcietool.errors import EmulationError
from pcietool.litmus.model.requests import ProgramState
from pcietool.ptx.model import Function, Instruction

LATE_NS = (1 << 62) + (1 << 31)
"""What timers show behind all deadlines."""
MAX_SLEEPS = 1_000
"""In a row, without any request between them: whoever does so waits for the time."""
END = sys.maxsize
"""The position behind the last instruction."""


class Sent(NamedTuple):
    """One answer that a generator was given, and those before it."""

    before: Sent | None
    value: Any
    late: bool


@dataclass(frozen=True)
class Facts:
    """What is worth knowing of a function: by id() of each instruction."""

    live: dict[int, list[str]]
    """Python variables that still matter once a request of the instruction has been answered."""
    wait_loops: dict[int, frozenset[int]]

    @classmethod
    def of(cls, lowered: Lowered) -> Facts:
        def variables(instruction: Instruction, live: frozenset[str]) -> list[str]:
            kept = live.difference(registers_written(instruction))
            return sorted(lowered.variables[name] for name in kept if name in lowered.variables)

        function: Function = lowered.function
        live = live_after(function)
        instructions = [i for block in function.blocks for i in block.instructions]
        return cls({id(i): variables(i, live[id(i)]) for i in instructions}, polls.around(function))


@dataclass(slots=True, eq=False)
class ExploredThread:
    """One thread of one launch. `block` counts over all launches."""

    device: int
    block: int
    spec: GridSpec
    index: int
    """Of its block in the grid."""
    tid: int
    facts: Facts

    def __str__(self) -> str:
        return f"GPU {self.device} block {self.index} thread {self.tid}"


@dataclass(slots=True, eq=False, kw_only=True)
class PtxState(ProgramState):
    """`asked` is what the generator yielded, None at its end and before its start. `phase` counts block-wide barriers;
    `carried`: what decides where a turn of a wait loop leads from here."""

    asked: tuple[Any, ...] | None
    sent: Sent | None
    phase: int
    waits_for_time: bool = False
    carried: tuple[Any, ...] = ()


LOCAL = "VB"
"""What generated code calls the bytes of a thread's local memory."""


class Replay:
    """All threads of an exploration, and the machine that generated code asks for time. `on_new(thread, state)` is
    called for each state when it is first reached."""

    def __init__(self, threads: Sequence[ExploredThread], on_new: Callable[[int, PtxState], None]) -> None:
        self._threads = threads
        self._on_new = on_new
        self._states: dict[tuple[Any, ...], PtxState] = {}
        self._running: dict[int, tuple[Sent | None, ThreadGenerator]] = {}
        """By thread: a generator, and what it was given."""
        self._late = False

    def begin(self, thread: int) -> PtxState:
        return self._run(thread, self._fresh(thread), None, 0)

    def after(self, thread: int, at: PtxState, value: Any, late: bool, phase: int) -> PtxState:
        """Where the thread goes on once it was given `value`, in this phase."""
        return self._run(thread, self._generator_at(thread, at.sent), Sent(at.sent, value, late), phase)

    # -- what generated code reads ------------------------------------------------------------------------------------

    def globaltimer(self, thread: ExploredThread) -> int:
        return LATE_NS if self._late else 0

    cycles = globaltimer

    def printed(self, thread: ExploredThread, text: int, at: int, local: memoryview | bytes) -> None:
        """Not kept: states are come to many times."""

    def sm_of(self, thread: ExploredThread) -> int:
        return thread.block

    # -- generators ---------------------------------------------------------------------------------------------------

    def _fresh(self, number: int) -> ThreadGenerator:
        thread = self._threads[number]
        spec = thread.spec
        return spec.lowered.start(
            spec.arguments,
            thread.tid,
            spec.threads,
            thread.index,
            spec.blocks,
            spec.shape,
            spec.variables,
            thread,
            self,
            *(None,) * 9,
        )

    def _generator_at(self, thread: int, sent: Sent | None) -> ThreadGenerator:
        """One that was given this, and waits for the next answer."""
        at, generator = self._running.pop(thread, (None, None))
        if generator is not None and at is sent:
            return generator
        generator = self._fresh(thread)
        answers = []
        while sent is not None:
            answers.append(sent)
            sent = sent.before
        self._late = False
        generator.send(None)
        for answer in reversed(answers):
            self._late = answer.late
            generator.send(answer.value)
        return generator

    def _run(self, thread: int, generator: ThreadGenerator, sent: Sent | None, phase: int) -> PtxState:
        """Gives the generator the last answer and lets it go on to its next request, through what only takes time."""
        self._late = sent is not None and sent.late
        slept: set[tuple[Any, ...]] = set()
        try:
            asked = generator.send(sent.value if sent else None)
            while asked[0].code in (Code.SLEEP, Code.WORK):
                key = self._key(thread, generator, asked[:1], phase)
                if key in slept or len(slept) > MAX_SLEEPS:
                    self._running[thread] = sent, generator
                    return self._interned((*key, "waits"), asked, sent, phase, waits_for_time=True)
                slept.add(key)
                sent = Sent(sent, None, self._late)
                asked = generator.send(None)
        except StopIteration:
            return self._interned((thread, END), None, sent, phase)
        except (EmulationError, IndexError) as error:
            explored = self._threads[thread]
            raise explored.spec.lowered.error_at(explored, generator, error) from None
        self._running[thread] = sent, generator
        return self._interned(self._key(thread, generator, asked, phase), asked, sent, phase)

    def _key(self, thread: int, generator: ThreadGenerator, asked: tuple[Any, ...], phase: int) -> tuple[Any, ...]:
        frame = generator.gi_frame
        assert frame is not None
        values = frame.f_locals
        live = self._threads[thread].facts.live[id(asked[0].instruction)]
        local = bytes(values[LOCAL]) if LOCAL in values else b""
        return thread, frame.f_lasti, phase, asked[1:], local, *(values[name] for name in live)

    def _carried(self, thread: int, asked: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """What the thread that has asked this carries from turn to turn of a wait loop."""
        op: Op | None = asked[0] if asked else None
        frame = self._running[thread][1].gi_frame if op and op.carried else None
        return tuple(frame.f_locals[name] for name in op.carried) if op and frame else ()

    def _interned(
        self,
        key: tuple[Any, ...],
        asked: tuple[Any, ...] | None,
        sent: Sent | None,
        phase: int,
        waits_for_time: bool = False,
    ) -> PtxState:
        """The state of this key, which begins with thread and position."""
        state = self._states.get(key)
        if state is None:
            thread, position = key[:2]
            state = PtxState(None, position, asked=asked, sent=sent, phase=phase, waits_for_time=waits_for_time)
            state.carried = self._carried(thread, asked)
            self._on_new(thread, state)
            self._states[key] = state
        return state
