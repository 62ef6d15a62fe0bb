"""Which registers an operand names. What an instruction does with them is the emulator's business."""

from __future__ import annotations

from collections.abc import Iterator

from pcietool.ptx.model import Address, Negated, Operand, Pair, Register, Vector


def registers_in(operand: Operand) -> Iterator[str]:
    """Names of all registers an operand reads (or, as a destination, writes)."""
    match operand:
        case Register(name) | Negated(Register(name)):
            yield name
        case Address(base, coordinates=coordinates):
            yield from registers_in(base)
            yield from registers_in(coordinates) if coordinates is not None else ()
        case Vector(items):
            yield from (item.name for item in items if isinstance(item, Register))
        case Pair(first, second):
            yield from (first.name, second.name)
