"""The threads of a litmus test as the memory model sees them: each instruction that others can notice, operands
evaluated. What only the thread itself can notice (arithmetic, moves, branches) is done on the way to the next of them.

Must not know the rules of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pcietool.errors import ConfigError
from pcietool.litmus.model import requests
from pcietool.litmus.model.state import replaced
from pcietool.litmus.text import program
from pcietool.litmus.text.program import LitmusTest, Operand, common_scope

LARGEST_BITS = 256
"""Of a value: enough for any sum that tells stores apart, and a loop that multiplies ends."""
MAX_STEPS = 2_000
"""Of one execution. A litmus test that needs more counts or stores in a loop without end."""

AGENT_READS, AGENT_WRITES, AGENT_DONE = range(3)
"""Positions in the program of a bulk copy's agent."""

Registers = tuple[int, ...]


@dataclass(slots=True, eq=False, kw_only=True)
class LitmusState(requests.ProgramState):
    registers: Registers


class LitmusThreads:
    """Implements `requests.Threads`."""

    deadlines = False

    def __init__(self, test: LitmusTest) -> None:
        self.name = test.name
        self.memory = test.memory
        self._test = test
        self._codes = [thread.code for thread in test.threads]
        self._agents = [
            (thread, copy) for thread, code in enumerate(self._codes) for copy in code if isinstance(copy, program.Copy)
        ]
        """Who issues which copy. Agents are threads behind those of the test."""
        places = [*test.threads, *(test.threads[thread] for thread, _ in self._agents)]
        self.nearness = [[common_scope(a, b) for b in places] for a in places]
        self._states: dict[tuple[int, int, Registers], LitmusState] = {}
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
            return LitmusState(None, position=AGENT_DONE, registers=())
        return self._onward(thread, 0, self._test.threads[thread].initial)

    def after(self, thread: int, at: LitmusState, value: Any, late: bool) -> LitmusState:
        registers = at.registers
        if thread >= len(self._codes):
            return self._agent_after(thread, at, value)
        instruction = self._codes[thread][at.position]
        if isinstance(instruction, program.Load | program.Rmw) and instruction.register is not None:
            registers = replaced(registers, instruction.register, value)
        return self._onward(thread, at.position + 1, registers)

    def is_parted(self, thread: int, location: int) -> bool:
        return location in self._test.without_native_atomics

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
        for _ in range(MAX_STEPS):
            instruction = code[position] if position < len(code) else None
            if isinstance(instruction, program.Arithmetic):
                registers = replaced(registers, instruction.register, self._result(instruction, registers))
                position += 1
            elif isinstance(instruction, program.Branch):
                left, right = evaluate(instruction.left, registers), evaluate(instruction.right, registers)
                position = instruction.target if instruction.compare(left, right) else position + 1
            else:
                return self._at(thread, position, registers)
        raise ConfigError(f"{self.name}: an execution has more than {MAX_STEPS:,} steps; bound its loops")

    def _at(self, thread: int, position: int, registers: Registers) -> LitmusState:
        key = thread, position, registers
        if key not in self._states:
            code = self._codes[thread]
            request = None
            if position < len(code):
                request = self._makers[type(code[position])](thread, code[position], registers)
            self._states[key] = LitmusState(request, position, registers=registers)
        return self._states[key]

    def _result(self, instruction: program.Arithmetic, registers: Registers) -> int:
        left, right = evaluate(instruction.left, registers), evaluate(instruction.right, registers)
        try:
            result = instruction.combine(left, right)
        except ZeroDivisionError:
            raise self._error(instruction, "div by zero; keep the divisor from being 0") from None
        if result.bit_length() > LARGEST_BITS:
            raise self._error(instruction, f"a value of more than {LARGEST_BITS} bits; use smaller numbers")
        return result

    # Requests

    def _load(self, thread: int, load: program.Load, registers: Registers) -> requests.Request:
        return requests.Load(load.text, **_access(load))

    def _store(self, thread: int, store: program.Store, registers: Registers) -> requests.Request:
        return requests.Store(store.text, **_access(store), value=evaluate(store.value, registers))

    def _rmw(self, thread: int, rmw: program.Rmw, registers: Registers) -> requests.Request:
        operand = evaluate(rmw.value, registers)
        expected = None if rmw.expected is None else evaluate(rmw.expected, registers)
        combine = rmw.combine

        def modify(old: int) -> int | None:
            return None if expected is not None and old != expected else combine(old, operand)

        return requests.Rmw(rmw.text, **_access(rmw), modify=modify)

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
        load = requests.Load(f"reads {self._name(copy.source)}", location=copy.source, strong=False, scope=copy.scope)
        begins = LitmusState(load, position=AGENT_READS, registers=())
        return requests.Copy(copy.text, private=True, agent=agent, begins=begins)

    def _agent_after(self, agent: int, at: LitmusState, value: Any) -> LitmusState:
        if at.position == AGENT_WRITES:
            return LitmusState(None, position=AGENT_DONE, registers=())
        copy = self._agents[agent - len(self._codes)][1]
        text = f"writes {self._name(copy.location)}, {value}"
        store = requests.Store(text, location=copy.location, strong=False, scope=copy.scope, value=value)
        return LitmusState(store, position=AGENT_WRITES, registers=())

    def _name(self, location: int) -> str:
        return self._test.locations[location]

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


def evaluate(operand: Operand, registers: Registers) -> int:
    return operand.constant if operand.register is None else registers[operand.register]


def _access(one: program.Access) -> dict[str, Any]:
    """What a request of the model has in common with the instruction."""
    return {name: getattr(one, name) for name in ("location", "strong", "acquire", "release", "scope")}
