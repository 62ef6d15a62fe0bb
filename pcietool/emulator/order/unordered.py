"""The report of random order: accesses that nothing orders, by pair of instructions, those that matter first.

Must only describe; what counts as ordered is decided by `weak_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

from pcietool.contract.outcomes import Effect, UnorderedAccess
from pcietool.emulator.memory import shown
from pcietool.emulator.ops import Op
from pcietool.emulator.order.history import Access, address_of

Kind = Literal["read", "overwrite"]
EFFECTS = get_args(Effect)


class Report:
    """Of each pair of instructions the first occurrence with the gravest effect, and how many there were. `describe`:
    an address, as a person reads it."""

    def __init__(self, describe: Callable[[int], str]) -> None:
        self.describe = describe
        self.found: dict[tuple[str, Op | str, Op | str], UnorderedAccess] = {}

    def add(
        self, kind: Kind, access: Access, piece: int, by: Access, others_piece: int, effect: Effect, mend: str = ""
    ) -> None:
        """`access` met `by`, the write or read of another agent, on the same bytes, and nothing orders the two.
        `mend`: what would order them, if that is known."""
        pair = (kind, access.source, by.source)
        before = self.found.get(pair)
        if before is not None and EFFECTS.index(before.effect) <= EFFECTS.index(effect):
            self.found[pair] = replace(before, count=before.count + 1)
            return
        device, block, thread = shown(access.agent.writer)
        self.found[pair] = UnorderedAccess(
            kind=kind,
            device=device,
            block=block,
            thread=thread,
            source=_where(access.source),
            address=self.describe(address_of(piece)),
            by=by.agent.name,
            by_source=_where(by.source),
            count=before.count + 1 if before is not None else 1,
            effect=effect,
            mend=mend or _mend(access, piece, by, others_piece),
        )

    def take(self) -> tuple[UnorderedAccess, ...]:
        """What was found since the last call: the gravest first, among equals in the order of first occurrence."""
        found = sorted(self.found.values(), key=lambda one: EFFECTS.index(one.effect))
        self.found = {}
        return tuple(found)


def _mend(access: Access, piece: int, by: Access, others_piece: int) -> str:
    """What would order the two."""
    a, b = access.agent, by.agent
    if b.copies:
        return "wait for the copy (its mbarrier, or cp.async.bulk.wait_group) before the second"
    if b.fetches:
        own = a.writer == b.writer
        return f"cp.async.wait_group, or wait_all{'' if own else ', then __syncthreads()'} between the two"
    (device, block, _), (other_device, other_block, _) = a.writer, b.writer
    scope = "sys" if device != other_device or block < 0 or other_block < 0 else "gpu"
    proxy = ", and fence.proxy.async before the copy" if a.copies else ""
    if access.strong and by.strong:
        return f"accesses of .{scope} scope" if piece == others_piece else "accesses of the same size on both sides"
    if (device, block) == (other_device, other_block) and block >= 0:
        return f"__syncthreads() or __syncwarp() between the two{proxy}"
    return f"release behind the first and acquire before the second, of .{scope} scope{proxy}"


def _where(source: Op | str) -> str:
    return source if isinstance(source, str) else source.where()
