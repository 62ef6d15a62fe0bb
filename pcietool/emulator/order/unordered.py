"""The report of random order: accesses that nothing orders, by pair of instructions.

Must only describe; what counts as ordered is decided by `random_order`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pcietool.contract.outcomes import UnorderedAccess
from pcietool.emulator.memory import Memory
from pcietool.emulator.ops import Op
from pcietool.emulator.order.history import Access, address_of


class Report:
    """Of each pair of instructions the first occurrence, and how many there were."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.found: dict[tuple[str, Op | str, Op | str], UnorderedAccess] = {}

    def add(self, kind: Literal["read", "overwrite"], access: Access, piece: int, by: Access) -> None:
        """`access` met `by`, the write or read of another agent, on the same bytes, and nothing orders the two."""
        pair = (kind, access.source, by.source)
        before = self.found.get(pair)
        if before is not None:
            self.found[pair] = replace(before, count=before.count + 1)
            return
        device, block, thread = access.agent.writer
        self.found[pair] = UnorderedAccess(
            kind=kind,
            device=device,
            block=block,
            thread=thread,
            source=_where(access.source),
            address=self.memory.describe(address_of(piece)),
            by=by.agent.name,
            by_source=_where(by.source),
            count=1,
        )

    def take(self) -> tuple[UnorderedAccess, ...]:
        """What was found since the last call, in the order of first occurrence."""
        found, self.found = tuple(self.found.values()), {}
        return found


def _where(source: Op | str) -> str:
    return source if isinstance(source, str) else source.where()
