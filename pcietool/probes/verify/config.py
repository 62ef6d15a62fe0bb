"""What verify is asked to prove. Must not touch a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pcietool.contract.config import Config, Option
from pcietool.errors import UsageError
from pcietool.probes.common.injections import checked
from pcietool.probes.common.options import Inject, Seed, TimeoutSeconds, WantedTransport
from pcietool.protocol.distributions import DISTRIBUTIONS, Distribution
from pcietool.units import parse_size

EntryName = Literal["signal", "barrier", "dispatch", "combine", "gate", "end-to-end"]
ENTRIES: tuple[EntryName, ...] = get_args(EntryName)
ROUTED: tuple[EntryName, ...] = ("dispatch", "combine", "gate", "end-to-end")
"""Entries that run with every distribution."""
INJECTIONS = ("corrupt-byte", "corrupt-count", "corrupt-route", "stall=US")
Direction = Literal["none", "push", "pull", "all"]
MOST_ROWS = 2**16
"""A returned row is named by 16 bits of its position."""
MOST_ITERATIONS = 500
"""Of a launch: everything that was read waits in memory to be compared."""
A_TRY = 6
"""Iterations of a mutant: across a wrap, and back to every buffer that takes turns."""
VECTOR_BYTES = 16
LONGEST_ROW = 16 * 1024
_SIZES = "Sizes"


@dataclass(frozen=True, kw_only=True)
class VerifyConfig(Config):
    """What to prove. None means the machine's usual."""

    entries: Annotated[
        tuple[EntryName, ...], Option(f"{', '.join(ENTRIES)}. Default: all.", is_argument=True, metavar="[ENTRY]...")
    ] = ()
    distributions: Annotated[
        tuple[Distribution, ...],
        Option(
            f"Who sends how much to whom; can be repeated: {', '.join(DISTRIBUTIONS)}. Default: all.",
            name="--distribution",
            short="-d",
            metavar="NAME",
        ),
    ] = ()
    transport: WantedTransport = None
    iterations: Annotated[
        int | None,
        Option(
            "Iterations of each row: a third from 1, a third across each wrap. Default: 30; of a mutant's try 6.",
            name="--iters",
            short="-n",
            min=1,
            ceiling=1_000_000,
        ),
    ] = None
    rows: Annotated[
        int | None,
        Option(
            "Rows of a rank, two experts each. Default: 64 on GPUs, 2 emulated.",
            group=_SIZES,
            min=1,
            ceiling=MOST_ROWS // 16,
        ),
    ] = None
    experts: Annotated[
        int | None, Option("In all, shared evenly. Default: two a rank.", group=_SIZES, min=1, ceiling=4096)
    ] = None
    row_bytes: Annotated[
        int | None,
        Option(
            "A multiple of 16. Default: 2K on GPUs, 256 emulated.",
            metavar="SIZE",
            parse=parse_size,
            group=_SIZES,
            min=VECTOR_BYTES,
            max=LONGEST_ROW,
            multiple_of=VECTOR_BYTES,
        ),
    ] = None
    mutants: Annotated[bool, Option("Break one link after the other, and see which check finds it.")] = False
    soak_s: Annotated[
        float | None,
        Option("Repeat everything until this much time has passed.", metavar="SECONDS", above=0, ceiling=86_400),
    ] = None
    load: Annotated[
        Direction, Option("Copy engines on the same links meanwhile: towards where ranks write, from there, both.")
    ] = "none"
    timeout_s: TimeoutSeconds = 2.0
    seed: Seed = 0
    inject: Inject = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.inject, INJECTIONS)
        if self.mutants and (self.inject or self.soak_s or self.distributions or self.load != "none"):
            raise UsageError("--mutants chooses faults and loads by itself; leave --inject, --soak, --distribution and"
                             " --load out")  # fmt: skip
        if self.mutants and not A_TRY <= self.chosen_iterations <= MOST_ITERATIONS:
            raise UsageError(
                f"--iters {self.iterations}: with --mutants from {A_TRY}, which use each buffer again across a wrap, to"
                f" {MOST_ITERATIONS}, which one launch holds"
            )
        if self.distributions and not set(self.chosen_entries) & set(ROUTED):
            raise UsageError(f"--distribution: only {', '.join(ROUTED)} have one; name one of them")
        if self.inject in ("corrupt-count", "corrupt-route") and not set(self.chosen_entries) & set(ROUTED):
            raise UsageError(f"--inject {self.inject}: only {', '.join(ROUTED)} are given tables; name one of them")

    @property
    def chosen_iterations(self) -> int:
        return self.iterations or (A_TRY if self.mutants else 30)

    @property
    def chosen_entries(self) -> tuple[EntryName, ...]:
        """Each once, in the order in which they build on each other."""
        return tuple(name for name in ENTRIES if name in self.entries) or ENTRIES

    @property
    def chosen_distributions(self) -> tuple[Distribution, ...]:
        return tuple(name for name in DISTRIBUTIONS if name in self.distributions) or DISTRIBUTIONS
