"""What the [fault] table of a fabric file can say: the one defect of a modelled machine, and how bad it is.

Must not know what a defect does to traffic (`defects`).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

GpuNumber = Annotated[int, Field(ge=0)]
Nanoseconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class Strict(BaseModel):
    """A table in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _OfPair(Strict):
    """A defect of the link between two GPUs, in both directions."""

    gpus: tuple[GpuNumber, GpuNumber]

    @model_validator(mode="after")
    def _two_gpus(self) -> _OfPair:
        if self.gpus[0] == self.gpus[1]:
            raise ValueError("gpus must name two different GPUs, the ends of the link")
        return self

    def has(self, src: int, dst: int) -> bool:
        return {src, dst} == set(self.gpus)

    def named(self) -> tuple[int, ...]:
        return self.gpus


class _OfAllPeers(Strict):
    """A defect of every link between two GPUs."""

    def named(self) -> tuple[int, ...]:
        return ()


class DroppedWrites(_OfAllPeers):
    """A share of the posted writes never lands, by seed. Fences still complete: they wait for a read."""

    kind: Literal["dropped-writes"]
    share: Annotated[float, Field(gt=0, le=1)]


class PrivateMirror(_OfAllPeers):
    """What a GPU accesses of another one's memory is a copy of its own: it reads back what it wrote, and the owner
    never sees it."""

    kind: Literal["private-mirror"]


class DeadDirection(Strict):
    """Nothing that `writer` stores to `owner` lands; reads, and the other direction, work."""

    kind: Literal["dead-direction"]
    writer: GpuNumber
    owner: GpuNumber

    @model_validator(mode="after")
    def _has_a_direction(self) -> DeadDirection:
        if self.writer == self.owner:
            raise ValueError(f"writer and owner are both GPU {self.writer}: a direction has two ends")
        return self

    def named(self) -> tuple[int, ...]:
        return self.writer, self.owner


class CorruptBeyond(_OfAllPeers):
    """A store has its lowest bit flipped if the writer has sent more than `bytes` to the same GPU, this store
    included, without a pause of `pause_ns`."""

    kind: Literal["corrupt-beyond"]
    bytes: Annotated[int, Field(ge=1)]
    pause_ns: Nanoseconds


class StuckLink(_OfPair):
    """From `from_ns` on nothing crosses any more: stores never land, reads and fences that wait for it never end."""

    kind: Literal["stuck-link"]
    from_ns: Nanoseconds


class SlowLink(_OfPair):
    """All latencies of one pair are `times` longer, and its bandwidth that much lower."""

    kind: Literal["slow-link"]
    times: Annotated[float, Field(ge=1, le=1e6)]


class RelaxedOrdering(_OfAllPeers):
    """Weak stores and bulk copies are late by up to `late_ns`, by seed, and strong stores overtake them. Reads push
    all of them, and what a release orders is acknowledged before it."""

    kind: Literal["relaxed-ordering"]
    late_ns: Nanoseconds


class AllOnesReads(Strict):
    """Reads by `gpu`, or of its memory, return all ones wherever they cross a link; so do atomics, and they change
    nothing. Stores land."""

    kind: Literal["all-ones-reads"]
    gpu: GpuNumber

    def named(self) -> tuple[int, ...]:
        return (self.gpu,)


Fault: TypeAlias = (
    DroppedWrites
    | PrivateMirror
    | DeadDirection
    | CorruptBeyond
    | StuckLink
    | SlowLink
    | RelaxedOrdering
    | AllOnesReads
)
