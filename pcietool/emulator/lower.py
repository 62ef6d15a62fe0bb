"""Translates one parsed PTX function into the source of a Python generator, one thread an instance.

The generated code computes registers inline and yields to the engine for everything that other threads can see:
strong or remote memory, read-modify-writes, fences, barriers, warp operations, sleep. Weak accesses to the device's
own memory and shared memory are inlined, unless the engine wants to see them all. Must not decide what any of
these cost or in which order they become visible.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from pcietool.emulator import arithmetic, isa
from pcietool.emulator.ops import SCOPE_ORDER, Code, Op
from pcietool.emulator.polls import natural_loops, wait_loops
from pcietool.errors import PtxError
from pcietool.ptx.model import (
    TYPE_BYTES,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

SHARED_WINDOW = 1 << 62
"""Added to a shared address to make it generic; no allocation ever has this bit."""
WORK_QUANTUM = 64
"""Instructions of a loop without requests between two reports of the time they took."""
VIEWS = {1: "B", 2: "H", 4: "I", 8: "Q"}
SHIFTS = {1: 0, 2: 1, 4: 2, 8: 3}

ThreadGenerator = Generator[tuple[Any, ...], Any, None]


@dataclass(frozen=True)
class Lowered:
    """A function ready to run: `start(P, TX, NX, CX, GX, TH, MC, tables...)` makes one thread."""

    function: Function
    start: Callable[..., ThreadGenerator]
    source: str
    instructions: Mapping[int, Instruction]
    """The PTX instruction that each line of `source` belongs to."""


def lower(function: Function, *, inline_weak: bool = True) -> Lowered:
    """Raises PtxError for an instruction, modifier or operand the emulator does not know, with its line."""
    return _Lowering(function, inline_weak).result()


class _Lowering:
    def __init__(self, function: Function, inline_weak: bool) -> None:
        self.function = function
        self.inline_weak = inline_weak
        self.lines: list[str] = []
        self.instructions: dict[int, Instruction] = {}
        self.names: dict[str, str] = {}
        self.constants: dict[str, Any] = {
            name: getattr(arithmetic, name)
            for name in (
                "divide_signed remainder_signed extract_bits insert_bits permute_bytes reverse_bits bits_float float_bits"
            ).split()
        } | {"SHARED_WINDOW": SHARED_WINDOW}
        self.polls = wait_loops(function)
        self.current: Instruction | None = None
        self.cases = self._case_heads()
        self.working = self._working_branches()
        self.loops: list[tuple[int, int]] = []

    # -- program structure --------------------------------------------------------------------------------------

    def _case_heads(self) -> dict[int, int]:
        """Case number by block, for blocks that a jump can enter; the others simply continue the block above."""
        targets = {0}
        for block, body in enumerate(self.function.blocks):
            last = body.instructions[-1]
            if last.opcode == "bra":
                targets.add(self._target(last))
            if last.opcode in ("bra", "ret", "exit", "trap") and last.guard is None:
                targets.add(block + 1)
        return {block: case for case, block in enumerate(sorted(targets & set(range(len(self.function.blocks)))))}

    def _target(self, branch: Instruction) -> int:
        label = branch.operands[0]
        assert isinstance(label, Label)
        return self.function.labels[label.name]

    def _working_branches(self) -> dict[int, int]:
        """Instructions an iteration, by block that ends a loop in which no instruction always asks the engine."""
        working = {}
        for loop in natural_loops(self.function):
            body = [i for block in loop for i in self.function.blocks[block].instructions]
            if any(self._always_yields(i) for i in body):
                continue
            for block in loop:
                last = self.function.blocks[block].instructions[-1]
                if last.opcode == "bra" and self._target(last) == min(loop):
                    working[block] = len(body)
        return working

    @staticmethod
    def _always_yields(instruction: Instruction) -> bool:
        if instruction.guard:
            return False
        if instruction.opcode in ("bar", "barrier", "nanosleep", "atom", "red", "membar", "fence"):
            return True
        return instruction.opcode in ("ld", "st") and instruction.has("relaxed", "acquire", "release", "volatile")

    def result(self) -> Lowered:
        self._region(2, 0, len(self.cases) - 1, self._loop_spans())
        registers = sorted(set(self.names.values()))
        head = [
            "def start(P, TX, NX, CX, GX, TH, MC, WATCHED, LB, LH, LI, LQ, SB, SH, SI, SQ):",
            "    " + "".join(f"{name} = " for name in registers) + "w = pc = 0",
            "    while True:",
        ]
        shift = len(head)
        source = "\n".join([*head, *self.lines]) + "\n"
        namespace: dict[str, Any] = dict(self.constants)
        exec(compile(source, f"<emulated {self.function.name}>", "exec"), namespace)
        located = {line + shift: instruction for line, instruction in self.instructions.items()}
        return Lowered(self.function, namespace["start"], source, located)

    def _loop_spans(self) -> list[tuple[int, int]]:
        """First and last case of each loop, widened until any two of them are nested or apart; largest first."""
        heads = sorted(self.cases)
        case_of = [bisect_right(heads, block) - 1 for block in range(len(self.function.blocks))]
        spans = {(case_of[min(loop)], case_of[max(loop)]) for loop in natural_loops(self.function)}
        for a in sorted(spans):
            for b in sorted(spans):
                if a[0] < b[0] <= a[1] < b[1] and {a, b} <= spans:
                    spans = spans - {a} | {(a[0], b[1])}
        return sorted(spans, key=lambda span: (span[0], -span[1]))

    def _region(self, depth: int, first: int, last: int, loops: list[tuple[int, int]]) -> None:
        """Cases first..last in order, each behind its test of `pc`; loops among them as loops of their own.

        A jump forward sets `pc` and lets the tests in between fail; a jump back restarts the innermost loop that
        holds its target.
        """
        case = first
        while case <= last:
            inner = [loop for loop in loops if case <= loop[0] and loop[1] <= last]
            if inner and inner[0][0] == case:
                low, high = inner[0]
                self._line(depth, f"if {low} <= pc <= {high}:")
                self._line(depth + 1, "while True:")
                self.loops.append((low, high))
                self._region(depth + 2, low, high, [loop for loop in inner[1:] if loop[1] <= high])
                self.loops.pop()
                self._line(depth + 2, f"if not {low} <= pc <= {high}: break")
                case = high + 1
            else:
                self._line(depth, f"if pc == {case}:")
                self._case(depth + 1, case)
                case += 1

    def _case(self, depth: int, case: int) -> None:
        heads = [*sorted(self.cases), len(self.function.blocks)]
        falls_through = True
        for block in range(heads[case], heads[case + 1]):
            for instruction in self.function.blocks[block].instructions:
                self.current = instruction
                depth = self._instruction(depth, instruction, case, block)
                falls_through = instruction.guard is not None or instruction.opcode not in ("bra", "ret", "exit", "trap")
        self.current = None
        if falls_through:
            end = heads[case + 1]
            self._line(depth, f"pc = {self.cases[end]}" if end in self.cases else "return")

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)
        if self.current is not None:
            self.instructions[len(self.lines)] = self.current

    # -- operands -----------------------------------------------------------------------------------------------

    def _unknown(self, instruction: Instruction, what: str) -> PtxError:
        return PtxError(
            f"the emulator does not know {what} in '{instruction.text}' (kernel {self.function.name}, PTX line"
            f" {instruction.line}{f', {instruction.source}' if instruction.source else ''}); report it, or run on a GPU"
        )

    def _register(self, name: str) -> str:
        return self.names.setdefault(name, "r_" + re.sub(r"\W", lambda m: f"_{ord(m[0]):x}_", name.lstrip("%")))

    def _width(self, register: str) -> int:
        return TYPE_BYTES[self.function.registers[register]] * 8

    def _value(self, operand: Operand, width: int) -> str:
        match operand:
            case Immediate(value):
                return str(value & ((1 << width) - 1))
            case Register(name) if name in isa.SPECIAL_REGISTERS:
                return isa.SPECIAL_REGISTERS[name]
            case Register(name) if name in self.function.registers:
                register = self._register(name)
                wider = self.function.registers[name] != "pred" and self._width(name) > width
                return f"({register}&{(1 << width) - 1:#x})" if wider else register
            case Negated(Register(name)):
                return f"(not {self._register(name)})"
            case Symbol(name) if name in self.function.variables and self.function.variables[name].space == "shared":
                return str(self.function.variables[name].offset)
        assert self.current is not None
        raise self._unknown(self.current, f"operand {operand}")

    def _signed(self, operand: Operand, width: int) -> str:
        if isinstance(operand, Immediate):
            value = operand.value & ((1 << width) - 1)
            return f"({value - (value >> width - 1 << width)})"
        value_text = self._value(operand, width)
        return f"(({value_text}^{1 << width - 1:#x})-{1 << width - 1:#x})"

    def _address(self, operand: Operand) -> str:
        if not isinstance(operand, Address):
            assert self.current is not None
            raise self._unknown(self.current, f"address {operand}")
        base = self._value(operand.base, 64)
        return f"{base}+{operand.offset}" if operand.offset > 0 else f"{base}{operand.offset or ''}"

    # -- instructions -------------------------------------------------------------------------------------------

    def _instruction(self, depth: int, i: Instruction, case: int, block: int) -> int:
        """Emits one instruction; returns the depth at which the rest of the case goes on."""
        if i.opcode == "bra" and block in self.working:
            self._line(depth, f"w += {self.working[block]}")
            self._line(depth, f"if w > {WORK_QUANTUM}:")
            self._line(depth + 1, f"yield ({self._op(i, Code.WORK)}, w)")
            self._line(depth + 1, "w = 0")
        outer = depth
        if i.guard:
            self._line(depth, f"if {'not ' if i.guard.negated else ''}{self._register(i.guard.register.name)}:")
            depth += 1
        if i.opcode == "bra":
            self._allow(i, {"uni"})
            forward = self._jump(depth, case, self.cases[self._target(i)])
            if i.guard and forward:  # nothing but the rest of the case can follow
                self._line(outer, "else:")
                return outer + 1
            return outer
        emit = {
            "ret": self._return,
            "exit": self._return,
            "ld": self._load,
            "st": self._store,
            "atom": self._rmw,
            "red": self._rmw,
            "membar": self._fence,
            "fence": self._fence,
            "bar": self._barrier,
            "barrier": self._barrier,
            "nanosleep": self._sleep,
            "cvt": self._convert,
            "shfl": self._shuffle,
            "vote": self._vote,
        }.get(i.opcode, self._arithmetic)
        emit(depth, i)
        return outer

    def _jump(self, depth: int, case: int, target: int) -> bool:
        """Goes to another case; True if that is done by letting tests fail (the rest of the case must be skipped)."""
        low, high = self.loops[-1] if self.loops else (0, len(self.cases) - 1)
        if not low <= target <= high:
            self._line(depth, f"pc = {target}; break")
            return False
        if target <= case:
            self._line(depth, f"pc = {target}; continue")
            return False
        self._line(depth, f"pc = {target}")
        return True

    def _return(self, depth: int, i: Instruction) -> None:
        self._allow(i, {"uni"})
        self._line(depth, "return")

    def _allow(self, i: Instruction, allowed: set[str] | frozenset[str]) -> None:
        for modifier in i.modifiers:
            if modifier not in allowed:
                raise self._unknown(i, f"modifier .{modifier}")

    def _op(self, i: Instruction, code: Code, **fields: Any) -> str:
        name = f"OP{i.line}"
        self.constants[name] = Op(code, i, **fields)
        return name

    def _destination(self, i: Instruction) -> str:
        first = i.operands[0]
        if isinstance(first, Register):
            return self._register(first.name)
        raise self._unknown(i, f"destination {first}")

    def _arithmetic(self, depth: int, i: Instruction) -> None:
        expression = isa.ALU_FORMS.get(".".join((i.opcode, *i.modifiers)))
        if expression is None:
            raise self._unknown(i, f"instruction form {'.'.join((i.opcode, *i.modifiers))}")
        kind = i.type
        width = TYPE_BYTES[kind] * 8
        fields: dict[str, Any] = {
            "M": hex((1 << width) - 1),
            "M2": hex((1 << 2 * width) - 1),
            "W": width,
            "S": hex(1 << width - 1),
            "CMP": isa.COMPARISONS.get(i.modifiers[0], "") if i.modifiers else "",
        }
        for letter, operand in zip("abcd", i.operands[1:], strict=False):
            if f"{{w{letter}}}" in expression:  # an operand twice as wide as the others
                fields["w" + letter] = self._value(operand, 2 * width)
                continue
            fields[letter] = self._value(operand, width)
            if f"{{s{letter}}}" in expression:
                fields["s" + letter] = self._signed(operand, width)
            if f"{{f{letter}}}" in expression:
                fields["f" + letter] = f"bits_float({fields[letter]})"
        try:
            text = expression.format_map(fields)
        except KeyError:
            raise self._unknown(i, "number of operands") from None
        self._line(depth, f"{self._destination(i)} = {text}")

    def _convert(self, depth: int, i: Instruction) -> None:
        if len(i.modifiers) != 2 or not set(i.modifiers) <= isa.CONVERTIBLE:
            raise self._unknown(i, f"conversion cvt.{'.'.join(i.modifiers)}")
        to, source = i.modifiers
        operand = i.operands[1]
        width, source_width = TYPE_BYTES[to] * 8, TYPE_BYTES[source] * 8
        value = self._signed(operand, source_width) if source[0] == "s" else self._value(operand, source_width)
        self._line(depth, f"{self._destination(i)} = {value}&{(1 << width) - 1:#x}")

    # -- memory -------------------------------------------------------------------------------------------------

    def _access(self, i: Instruction, code: Code) -> tuple[str, bool, bool, int, int]:
        """Checks a load's or store's modifiers; (op name, strong, shared, element size, elements)."""
        if i.type not in TYPE_BYTES or i.type in ("pred", "b128"):
            raise self._unknown(i, f"type .{i.type}")
        self._allow(i, isa.SPACES | isa.SEMANTICS | isa.SCOPES | isa.CACHE_HINTS | isa.VECTORS | {i.type})
        if i.has("local", "const"):
            raise self._unknown(i, "local or constant memory")
        strong = i.has("volatile", "relaxed", "acquire", "release")
        size = TYPE_BYTES[i.type]
        count = 4 if i.has("v4") else 2 if i.has("v2") else 1
        name = self._op(
            i,
            code,
            size=size,
            count=count,
            strong=strong,
            acquire=i.has("acquire"),
            release=i.has("release"),
            scope=self._scope(i, "sys"),
            poll=self.polls.get(id(i)),
        )
        return name, strong, i.has("shared", "shared::cta"), size, count

    @staticmethod
    def _scope(i: Instruction, default: str) -> int:
        return SCOPE_ORDER[next((m for m in i.modifiers if m in isa.SCOPES), default)]

    def _load(self, depth: int, i: Instruction) -> None:
        if i.has("param"):
            return self._load_parameter(depth, i)
        name, strong, shared, size, count = self._access(i, Code.LOAD)
        destinations = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
        targets = [self._register(d.name) for d in destinations if isinstance(d, Register)]
        if len(targets) != count:
            raise self._unknown(i, "destination")
        self._line(depth, f"a = {self._address(i.operands[1])}")
        view, shift = VIEWS[size], SHIFTS[size]
        elements = ", ".join(f"m[i+{n}]" if n else "m[i]" for n in range(count))
        assignment = ", ".join(targets)
        if shared:
            self._shared_address(depth, size * count)
            self._line(depth, f"m = S{view}; i = a >> {shift}")
            self._line(depth, f"{assignment} = {elements}")
        elif strong or not self.inline_weak:
            self._line(depth, f"{assignment} = yield ({name}, a)")
        else:
            self._line(depth, f"m = L{view}.get(a >> 32)")
            misaligned = f" or a & {size * count - 1}" if size * count > 1 else ""
            self._line(depth, f"if m is None{misaligned}: {assignment} = yield ({name}, a)")
            self._line(depth, f"else: i = (a & 0xffffffff) >> {shift}; {assignment} = {elements}")
        if i.type[0] == "s":
            for target, register in zip(targets, destinations, strict=True):
                assert isinstance(register, Register)
                if self._width(register.name) > size * 8:
                    sign, mask = 1 << size * 8 - 1, (1 << self._width(register.name)) - 1
                    self._line(depth, f"{target} = (({target} ^ {sign:#x}) - {sign:#x}) & {mask:#x}")

    def _shared_address(self, depth: int, nbytes: int) -> None:
        if nbytes > 1:
            self._line(depth, f"if a & {nbytes - 1}: MC.misaligned(TH, a, {nbytes})")

    def _load_parameter(self, depth: int, i: Instruction) -> None:
        address = i.operands[1]
        names = [parameter.name for parameter in self.function.parameters]
        if not isinstance(address, Address) or not isinstance(address.base, Symbol) or address.offset:
            raise self._unknown(i, "parameter access")
        self._line(depth, f"{self._destination(i)} = P[{names.index(address.base.name)}]")

    def _store(self, depth: int, i: Instruction) -> None:
        name, strong, shared, size, count = self._access(i, Code.STORE)
        items = i.operands[1].items if isinstance(i.operands[1], Vector) else (i.operands[1],)
        values = [self._value(item, size * 8) for item in items]
        if len(values) != count:
            raise self._unknown(i, "value")
        packed = values[0] if count == 1 else f"({', '.join(values)})"
        self._line(depth, f"a = {self._address(i.operands[0])}")
        view, shift = VIEWS[size], SHIFTS[size]
        writes = "; ".join(f"m[i+{n}] = {v}" if n else f"m[i] = {v}" for n, v in enumerate(values))
        if shared:
            self._shared_address(depth, size * count)
            self._line(depth, f"m = S{view}; i = a >> {shift}; {writes}")
        elif strong or not self.inline_weak:
            self._line(depth, f"yield ({name}, a, {packed})")
        else:
            self._line(depth, f"m = L{view}.get(a >> 32)")
            misaligned = f" or a & {size * count - 1}" if size * count > 1 else ""
            self._line(depth, f"if m is None{misaligned} or a >> 4 in WATCHED: yield ({name}, a, {packed})")
            self._line(depth, f"else: i = (a & 0xffffffff) >> {shift}; {writes}")

    def _rmw(self, depth: int, i: Instruction) -> None:
        returns = i.opcode == "atom"
        kinds = [m for m in i.modifiers if m in isa.RMW]
        if len(kinds) != 1 or i.type not in ("u32", "s32", "b32", "u64", "s64", "b64"):
            raise self._unknown(i, f"read-modify-write .{'.'.join(i.modifiers)}")
        self._allow(i, isa.SPACES | isa.SEMANTICS | isa.SCOPES | {kinds[0], i.type})
        size = TYPE_BYTES[i.type]
        operands = i.operands[1:] if returns else i.operands
        values = [self._value(operand, size * 8) for operand in operands[1:]]
        b, c = values[0], values[1] if len(values) > 1 else "0"
        modify = _modifier(kinds[0], i.type)
        self._line(depth, f"a = {self._address(operands[0])}")
        if i.has("shared", "shared::cta"):
            self._shared_address(depth, size)
            function = f"RMW{i.line}"
            self.constants[function] = modify
            self._line(depth, f"m = S{VIEWS[size]}; i = a >> {SHIFTS[size]}; old = m[i]; m[i] = {function}(old, {b}, {c})")
            if returns:
                self._line(depth, f"{self._destination(i)} = old")
            return
        name = self._op(
            i,
            Code.RMW,
            size=size,
            strong=True,
            acquire=i.has("acquire", "acq_rel"),
            release=i.has("release", "acq_rel"),
            scope=self._scope(i, "gpu"),
            returns=returns,
            modify=modify,
            kind=kinds[0],
        )
        target = f"{self._destination(i)} = " if returns else ""
        self._line(depth, f"{target}yield ({name}, a, {b}, {c})")

    # -- synchronisation ----------------------------------------------------------------------------------------

    def _fence(self, depth: int, i: Instruction) -> None:
        self._allow(i, {"acq_rel", "sc", "cta", "gpu", "gl", "sys", "cluster"})
        scope = 1 if i.has("gl") else self._scope(i, "sys")
        kind = "sc" if i.opcode == "membar" or i.has("sc") else "acq_rel"
        self._line(depth, f"yield ({self._op(i, Code.FENCE, scope=scope, kind=kind)},)")

    def _barrier(self, depth: int, i: Instruction) -> None:
        if i.has("warp"):
            self._allow(i, {"warp", "sync"})
            mask = self._value(i.operands[0], 32)
            self._line(depth, f"yield ({self._op(i, Code.WARP, kind='sync')}, {mask}, 0)")
            return
        self._allow(i, {"cta", "sync", "arrive", "red", "popc", "and", "or", "aligned", "pred", "u32"})
        if not i.has("sync", "arrive") or i.has("red"):
            raise self._unknown(i, f"barrier .{'.'.join(i.modifiers)}")
        operands = [self._value(operand, 32) for operand in i.operands]
        number, count = operands[0], operands[1] if len(operands) > 1 else "0"
        kind = "arrive" if i.has("arrive") else "sync"
        self._line(depth, f"yield ({self._op(i, Code.BARRIER, kind=kind)}, {number}, {count})")

    def _sleep(self, depth: int, i: Instruction) -> None:
        self._allow(i, {"u32"})
        self._line(depth, f"yield ({self._op(i, Code.SLEEP)}, {self._value(i.operands[0], 32)})")

    def _vote(self, depth: int, i: Instruction) -> None:
        kinds = [m for m in i.modifiers if m in ("all", "any", "ballot", "uni")]
        self._allow(i, {"sync", "all", "any", "ballot", "uni", "pred", "b32"})
        if len(kinds) != 1 or len(i.operands) != 3:
            raise self._unknown(i, f"vote .{'.'.join(i.modifiers)}")
        value, mask = self._value(i.operands[1], 1), self._value(i.operands[2], 32)
        op = self._op(i, Code.WARP, kind="vote." + kinds[0])
        self._line(depth, f"{self._destination(i)} = yield ({op}, {mask}, {value})")

    def _shuffle(self, depth: int, i: Instruction) -> None:
        kinds = [m for m in i.modifiers if m in ("up", "down", "bfly", "idx")]
        self._allow(i, {"sync", "up", "down", "bfly", "idx", "b32"})
        if len(kinds) != 1 or len(i.operands) != 5:
            raise self._unknown(i, f"shuffle .{'.'.join(i.modifiers)}")
        destination, (value, lane, clamp, mask) = i.operands[0], (self._value(o, 32) for o in i.operands[1:])
        op = self._op(i, Code.WARP, kind="shfl." + kinds[0])
        request = f"yield ({op}, {mask}, ({value}, {lane}, {clamp}))"
        if isinstance(destination, Pair):
            targets = f"{self._register(destination.first.name)}, {self._register(destination.second.name)}"
            self._line(depth, f"{targets} = {request}")
        else:
            self._line(depth, f"{self._destination(i)}, _ = {request}")


def _modifier(kind: str, type_: str) -> Callable[[int, int, int], int]:
    """The function `new(old, b, c)` of one read-modify-write operation and type."""
    width = TYPE_BYTES[type_] * 8
    expression = isa.RMW[kind].replace("M", hex((1 << width) - 1))
    if type_[0] == "s" and kind in ("min", "max"):
        sign = hex(1 << width - 1)
        expression = f"{kind}(old^{sign}, b^{sign})^{sign}"
    function: Callable[[int, int, int], int] = eval(f"lambda old, b, c: {expression}", {})
    return function
