"""The threads of a litmus test as the memory model sees them: each instruction that others can notice, operands
evaluated. What only the thread itself can notice (arithmetic, moves, branches) is done on the way to the next of them.

Must not know the rules of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

from pcietool.errors import ConfigError
from pcietool.litmus.layout import Layout, extended, in_register
from pcietool.litmus.liveness import live_before
from pcietool.litmus.model import requests
from pcietool.litmus.model.state import replaced
from pcietool.litmus.text import program
from pcietool.litmus.text.program import LitmusTest, Operand, common_scope, wrapped

MAX_STEPS = 2_000
"""Of one execution. What a litmus test needs more for counts or stores in a loop without end."""
MAX_UNSEEN = 100_000
"""Instructions of a thread that nobody else can notice, one after another."""

AGENT_READS, AGENT_WRITES, AGENT_DONE = range(3)
"""Positions in the program of a bulk copy's agent."""

Registers = tuple[int, ...]


@dataclass(slots=True, eq=False, kw_only=True)
class LitmusState(requests.ProgramState):
    registers: Registers


class LitmusThreads:
    """Implements `requests.Threads`. `tear`: vectors are their scalars, which anything may come between."""

    deadlines = False

    def __init__(self, test: LitmusTest, tear: bool = False) -> None:
        self.name = test.name
        self.layout = Layout(test)
        self.memory = self.layout.memory
        self._test = test
        self._tear = tear
        self._codes = [thread.code for thread in test.threads]
        self._live = [
            live_before(thread.code, [item.number for item in test.question.items if item.thread == index])
            for index, thread in enumerate(test.threads)
        ]
        self._agents = [
            (thread, copy) for thread, code in enumerate(self._codes) for copy in code if isinstance(copy, program.Copy)
        ]
        """Who issues which copy. Agents are threads behind those of the test."""
        places = [*test.threads, *(test.threads[thread] for thread, _ in self._agents)]
        self.nearness = [[common_scope(a, b) for b in places] for a in places]
        self._states: dict[tuple[int, int, Registers], LitmusState] = {}
        self._agent_done = LitmusState(None, position=AGENT_DONE, registers=())
        self._makers: dict[type[program.Instruction], Callable[[int, Any, Registers], requests.Request]] = {
            program.Load: self._load,
            program.Store: self._store,
            program.Rmw: self._rmw,
            program.Fence: self._fence,
            program.Barrier: self._barrier,
            program.Copy: self._copy,
            program.Commit: lambda _, commit, __: requests.Commit(commit.text, private=True),
            program.WaitForCopies: self._wait_for_copies,
            program.ProxyFence: lambda _, fence, __: requests.ProxyFence(fence.text, private=True),
        }

    def begin(self, thread: int) -> LitmusState:
        if thread >= len(self._codes):
            return self._agent_done
        return self._onward(thread, 0, self._test.threads[thread].initial)

    def after(self, thread: int, at: LitmusState, value: Any, late: bool) -> LitmusState:
        registers = at.registers
        if thread >= len(self._codes):
            return self._agent_after(thread, at, value)
        instruction = self._codes[thread][at.position]
        match instruction:
            case program.Load():
                for register, scalar in zip(instruction.registers, value, strict=True):
                    registers = self._with_read(thread, registers, instruction, register, scalar)
            case program.Rmw() if instruction.register is not None:
                registers = self._with_read(thread, registers, instruction, instruction.register, value[0])
        return self._onward(thread, at.position + 1, registers)

    def label(self, thread: int) -> str:
        return f"P{thread}" if thread < len(self._codes) else f"copy by P{self._agents[thread - len(self._codes)][0]}"

    def error(self, thread: int, at: LitmusState, text: str) -> ConfigError:
        return self._error(self._codes[thread][at.position], text)

    def _error(self, instruction: program.Instruction, text: str) -> ConfigError:
        return ConfigError(f"{self.name} line {instruction.line}: {text}")

    # What only the thread itself can notice

    def _onward(self, thread: int, position: int, registers: Registers) -> LitmusState:
        """From `position` to the next instruction that asks something of the model."""
        code = self._codes[thread]
        jumped: set[tuple[int, Registers]] = set()
        for _ in range(MAX_UNSEEN):
            instruction = code[position] if position < len(code) else None
            if isinstance(instruction, program.Arithmetic):
                registers = replaced(registers, instruction.register, self._result(thread, instruction, registers))
                position += 1
            elif isinstance(instruction, program.Branch):
                left, right = evaluate(instruction.left, registers), evaluate(instruction.right, registers)
                if not instruction.compare(left, right):
                    position += 1
                    continue
                position = instruction.target
                registers = self._kept(thread, position, registers)
                if (position, registers) in jumped:
                    return LitmusState(requests.Pause(instruction.text), position, registers=registers)
                jumped.add((position, registers))
            else:
                return self._at(thread, position, registers)
        raise ConfigError(f"{self.name}: P{thread} counts to more than {MAX_UNSEEN:,}; bound its loops")

    def _kept(self, thread: int, position: int, registers: Registers) -> Registers:
        """0 for registers that do not matter any more: threads that differ in nothing else are alike."""
        live = self._live[thread][position]
        return tuple(value if number in live else 0 for number, value in enumerate(registers))

    def _at(self, thread: int, position: int, registers: Registers) -> LitmusState:
        registers = self._kept(thread, position, registers)
        key = thread, position, registers
        if key not in self._states:
            code = self._codes[thread]
            request = None
            if position < len(code):
                request = self._makers[type(code[position])](thread, code[position], registers)
            self._states[key] = LitmusState(request, position, registers=registers)
        return self._states[key]

    def _result(self, thread: int, instruction: program.Arithmetic, registers: Registers) -> int:
        left, right = evaluate(instruction.left, registers), evaluate(instruction.right, registers)
        try:
            result = instruction.combine(left, right)
        except ZeroDivisionError:
            raise self._error(instruction, "div by zero; keep the divisor from being 0") from None
        return wrapped(result, self._test.threads[thread].bits(instruction.register))

    def _with_read(
        self, thread: int, registers: Registers, access: program.Access, register: int, scalar: int
    ) -> Registers:
        bits = self._test.threads[thread].bits(register)
        return replaced(registers, register, in_register(scalar, access.part, bits))

    # Requests

    def _access(self, access: program.Access) -> dict[str, Any]:
        scalars = self.layout.scalars(access)
        cells = tuple(chain(*scalars))
        ends = list(accumulate(map(len, scalars), initial=0))

        def joined(values: requests.Values) -> tuple[int, ...]:
            return tuple(
                extended(self.layout.join(scalar, values[start:end]), access.part)
                for scalar, (start, end) in zip(scalars, pairwise(ends), strict=True)
            )

        return {
            "moments": scalars if self._tear else (cells,),
            "size": access.part.size,
            "strong": access.strong,
            "acquire": access.acquire,
            "release": access.release,
            "scope": access.scope,
            "join": _alone if cells == scalars[0] and self._is_plain(access, cells) else joined,
        }

    def _is_plain(self, access: program.Access, cells: tuple[int, ...]) -> bool:
        """Whether it has one cell, whose value is what the access has."""
        return len(cells) == 1 and access.part.size >= 4 and self.layout.cells[cells[0]].size == access.part.size

    def _load(self, thread: int, load: program.Load, registers: Registers) -> requests.Request:
        return requests.Load(load.text, **self._access(load), coherent=load.coherent)

    def _store(self, thread: int, store: program.Store, registers: Registers) -> requests.Request:
        scalars = zip(self.layout.scalars(store), store.values, strict=True)
        values = (self.layout.split(cells, evaluate(value, registers)) for cells, value in scalars)
        return requests.Store(store.text, **self._access(store), values=tuple(chain(*values)))

    def _rmw(self, thread: int, rmw: program.Rmw, registers: Registers) -> requests.Request:
        (cells,) = self.layout.scalars(rmw)
        bits = 8 * rmw.part.size
        operand = wrapped(evaluate(rmw.value, registers), bits)
        expected = None if rmw.expected is None else wrapped(evaluate(rmw.expected, registers), bits)

        def modify(values: requests.Values) -> requests.Values | None:
            old = wrapped(self.layout.join(cells, values), bits)
            if expected is not None and old != expected:
                return None
            return self.layout.split(cells, rmw.combine(old, operand))

        native = (rmw.location, rmw.operation) not in self._test.not_native
        return requests.Rmw(rmw.text, **self._access(rmw), modify=modify, native=native)

    def _fence(self, thread: int, fence: program.Fence, registers: Registers) -> requests.Request:
        # Without fence.sc it only moves between what the thread has read and what it may read.
        return requests.Fence(fence.text, private=not fence.sequential, sequential=fence.sequential, scope=fence.scope)

    def _barrier(self, thread: int, barrier: program.Barrier, registers: Registers) -> requests.Request:
        number = evaluate(barrier.barrier, registers)
        quorum = evaluate(barrier.quorum, registers) if barrier.quorum else 0
        block = self._block(thread)
        return requests.Barrier(
            barrier.text,
            private=barrier.waits and not quorum,  # who comes when makes no difference
            block=block,
            instance=barrier.instance,
            barrier=number,
            quorum=quorum,
            members=self._members(block, barrier.instance),
            waits=barrier.waits,
        )

    # Bulk copies

    def _copy(self, thread: int, copy: program.Copy, registers: Registers) -> requests.Request:
        agent = len(self._codes) + next(n for n, (_, other) in enumerate(self._agents) if other is copy)
        cells, _ = self.layout.copied(copy)
        load = requests.Load(
            f"reads {self._test.locations[copy.source]}",
            moments=tuple((cell,) for cell in cells),
            strong=False,
            scope=copy.scope,
            join=tuple,
        )
        begins = LitmusState(load, position=AGENT_READS, registers=())
        return requests.Copy(copy.text, private=True, agent=agent, begins=begins)

    def _agent_after(self, agent: int, at: LitmusState, value: Any) -> LitmusState:
        if at.position == AGENT_WRITES:
            return self._agent_done
        key = agent, AGENT_WRITES, value
        if key in self._states:
            return self._states[key]
        copy = self._agents[agent - len(self._codes)][1]
        _, cells = self.layout.copied(copy)
        shown = self.layout.join(cells, value) if len(cells) > 1 else value[0]
        store = requests.Store(
            f"writes {self._test.locations[copy.location]}, {shown}",
            moments=tuple((cell,) for cell in cells),
            strong=False,
            scope=copy.scope,
            values=value,
        )
        self._states[key] = LitmusState(store, position=AGENT_WRITES, registers=value)
        return self._states[key]

    def _wait_for_copies(self, thread: int, wait: program.WaitForCopies, registers: Registers) -> requests.Request:
        return requests.WaitForCopies(wait.text, private=True, left=wait.left, reads_only=wait.reads_only)

    def _block(self, thread: int) -> tuple[int, int]:
        place = self._test.threads[thread]
        return place.gpu, place.cta

    def _members(self, block: tuple[int, int], instance: int) -> Sequence[int]:
        """The threads of the block whose code contains the instance."""
        return [
            index
            for index, code in enumerate(self._codes)
            if self._block(index) == block
            and any(isinstance(one, program.Barrier) and one.instance == instance for one in code)
        ]


def _alone(values: requests.Values) -> tuple[int, ...]:
    return values


def evaluate(operand: Operand, registers: Registers) -> int:
    return operand.constant if operand.register is None else registers[operand.register]
