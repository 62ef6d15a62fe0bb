"""How many bits the registers of a column have, and that its constants fit. Must not know how text is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pcietool.litmus.text.lexer import LitmusCursor
from pcietool.litmus.text.program import Arithmetic, Branch, Instruction, Operand, Rmw, Store, wrapped
from pcietool.ptx.lexer import Token


class Widths:
    """`wide`: registers that an access of 8 bytes or an operation of 64 bits makes so."""

    def __init__(self, cursor: LitmusCursor, wide: set[int]) -> None:
        self._cursor = cursor
        self._wide = wide

    def widen(self, code: Iterable[Instruction]) -> None:
        """What is computed from a wide register is wide."""
        sums = [one for one in code if isinstance(one, Arithmetic)]
        while grown := {one.register for one in sums if self._is_wide(one.left, one.right)} - self._wide:
            self._wide |= grown

    def fitted(self, one: Instruction, opcode: Token) -> Instruction:
        """With its constants as signed numbers of the bits it works on. Raises for one that does not fit."""
        match one:
            case Store():
                values = tuple(self._constant(value, 8 * one.part.size, opcode) for value in one.values)
                return replace(one, values=values)
            case Rmw():
                bits = 8 * one.part.size
                expected = one.expected and self._constant(one.expected, bits, opcode)
                return replace(one, value=self._constant(one.value, bits, opcode), expected=expected)
            case Arithmetic():
                bits = 64 if one.register in self._wide else 32
                left, right = (self._constant(operand, bits, opcode) for operand in (one.left, one.right))
                return replace(one, left=left, right=right)
            case Branch():
                bits = 64 if self._is_wide(one.left, one.right) else 32
                left, right = (self._constant(operand, bits, opcode) for operand in (one.left, one.right))
                return replace(one, left=left, right=right)
        return one

    def _is_wide(self, *operands: Operand) -> bool:
        return any(operand.register in self._wide for operand in operands)

    def _constant(self, operand: Operand, bits: int, opcode: Token) -> Operand:
        if operand.register is not None:
            return operand
        return operand._replace(constant=fitting(self._cursor, operand.constant, bits, opcode))


def fitting(cursor: LitmusCursor, value: int, bits: int, at: Token) -> int:
    """`value` as a signed number. Raises if it has more bits, signed or not."""
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise cursor.error(f"{value} does not fit {bits} bits", at)
    return wrapped(value, bits)
