"""compare-nccl's config: which contenders, sizes and modes, how often, and how long each may take.

Must not run anything.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pcietool.contenders.catalog import CONTENDERS
from pcietool.machines.base import Backend

CompareTransport = Literal["peer", "host"]
CompareMode = Literal["in-kernel", "graph", "eager"]
MODES: tuple[CompareMode, ...] = ("in-kernel", "graph", "eager")
ELEMENT_BYTES = 4
LARGEST_BYTES = 16 << 20
_USUAL_FACTOR = 4
_USUAL_LARGEST: dict[Backend, int] = {"cuda": 1 << 20, "emulated": 256}


class CompareConfig(BaseModel):
    """What to compare. None means the machine's usual choice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    transport: Literal["peer", "host", "all"] | None = None
    contenders: tuple[str, ...] = tuple(CONTENDERS)
    modes: tuple[CompareMode, ...] = MODES
    sizes: tuple[int, ...] | None = None
    """Instead of a range."""
    min_bytes: int | None = None
    max_bytes: int | None = None
    factor: Annotated[int, Field(ge=2)] | None = None
    pairs: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Turns of each side; 7 or more give an interval."""
    nodes: Annotated[int, Field(ge=2, le=200)] | None = None
    """Operations of one graph, or launched back to back, on both sides. Many, since each side's figure has its share
    of the fixed cost of a launch."""
    timeout_s: Annotated[float, Field(gt=0)] = 2.0
    """Of a launch of ours."""
    init_timeout_s: Annotated[float, Field(gt=0, le=110)] = 60.0
    """Of a contender's start; the parent process takes 120 s of silence for a hang."""
    run_timeout_s: Annotated[float, Field(gt=0, le=110)] = 30.0
    """Of one turn of a contender."""

    @model_validator(mode="after")
    def _check(self) -> CompareConfig:
        unknown = [name for name in self.contenders if name not in CONTENDERS]
        if unknown:
            raise ValueError(f"no contender {unknown[0]!r}; there are {', '.join(CONTENDERS)}")
        if self.sizes and not (self.min_bytes is self.max_bytes is self.factor is None):
            raise ValueError("--sizes names every size; leave out --min-bytes, --max-bytes and --factor")
        for nbytes in self.sizes or [nbytes for nbytes in (self.min_bytes, self.max_bytes) if nbytes is not None]:
            if nbytes < ELEMENT_BYTES or nbytes % ELEMENT_BYTES or nbytes > LARGEST_BYTES:
                raise ValueError(f"a size of {nbytes} bytes: sizes are multiples of 4, from 4 to 16M")
        if self.max_bytes is not None and self.max_bytes < self.smallest:
            raise ValueError(f"--max-bytes {self.max_bytes} is below --min-bytes {self.smallest}")
        return self

    @property
    def smallest(self) -> int:
        return ELEMENT_BYTES if self.min_bytes is None else self.min_bytes

    def all_sizes(self, backend: Backend) -> list[int]:
        """Bytes, ascending."""
        if self.sizes:
            return sorted(set(self.sizes))
        largest = self.max_bytes or max(_USUAL_LARGEST[backend], self.smallest)
        sizes = []
        nbytes = self.smallest
        while nbytes <= largest:
            sizes.append(nbytes)
            nbytes *= self.factor or _USUAL_FACTOR
        return sizes


class Effort(BaseModel):
    """How often things run: many on a GPU, few where every instruction is emulated."""

    pairs: int
    rounds: int
    """Inside one kernel."""
    nodes: int
    replays: int
    """Of a graph, or of launches back to back, in one turn; one more is not counted."""

    @classmethod
    def of(cls, backend: Backend, config: CompareConfig) -> Effort:
        usual = (
            cls(pairs=11, rounds=8000, nodes=100, replays=5)
            if backend == "cuda"
            else cls(pairs=1, rounds=30, nodes=20, replays=1)
        )
        return usual.model_copy(update={"pairs": config.pairs or usual.pairs, "nodes": config.nodes or usual.nodes})
