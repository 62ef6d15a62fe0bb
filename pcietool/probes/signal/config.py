"""What signal-latency is asked to measure. Must not touch a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pcietool.contract.config import Config, Limits, Option
from pcietool.errors import UsageError
from pcietool.probes.common.injections import checked
from pcietool.probes.common.options import MAX_ROUNDS, Inject, TimeoutSeconds, WantedTransport
from pcietool.units import parse_size

INJECTIONS = ("dead-rank", "drop-signal", "corrupt-payload", "early-signal", "stall=US")
Poll = Literal["local", "remote"]
"""Where the slot lies that a block polls: with the block itself, or across the link with the one who writes it."""
POLLS: tuple[Poll, ...] = ("local", "remote")
Wait = Literal["acquire", "relaxed-fence", "acquire-polls"]
Pairing = Literal["isolated", "disjoint", "all"]
"""Which pairs take turns in one launch: one, as many as share no GPU, or every ordered pair."""
Load = Literal["none", "push", "pull", "both"]
LOADS: tuple[Load, ...] = ("push", "pull", "both")
WORD = 8
"""Bytes of a payload's word."""
LARGEST_PAYLOAD = 64 * 1024
_SIGNAL = "Signal"
_PAYLOAD = "Payload"


def _polls(word: str) -> tuple[str, ...]:
    return POLLS if word == "all" else (word,)


@dataclass(frozen=True, kw_only=True)
class SignalConfig(Config):
    """None means the machine's usual choice. The first of `polls`, `waits` and `nanosleeps_ns` is the base with which
    the others are compared."""

    transport: WantedTransport = None
    iterations: Annotated[
        int | None,
        Option(
            "Rounds of one kernel that are measured. Default: 1000 on GPUs, 10 emulated.",
            name="--iters",
            short="-n",
            min=1,
            ceiling=10_000_000,
        ),
    ] = None
    warmup: Annotated[
        int | None,
        Option(
            "Rounds before that, which are not. Default: 20 on GPUs, 2 emulated.",
            short="-w",
            min=0,
            ceiling=MAX_ROUNDS // 2,
        ),
    ] = None
    launches: Annotated[int | None, Limits(min=1)] = None
    timeout_s: TimeoutSeconds = 2.0
    polls: Annotated[
        tuple[Poll, ...],
        Option(
            "Slots with the one who waits, or across the link with the one who writes (peer).",
            name="--poll",
            choices=(*POLLS, "all"),
            parse=_polls,
            written="all",
            group=_SIGNAL,
        ),
    ] = POLLS
    waits: Annotated[
        tuple[Wait, ...], Option("How to wait; can be repeated. Default: all.", name="--wait", group=_SIGNAL)
    ] = ("acquire", "relaxed-fence", "acquire-polls")
    nanosleeps_ns: Annotated[
        tuple[int, ...],
        Option(
            "Nanoseconds between polls; can be repeated. Default: 0, 20 and 64.",
            name="--nanosleep",
            group=_SIGNAL,
            min=0,
            max=1_000_000,
        ),
    ] = (0, 20, 64)
    pairings: Annotated[
        tuple[Pairing, ...],
        Option(
            "Pairs that play at once: one, those that share no GPU, all; can be repeated. Default: each in turn.",
            name="--pairs",
            group=_SIGNAL,
        ),
    ] = ("isolated", "disjoint", "all")
    load: Annotated[
        Literal["none", "push", "pull", "both", "all"],
        Option("Bulk traffic on the same links meanwhile; all: each in turn.", group=_SIGNAL),
    ] = "none"
    min_bytes: Annotated[
        int,
        Option(
            "Smallest payload.",
            short="-b",
            metavar="SIZE",
            parse=parse_size,
            group=_PAYLOAD,
            min=WORD,
            max=LARGEST_PAYLOAD,
            multiple_of=WORD,
        ),
    ] = WORD
    max_bytes: Annotated[
        int | None,
        Option(
            "Largest payload, at most 64K. Default: 64K on GPUs, 1K emulated.",
            short="-e",
            metavar="SIZE",
            parse=parse_size,
            group=_PAYLOAD,
            min=WORD,
            max=LARGEST_PAYLOAD,
            multiple_of=WORD,
        ),
    ] = None
    factor: Annotated[int, Option("From one size to the next.", short="-f", group=_PAYLOAD, min=2)] = 8
    inject: Inject = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.inject, INJECTIONS)
        if not (self.polls and self.waits and self.nanosleeps_ns):
            raise UsageError("--poll, --wait and --nanosleep need one choice each, with which others are compared")
        if self.transport and not {"peer", "all"} & set(self.transport.split(",")):
            self._refuse_idle(("polls",), f"--transport {self.transport} has slots in one place")
        if self.max_bytes is not None and self.max_bytes < self.min_bytes:
            raise UsageError(f"--max-bytes {self.max_bytes} is below --min-bytes {self.min_bytes}")

    @property
    def loads(self) -> tuple[Load, ...]:
        if self.load == "none":
            return ()
        return LOADS if self.load == "all" else (self.load,)
