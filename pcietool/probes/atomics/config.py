"""What atomic-loss is asked to count with. Must not touch a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pcietool.contract.config import Config, Option
from pcietool.errors import UsageError
from pcietool.probes.common.injections import checked
from pcietool.probes.common.options import Inject, TimeoutSeconds, WantedTransport

Operation = Literal["add", "inc", "dec", "cas", "exch", "min", "max", "and", "or", "xor"]
Kind = Literal["atom", "red"]
Scope = Literal["sys", "gpu"]
MOST_BLOCKS = 65_535
"""More than any GPU has at once."""
_COUNTING = "Counting"


@dataclass(frozen=True)
class Grid:
    """How many threads of each GPU count at once."""

    blocks: int
    threads: int

    @classmethod
    def parse(cls, text: str) -> Grid:
        """Of "64x256". Raises UsageError."""
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text, re.ASCII)
        if match is None:
            raise UsageError(f"--concurrency {text}: write it as blocks x threads of each GPU, such as 64x256")
        blocks, threads = (int(digits[:10]) for digits in match.groups())
        if blocks > MOST_BLOCKS:
            raise UsageError(f"--concurrency {text}: too many blocks, no GPU has more than {MOST_BLOCKS:,} at once")
        return cls(blocks, threads)

    @property
    def size(self) -> int:
        return self.blocks * self.threads

    def __str__(self) -> str:
        return f"{self.blocks}x{self.threads}"


@dataclass(frozen=True, kw_only=True)
class AtomicsConfig(Config):
    """What to count with. `iterations` and `concurrency` of None mean the machine's usual ones."""

    transport: WantedTransport = None
    iterations: Annotated[
        int | None,
        Option(
            "Operations of each thread. Default: fewer the more threads; 20 to 2000 on GPUs, 8 to 128 emulated.",
            name="--iters",
            short="-n",
            min=1,
            ceiling=100_000_000,
        ),
    ] = None
    operations: Annotated[
        tuple[Operation, ...],
        Option("What to count with; can be repeated. Default: add.", name="--operation", group=_COUNTING),
    ] = ("add",)
    kinds: Annotated[
        tuple[Kind, ...],
        Option(
            "With its result used (atom) or without one (red); can be repeated. Default: both.",
            name="--kind",
            group=_COUNTING,
        ),
    ] = ("atom", "red")
    scopes: Annotated[tuple[Scope, ...], Option("Can be repeated. Default: both.", name="--scope", group=_COUNTING)] = (
        "sys",
        "gpu",
    )
    concurrency: Annotated[
        tuple[str, ...] | None,
        Option(
            "Threads of each GPU; can be repeated. Default: 1x1 to 64x256 on GPUs, 1x1 and 2x32 emulated.",
            short="-c",
            metavar="BLOCKSxTHREADS",
            group=_COUNTING,
        ),
    ] = None
    home: Annotated[
        int, Option("GPU whose memory holds the word (peer); 0 is the first of --gpus.", group=_COUNTING, min=0)
    ] = 0
    timeout_s: TimeoutSeconds = 2.0
    inject: Inject = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for text in self.concurrency or ():
            Grid.parse(text)
        if self.transport and not {"peer", "all"} & set(self.transport.split(",")):
            self._refuse_idle(("home",), f"--transport {self.transport} has no word in another GPU's memory")
        note = " (blocks only wait at the start, for other GPUs: beyond-residency, drop-signal and stall do not apply)"
        checked(self.inject, ("dead-rank",), note)
