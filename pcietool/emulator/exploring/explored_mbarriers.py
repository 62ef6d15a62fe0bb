"""Mbarriers as the memory model sees them: a word of shared memory, arriving an RMW of it that releases, waiting a load
that acquires.

Must not know where it is, nor who arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pcietool.emulator import mbarriers
from pcietool.errors import EmulationError
from pcietool.litmus.model import requests


def mbarrier_request(
    text: str,
    access: dict[str, Any],
    kind: str,
    operand: int,
    times: Sequence[int],
    split: Callable[[Sequence[int]], requests.Values],
    unknown: EmulationError,
) -> requests.Access:
    """`access`: the word, as cells; `split`: its value by cell. `operand`: arrivals expected, or the phase waited for;
    `times`: how often to arrive. `unknown` is raised if there is no mbarrier when that matters."""

    def content(values: requests.Values) -> int:
        whole: int = access["join"](values) if access["join"] else values[0]
        if not whole:
            raise unknown
        return whole

    def phase(values: requests.Values) -> int:
        return mbarriers.phase_of(content(values))

    match kind:
        case "init":
            return requests.Store(text, **access, values=split([mbarriers.word(0, operand, operand)]))
        case "inval":
            return requests.Store(text, **access, values=split([0]))
        case "arrive":
            return requests.Rmw(
                text, **access | {"join": phase}, modify=lambda old: split([mbarriers.arrived(content(old), times[0])])
            )
    return requests.Load(text, **access | {"join": lambda values: phase(values) != operand & 1})
