"""Random structured programs: the same one as PTX text, in several block layouts, and as a Python interpretation.

A program works on four 32-bit registers. Statements are tuples:
    ("set", d, a, b, operation)    d = a operation b
    ("if", r, then, otherwise)     on bit 0 of register r
    ("loop", count, body)          count times
    ("break", r, levels)           out of 1 or 2 loops if bit 1 of register r is set
    ("return", r)                  if bit 2 of register r is set
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

Program = list[Any]
"""Of statements."""
REGISTERS = 4
OPERATIONS = {
    "add.u32": lambda a, b: a + b & 0xFFFFFFFF,
    "sub.u32": lambda a, b: a - b & 0xFFFFFFFF,
    "mul.lo.u32": lambda a, b: a * b & 0xFFFFFFFF,
    "xor.b32": lambda a, b: a ^ b,
}

registers = st.integers(0, REGISTERS - 1)
assignments = st.tuples(st.just("set"), registers, registers, registers, st.sampled_from(sorted(OPERATIONS)))
jumps = st.one_of(
    st.tuples(st.just("break"), registers, st.integers(1, 2)),
    st.tuples(st.just("return"), registers),
)


def _blocks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(inner, max_size=4)


statements = st.recursive(
    st.one_of(assignments, assignments, jumps),
    lambda inner: st.one_of(
        st.tuples(st.just("if"), registers, _blocks(inner), _blocks(inner)),
        st.tuples(st.just("loop"), st.integers(0, 3), _blocks(inner)),
    ),
    max_leaves=20,
)
programs = st.lists(statements, min_size=1, max_size=6)


class _Break(Exception):
    def __init__(self, levels: int) -> None:
        self.levels = levels


class _Return(Exception):
    pass


def interpret(program: Program, values: Sequence[int]) -> tuple[list[int], int]:
    """The registers at the end, and how many assignments were made."""
    state = [*values]
    steps = 0

    def run(body: Program, depth: int) -> None:
        nonlocal steps
        for statement in body:
            match statement:
                case ("set", d, a, b, operation):
                    state[d] = OPERATIONS[operation](state[a], state[b])
                    steps += 1
                case ("if", r, then, otherwise):
                    run(then if state[r] & 1 else otherwise, depth)
                case ("loop", count, inner):
                    try:
                        for _ in range(count):
                            run(inner, depth + 1)
                    except _Break as jump:
                        if jump.levels > 1:
                            raise _Break(jump.levels - 1) from None
                case ("break", r, levels) if depth and state[r] & 2:
                    raise _Break(min(levels, depth))
                case ("return", r) if state[r] & 4:
                    raise _Return

    with suppress(_Return):
        run(program, 0)
    return state, steps


class Writer:
    """Writes a program as PTX. Blocks are lists of lines that end with an unconditional jump or return, so they can
    stand in any order behind the first."""

    def __init__(self) -> None:
        self.blocks: dict[str, list[str]] = {}
        self.counters = 0

    def label(self) -> str:
        name = f"L{len(self.blocks)}"
        self.blocks[name] = []
        return name

    def body(self, statements_: Program, current: str, loops: list[str]) -> str:
        """Appends to block `current`; returns the block in which the text goes on."""
        for statement in statements_:
            match statement:
                case ("set", d, a, b, operation):
                    self.blocks[current] += [f"{operation} %v{d}, %v{a}, %v{b};", "add.u32 %steps, %steps, 1;"]
                case ("if", r, then, otherwise):
                    yes, no, end = self.label(), self.label(), self.label()
                    self.branch(current, r, 1, yes, no)
                    for start, part in ((yes, then), (no, otherwise)):
                        self.blocks[self.body(part, start, loops)].append(f"bra {end};")
                    current = end
                case ("loop", count, inner):
                    current = self.loop(count, inner, current, loops)
                case ("break", r, levels) if loops:
                    on = self.label()
                    self.branch(current, r, 2, loops[-min(levels, len(loops))], on)
                    current = on
                case ("return", r):
                    self.blocks[current] += [f"and.b32 %t, %v{r}, 4;", "setp.ne.u32 %q, %t, 0;", *self.leave("@%q ")]
        return current

    def branch(self, current: str, r: int, bit: int, yes: str, no: str) -> None:
        self.blocks[current] += [
            f"and.b32 %t, %v{r}, {bit};",
            "setp.ne.u32 %q, %t, 0;",
            f"@!%q bra {no};",
            f"bra.uni {yes};",
        ]

    def loop(self, count: int, inner: Program, current: str, loops: list[str]) -> str:
        counter, self.counters = f"%c{self.counters}", self.counters + 1
        head, body, end = self.label(), self.label(), self.label()
        self.blocks[current] += [f"mov.u32 {counter}, {count};", f"bra {head};"]
        self.blocks[head] += [f"setp.eq.u32 %q, {counter}, 0;", f"@%q bra {end};", f"bra {body};"]
        last = self.body(inner, body, [*loops, end])
        self.blocks[last] += [f"sub.u32 {counter}, {counter}, 1;", f"bra {head};"]
        return end

    @staticmethod
    def leave(guard: str) -> list[str]:
        """Stores everything (under the guard) and returns."""
        stores = [f"{guard}st.global.u32 [%b+{4 * r}], %v{r};" for r in range(REGISTERS)]
        return [*stores, f"{guard}st.global.u32 [%b+{4 * REGISTERS}], %steps;", f"{guard}ret;"]

    def text(self, program: Program, order: Callable[[list[str]], list[str]]) -> str:
        """`order(labels)` says in which order the blocks behind the first stand."""
        start = self.label()
        self.blocks[start] += [f"ld.global.u32 %v{r}, [%a+{4 * r}];" for r in range(REGISTERS)]
        self.blocks[start].append("mov.u32 %steps, 0;")
        self.blocks[self.body(program, start, [])] += self.leave("")
        labels = [start, *order([label for label in self.blocks if label != start])]
        return "\n".join(line for label in labels for line in (f"{label}:", *self.blocks[label]))

    @property
    def registers(self) -> str:
        return f".reg .b32 %v<{REGISTERS}>, %c<{self.counters + 1}>, %t, %steps;\n.reg .pred %q;"
