"""What signal-latency is asked to measure, and how much of it each kind of machine does. Must not touch a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pcietool.machines.base import Backend
from pcietool.probes.common.injections import checked
from pcietool.probes.common.world import Transport
from pcietool.probes.signal.ping_pong import MAX_ROUNDS, WORD, Bulk, Load, Poll, Wait

INJECTIONS = ("dead-rank", "drop-signal", "corrupt-payload", "early-signal", "stall=US")
Pairing = Literal["isolated", "disjoint", "all"]
"""Which pairs take turns in one launch: one, as many as share no GPU, or every ordered pair."""
LOADS: tuple[Load, ...] = ("push", "pull", "both")
LARGEST_PAYLOAD = 64 * 1024
Nanoseconds = Annotated[int, Field(ge=0, le=1_000_000)]
PayloadBytes = Annotated[int, Field(ge=WORD, le=LARGEST_PAYLOAD, multiple_of=WORD)]


class SignalConfig(BaseModel):
    """None means the machine's usual choice. The first of `polls`, `waits` and `nanosleeps_ns` is the base with which
    the others are compared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    transport: Transport | Literal["all"] | None = None
    iterations: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    warmup: Annotated[int, Field(ge=0, le=MAX_ROUNDS // 2)] | None = None
    launches: Annotated[int, Field(ge=1)] | None = None
    timeout_s: Annotated[float, Field(gt=0)] = 2.0
    polls: Annotated[tuple[Poll, ...], Field(min_length=1)] = ("local", "remote")
    waits: Annotated[tuple[Wait, ...], Field(min_length=1)] = ("acquire", "relaxed-fence", "acquire-polls")
    nanosleeps_ns: Annotated[tuple[Nanoseconds, ...], Field(min_length=1)] = (0, 20, 64)
    pairings: tuple[Pairing, ...] = ("isolated", "disjoint", "all")
    load: Load | Literal["all"] = "none"
    min_bytes: PayloadBytes = WORD
    max_bytes: PayloadBytes | None = None
    factor: Annotated[int, Field(ge=2)] = 8
    inject: str | None = None

    @field_validator("inject")
    @classmethod
    def _known(cls, inject: str | None) -> str | None:
        return checked(inject, INJECTIONS)

    @field_validator("polls", "waits", "nanosleeps_ns", "pairings")
    @classmethod
    def _once_each(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(dict.fromkeys(values))

    @model_validator(mode="after")
    def _sizes_are_a_range(self) -> SignalConfig:
        if self.max_bytes is not None and self.max_bytes < self.min_bytes:
            raise ValueError(f"--max-bytes {self.max_bytes} is below --min-bytes {self.min_bytes}")
        return self

    @property
    def loads(self) -> tuple[Load, ...]:
        if self.load == "none":
            return ()
        return LOADS if self.load == "all" else (self.load,)


@dataclass(frozen=True)
class Effort:
    """How much is measured: much on a GPU, little where every instruction is emulated."""

    rounds: int
    warmup: int
    launches: int
    largest_payload: int
    pollers: tuple[int, ...]
    """How many blocks poll across the link while bulk data is pushed over it."""
    bulk: Bulk
    most_loaded_rounds: int
    """Of one launch under load: every byte of the load is emulated too."""

    @classmethod
    def of(cls, backend: Backend, config: SignalConfig) -> Effort:
        if backend == "cuda":
            usual = cls(1000, 20, 9, LARGEST_PAYLOAD, (0, 1, 64), Bulk(32, 512, 65536, 128), MAX_ROUNDS)
        else:
            usual = cls(10, 2, 2, 1024, (0, 1, 64), Bulk(4, 64, 4096, 8), 3)
        warmup = usual.warmup if config.warmup is None else config.warmup
        total = config.iterations or usual.rounds
        rounds = min(total, MAX_ROUNDS - warmup)
        launches = max(config.launches or usual.launches, -(-total // rounds))
        largest = config.max_bytes or max(usual.largest_payload, config.min_bytes)
        return replace(usual, rounds=rounds, warmup=warmup, launches=launches, largest_payload=largest)

    def under_load(self) -> Effort:
        if self.rounds <= self.most_loaded_rounds:
            return self
        return replace(self, rounds=self.most_loaded_rounds, warmup=1, launches=1)

    def payloads(self, config: SignalConfig) -> list[int]:
        """Bytes: the smallest times powers of the factor, and always the largest."""
        sizes, nbytes = {self.largest_payload}, config.min_bytes
        while nbytes < self.largest_payload:
            sizes.add(nbytes)
            nbytes *= config.factor
        return sorted(sizes)
