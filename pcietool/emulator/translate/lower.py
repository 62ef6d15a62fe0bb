"""Translates one parsed PTX function into the source of a Python generator, one thread an instance.

The generated code computes registers inline and yields to the engine for everything that other threads can see:
strong or remote memory, read-modify-writes, fences, barriers, warp operations, sleep. Weak accesses to the device's
own memory and shared memory are inlined, unless the engine wants to see them all. Control flow is made here, from
`control_flow`; what stands in between comes from `isa`. Must not decide what anything costs or in which order
it becomes visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import isfunction
from types import GeneratorType
from typing import Any, TypeAlias

from pcietool.emulator.memory import views_of
from pcietool.emulator.ops import Code, located
from pcietool.emulator.translate import arithmetic, floats
from pcietool.emulator.translate.accesses import NEAR, near_memory, vector_length
from pcietool.emulator.translate.control_flow import (
    Block,
    Case,
    Cases,
    Span,
    cycles_avoiding,
    jump_at_end,
    target,
    within,
)
from pcietool.emulator.translate.isa import always_asks, lines_of, registers_read
from pcietool.emulator.translate.missing import refusal
from pcietool.emulator.translate.polls import wait_loops
from pcietool.emulator.translate.translation import GRID_BARRIER, SHAPED, SPECIAL_REGISTERS, TIMERS, Translation
from pcietool.errors import EmulationError, PtxError
from pcietool.ptx.declarations import end_of
from pcietool.ptx.model import TYPE_BYTES, Function, Instruction, Variable
from pcietool.ptx.registers import registers_in

SHARED_WINDOW = 1 << 62
"""Added to a shared address to make it generic; no allocation ever has this bit."""
WORK_QUANTUM = 64
"""Instructions of a loop without requests between two reports of the time they took."""
HELPERS = {
    name: function
    for module in (arithmetic, floats)
    for name, function in vars(module).items()
    if isfunction(function) and function.__module__ == module.__name__
}
"""What the table's expressions call."""

ThreadGenerator: TypeAlias = "GeneratorType[tuple[Any, ...], Any, None]"


@dataclass(frozen=True)
class Lowered:
    """A function ready to run: `start(P, TX, NX, CX, GX, D, G, TH, MC, tables...)` makes one thread: number TX of
    NX in block CX of GX, counted through, in a launch of shape D, None for one dimension; G: addresses of variables."""

    function: Function
    start: Callable[..., ThreadGenerator]
    source: str
    instructions: Mapping[int, Instruction]
    """The PTX instruction that each line of `source` belongs to."""
    variables: Mapping[str, str]
    """The Python variable of each register."""
    non_coherent: bool
    """Does it load through the non-coherent path?"""
    module_variables: tuple[Variable, ...]
    """Those in global memory that it uses."""

    @cached_property
    def reads_timers(self) -> bool:
        """Only then can it know that the launch's deadline has passed."""
        every = (i for block in self.function.blocks for i in block.instructions)
        return any(name in TIMERS for i in every for operand in i.operands for name in registers_in(operand))

    def instruction_at(self, generator: ThreadGenerator) -> Instruction | None:
        """Where a thread waits; None before its start and behind its end."""
        frame = generator.gi_frame
        return None if frame is None else self.instructions.get(frame.f_lineno)

    def error_at(self, thread: object, generator: ThreadGenerator, error: Exception) -> EmulationError:
        """The same error with the thread and the instruction that made it."""
        line = generator.gi_frame.f_lineno if generator.gi_frame is not None else 0
        what = str(error) if isinstance(error, EmulationError) else "access beyond the end of an allocation"
        traceback = error.__traceback__
        while traceback is not None:  # where the generator itself raised, its frame is already gone
            if traceback.tb_frame.f_code is generator.gi_code:
                line = traceback.tb_lineno
                if isinstance(error, IndexError):
                    what = beyond(self.instructions[line], traceback.tb_frame.f_locals)
            traceback = traceback.tb_next
        where = f" at {located(self.instructions[line])}" if line in self.instructions else ""
        return EmulationError(f"{thread}, kernel {self.function.name}: {what}{where}")


def lower(
    function: Function, *, inline_weak: bool = True, inline_shared: bool = True, asks_often: bool = True
) -> Lowered:
    """Raises PtxError for an instruction, modifier or operand the emulator does not know, with its line."""
    return _Lowering(function, inline_weak, inline_shared, asks_often).result()


def constant_memory(function: Function) -> bytearray:
    """What the module's constants hold; those without a value are zero."""
    content = bytearray(end_of(function.variables, "const"))
    for variable in function.variables.values():
        if variable.space == "const" and variable.initial:
            content[variable.offset : variable.offset + variable.bytes] = variable.initial
    return content


def misaligned(address: int, nbytes: int, memory: str) -> None:
    raise EmulationError(f"misaligned {nbytes} byte access to {memory} memory at offset {address}")


def beyond(i: Instruction, variables: Mapping[str, Any]) -> str:
    """What an access in place did that was outside its memory: generated code has the address in `a`, and the memory
    in `m`, whose elements end where no whole one fits."""
    nbytes = TYPE_BYTES[i.type] * vector_length(i)
    offset, length = variables["a"] & 0xFFFFFFFF, variables["m"].nbytes
    where = f"{NEAR[near]} memory" if (near := near_memory(i)) else "an allocation of its own GPU"
    if offset >> 31:
        return f"{nbytes} byte access {(1 << 32) - offset} bytes before the start of {where}"
    distance = offset + nbytes - length
    return f"{nbytes} byte access at offset {offset} of {where}, {distance} bytes beyond its end at {length}"


def failed_assertion() -> None:
    raise EmulationError("an assertion failed")


def trap(variables: Mapping[str, int]) -> None:
    alone = variables.get(GRID_BARRIER.name) == 0
    why = (
        "; it asks for its whole grid, and its launch is not cooperative: launch it with cooperative=True"
        if alone
        else ""
    )
    raise EmulationError(f"the kernel gave up (trap){why}")


def special(i: Instruction) -> Iterator[str]:
    """Special registers that it reads."""
    return (name for operand in i.operands for name in registers_in(operand) if name in SPECIAL_REGISTERS)


def _maps_shared_memory(function: Function) -> bool:
    """Does it go to the shared memory of other blocks of its cluster? Then no access to shared memory is in place."""
    every = (i for block in function.blocks for i in block.instructions)
    return any(i.opcode == "mapa" or (i.opcode != "cp" and i.has("shared::cluster")) for i in every)


class _Lowering:
    """Every case stands behind its test of `pc`, in order, and loops among them are loops of their own. A jump forward
    sets `pc` and lets the tests in between fail; a jump back restarts the innermost loop that holds its target."""

    def __init__(self, function: Function, inline_weak: bool, inline_shared: bool, asks_often: bool) -> None:
        self.function = function
        read = {name for block in function.blocks for i in block.instructions for name in registers_read(i)}
        polls = wait_loops(function)
        inline_shared = inline_shared and not _maps_shared_memory(function)
        self.translation = Translation(function, polls, read, inline_weak, inline_shared, asks_often)
        self.cases = Cases.of(function)
        self.silent = self._silent_cycles()
        self.unknown: list[tuple[Instruction, PtxError]] = []
        self.lines: list[str] = []
        self.instructions: dict[int, Instruction] = {}
        self.current: Instruction | None = None
        self.open_loops: list[Span] = []

    def _silent_cycles(self) -> dict[Block, int]:
        """Instructions of one turn, by block that closes it, of cycles on which nothing asks the engine."""
        blocks = self.function.blocks
        asking = {n for n, block in enumerate(blocks) if any(always_asks(i) for i in block.instructions)}
        cycles = cycles_avoiding(self.function, asking)
        return {end: sum(len(blocks[n].instructions) for n in cycle) for end, cycle in cycles.items()}

    def result(self) -> Lowered:
        self._line(0, "def start(P, TX, NX, CX, GX, D, G, TH, MC, WATCHED, LB, LH, LI, LQ, SB, SH, SI, SQ):")
        self._line(1, "")  # the registers, once all are known
        used = {register for block in self.function.blocks for i in block.instructions for register in special(i)}
        for register, (alone, shaped) in SHAPED.items():
            if register in used:
                self._line(1, f"{SPECIAL_REGISTERS[register]} = {alone} if D is None else {shaped}")
        if local := end_of(self.function.variables, "local"):
            self._line(1, f"VB, VH, VI, VQ = views_of(bytearray({local})).values()")
        self._line(1, "while True:")
        self._region(2, (0, len(self.cases) - 1), self.cases.spans)
        if self.unknown:
            raise refusal(self.unknown)
        self._line(1, "yield  # never reached: makes a generator of a kernel without requests, too")
        self.lines[1] = "    " + " = ".join([*sorted(self.translation.names.values()), "w", "pc", "0"])
        known = self.translation.module_variables.items()
        self.lines[1] += "".join(f"; {python} = G[{variable.name!r}]" for variable, python in known)
        source = "\n".join(self.lines) + "\n"
        constants = zip(("KB", "KH", "KI", "KQ"), views_of(constant_memory(self.function)).values(), strict=True)
        namespace: dict[str, Any] = {
            "SHARED_WINDOW": SHARED_WINDOW,
            "views_of": views_of,
            "misaligned": misaligned,
            "failed_assertion": failed_assertion,
            "trap": trap,
            **dict(constants),
            **HELPERS,
            **self.translation.constants,
        }
        exec(compile(source, f"<emulated {self.function.name}>", "exec"), namespace)
        t = self.translation
        variables = tuple(t.module_variables)
        return Lowered(self.function, namespace["start"], source, self.instructions, t.names, t.non_coherent, variables)

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)
        if self.current is not None:
            self.instructions[len(self.lines)] = self.current

    def _region(self, depth: int, region: Span, loops: tuple[Span, ...]) -> None:
        """The cases of a region in order; `loops` are those inside it, outer before inner."""
        case, last = region
        while case <= last:
            loop = next((loop for loop in loops if loop[0] == case), None)
            if loop is None:
                self._line(depth, f"if pc == {case}:")
                self._case(depth + 1, case)
                case += 1
            else:
                self._loop(depth, loop, tuple(span for span in loops if span != loop and within(span, loop)))
                case = loop[1] + 1

    def _loop(self, depth: int, loop: Span, inner: tuple[Span, ...]) -> None:
        first, last = loop
        alone = first == last
        self._line(depth, f"while pc == {first}:" if alone else f"while {first} <= pc <= {last}:")
        self.open_loops.append(loop)
        if alone:  # the loop's own test is the case's
            self._case(depth + 1, first)
        else:
            self._region(depth + 1, loop, inner)
        self.open_loops.pop()

    def _case(self, depth: int, case: Case) -> None:
        jump = None
        for block in self.cases.body(case):
            jump = jump_at_end(self.function, block)
            for instruction in self.function.blocks[block].instructions:
                self.current = instruction
                try:
                    self.translation.check_registers(instruction)
                    if instruction is jump:
                        depth = self._jump(depth, jump, case, self.silent.get(block))
                    else:
                        self._instruction(depth, instruction)
                except PtxError as error:
                    self.unknown.append((instruction, error))
        self.current = None
        if jump is None or jump.guard:
            self._line(depth, f"pc = {case + 1}" if case + 1 < len(self.cases) else "return")

    def _instruction(self, depth: int, i: Instruction) -> None:
        depth = self._guard(depth, i)
        for text in lines_of(self.translation, i):
            self._line(depth, text)

    def _guard(self, depth: int, i: Instruction) -> int:
        """Emits the test of a guard; returns the depth behind it."""
        if i.guard is None:
            return depth
        self._line(depth, f"if {'not ' * i.guard.negated}{self.translation.register(i.guard.register.name)}:")
        return depth + 1

    def _jump(self, depth: int, jump: Instruction, case: Case, turn: int | None) -> int:
        """Ends a block; returns the depth at which the rest of the case goes on. `turn`: instructions of the
        silent cycle that the block closes."""
        self.translation.allow(jump, {"uni"})
        if turn is not None:
            self._line(depth, f"w += {turn}")
            self._line(depth, f"if w > {WORK_QUANTUM}:")
            self._line(depth + 1, f"yield ({self.translation.op(jump, Code.WORK)}, w)")
            self._line(depth + 1, "w = 0")
        inner = self._guard(depth, jump)
        if jump.opcode != "bra":
            self._line(inner, "return")
            return depth
        to = self.cases.number(target(self.function, jump))
        first, last = self.open_loops[-1] if self.open_loops else (0, len(self.cases))
        if not first <= to <= last:
            self._line(inner, f"pc = {to}; break")
        elif to <= case:
            self._line(inner, f"pc = {to}; continue")
        else:  # nothing but the rest of the case can follow
            self._line(inner, f"pc = {to}")
            if jump.guard:
                self._line(depth, "else:")
                return depth + 1
        return depth
