"""What a thread asks of the engine: one constant Op an instruction, built once at load time; and what is written.

A generated thread yields tuples `(op, address, operands...)`. Ops are data only; what they cost and do is the
engine's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pcietool.emulator.memory import Place
from pcietool.ptx.model import Instruction


class Code:
    """Index into the engine's handlers. Plain integers: reading and comparing members of an Enum costs far more."""

    LOAD = 0
    STORE = 1
    RMW = 2
    FENCE = 3
    BARRIER = 4
    WARP = 5
    SLEEP = 6
    WORK = 7
    BULK = 8
    MBARRIER = 9
    GRID = 10


SCOPES: Mapping[str, int] = {"cta": 0, "cluster": 0, "gpu": 1, "sys": 2}
"""How far each reaches."""


@dataclass(frozen=True)
class Poll:
    """One load that polls in wait loop number `loop`."""

    loop: int
    carried: tuple[str, ...]
    """Registers that decide, beside what the loads of a turn return, where the turn leads. Two turns that begin here
    with the same values there, and see the same, are the same, but for timers and what counts turns."""
    counts: bool
    """Does it matter behind the loop how many turns it took?"""
    alone: bool
    """Is it all that the loop looks at?"""


@dataclass(slots=True, eq=False)
class Op:
    """One memory or synchronisation instruction.

    `size` bytes an element, `count` elements. `scope` is one of SCOPES. `poll` numbers the wait loop that a load
    belongs to (None: not polled), `carried` the variables of its thread that decide where a turn of that loop leads;
    the loop `counts` its turns, `alone`: it looks at nothing else. `returns`: somebody reads the result.
    `modify(old, b, c)` is an RMW's new value.
    """

    code: int
    instruction: Instruction
    size: int = 0
    count: int = 1
    strong: bool = False
    acquire: bool = False
    release: bool = False
    scope: int = 2
    poll: int | None = None
    carried: tuple[str, ...] = ()
    counts: bool = False
    alone: bool = True
    returns: bool = False
    modify: Callable[[int, int, int], int] | None = None
    coherent: bool = True
    """False for loads through the non-coherent path."""
    kind: str = ""
    """Which warp or barrier operation, or fence ("acq_rel", "sc")."""

    bytes: int = field(init=False)
    """All elements together."""

    def __post_init__(self) -> None:
        self.bytes = self.size * self.count

    def where(self) -> str:
        """The instruction, for messages: source line if known, and the PTX line."""
        return located(self.instruction)


Write: TypeAlias = tuple[Any, Place, Any]
"""What is written: (op, place, value). `op` is None for what no thread writes but a copy engine or the host; `value` an
integer, several of a vector, or bytes."""
Stamp: TypeAlias = Any
"""What a memory order wants to know of an access when it lands; made when it is issued. The engine only carries it."""


def located(instruction: Instruction) -> str:
    """An instruction for messages: source line if known, and the PTX line."""
    ptx = f"PTX line {instruction.line}: {instruction.text}"
    return f"{instruction.source} ({ptx})" if instruction.source else ptx
