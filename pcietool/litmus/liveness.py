"""Which registers of a litmus thread still matter where: those that can reach an access, a branch or the question.

What only feeds itself, such as the counter of a loop that nobody looks at, does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pcietool.litmus.text.program import Arithmetic, Barrier, Branch, Instruction, Load, Operand, Rmw, Store


def live_before(code: Sequence[Instruction], asked: Iterable[int]) -> list[frozenset[int]]:
    """At each position, and at the end, where those that are `asked` for matter."""
    live: list[frozenset[int]] = [frozenset()] * len(code) + [frozenset(asked)]
    grows = True
    while grows:
        grows = False
        for at in reversed(range(len(code))):
            before = _before(code[at], live[at + 1], live)
            grows = grows or before != live[at]
            live[at] = before
    return live


def _before(one: Instruction, after: frozenset[int], live: Sequence[frozenset[int]]) -> frozenset[int]:
    match one:
        case Branch():
            return after | live[one.target] | _registers(one.left, one.right)
        case Arithmetic():
            matters = one.register in after or one.text.startswith("div")  # which may fail
            return after - {one.register} | _registers(one.left, one.right) if matters else after
        case Load():
            return after - set(one.registers)
        case Store():
            return after | _registers(*one.values)
        case Rmw():
            kept = after if one.register is None else after - {one.register}
            return kept | _registers(one.value, one.expected)
        case Barrier():
            return after | _registers(one.barrier, one.quorum)
    return after


def _registers(*operands: Operand | None) -> frozenset[int]:
    return frozenset(operand.register for operand in operands if operand is not None and operand.register is not None)
