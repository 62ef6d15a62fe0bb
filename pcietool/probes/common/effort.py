"""How much is measured: what is usual on each kind of machine, or what was asked for instead.

Many rounds on a GPU, few where every instruction is emulated. Must not run anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pcietool.machines.base import Machine

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

E = TypeVar("E", bound="DataclassInstance")


def effort_for(machine: Machine, *, cuda: E, emulated: E, **asked: Any) -> E:
    """The usual effort of this kind of machine, with each field that was `asked` for and is not None."""
    usual = cuda if machine.backend == "cuda" else emulated
    return replace(usual, **{name: value for name, value in asked.items() if value is not None})


def split_rounds(total: int, most: int, launches: int) -> tuple[int, int]:
    """(rounds of a launch, launches): `total` rounds, in more than `launches` launches if one holds only `most`."""
    rounds = min(total, most)
    return rounds, max(launches, -(-total // rounds))
