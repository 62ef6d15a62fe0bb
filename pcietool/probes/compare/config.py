"""compare-nccl's config: which contenders, sizes and modes, how often, and how long each may take.

Must not run anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pcietool.contenders.catalog import CONTENDERS
from pcietool.contract.config import Config, Option
from pcietool.errors import UsageError
from pcietool.probes.common.options import TimeoutSeconds
from pcietool.units import parse_size

if TYPE_CHECKING:
    from pcietool.machines.base import Backend

CompareTransport = Literal["peer", "host"]
CompareMode = Literal["in-kernel", "graph", "eager"]
MODES: tuple[CompareMode, ...] = ("in-kernel", "graph", "eager")
ELEMENT_BYTES = 4
LARGEST_BYTES = 16 << 20
_CONTENDERS = "Contenders"
_USUAL_FACTOR = 4
_USUAL_LARGEST: dict[Backend, int] = {"cuda": 1 << 20, "emulated": 256}


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(parse_size(each) for each in text.split(","))


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Config):
    """What to compare. None means the machine's usual choice."""

    transport: Annotated[
        str | None,
        Option(
            "Where our slots and data lie: in the other GPU's memory (peer), in pinned host memory (host), or both"
            " (peer,host or all). Default: both.",
            choices=("peer", "host", "all"),
            several=True,
            first=True,
        ),
    ] = None
    contenders: Annotated[
        tuple[str, ...],
        Option(
            "Who takes part, on real GPUs; can be repeated. Default: all that are installed.",
            name="--contender",
            choices=tuple(CONTENDERS),
            group=_CONTENDERS,
        ),
    ] = ()
    modes: Annotated[
        tuple[CompareMode, ...],
        Option(
            "Inside a kernel, in a graph, or launched back to back; can be repeated. Default: all.",
            name="--mode",
            group=_CONTENDERS,
        ),
    ] = MODES
    sizes: Annotated[
        tuple[int, ...] | None,
        Option(
            "All-reduce sizes, such as 4,8K, instead of a range.",
            metavar="SIZE,...",
            parse=_sizes,
            group=_CONTENDERS,
        ),
    ] = None
    min_bytes: Annotated[
        int | None,
        Option("Smallest size. Default: 4.", short="-b", metavar="SIZE", parse=parse_size, group=_CONTENDERS),
    ] = None
    max_bytes: Annotated[
        int | None,
        Option(
            "Largest size, at most 16M. Default: 1M on GPUs, 256 emulated.",
            short="-e",
            metavar="SIZE",
            parse=parse_size,
            group=_CONTENDERS,
        ),
    ] = None
    factor: Annotated[
        int | None, Option("From one size to the next. Default: 4.", short="-f", group=_CONTENDERS, min=2)
    ] = None
    pairs: Annotated[
        int | None,
        Option(
            "Turns of each side; 7 or more give an interval. Default: 11 on GPUs.",
            group=_CONTENDERS,
            min=1,
            ceiling=1000,
        ),
    ] = None
    nodes: Annotated[
        int | None,
        Option(
            "Operations of a graph, or launched back to back. Default: 100 on GPUs, 20 emulated.",
            group=_CONTENDERS,
            min=2,
            max=200,
        ),
    ] = None
    """On both sides. Many, since each side's figure has its share of the fixed cost of a launch."""
    timeout_s: TimeoutSeconds = 2.0
    """Of a launch of ours."""
    init_timeout_s: Annotated[
        float, Option("Seconds a contender may take to start.", group=_CONTENDERS, above=0, ceiling=110)
    ] = 60.0
    """The parent process takes 120 s of silence for a hang."""
    run_timeout_s: Annotated[
        float, Option("Seconds a contender may take for one turn.", group=_CONTENDERS, above=0, ceiling=110)
    ] = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes and not (self.min_bytes is self.max_bytes is self.factor is None):
            raise UsageError("--sizes names every size; leave out --min-bytes, --max-bytes and --factor")
        for nbytes in self.sizes or [nbytes for nbytes in (self.min_bytes, self.max_bytes) if nbytes is not None]:
            if nbytes < ELEMENT_BYTES or nbytes % ELEMENT_BYTES or nbytes > LARGEST_BYTES:
                raise UsageError(f"a size of {nbytes} bytes: sizes are multiples of 4, from 4 to 16M")
        if self.max_bytes is not None and self.max_bytes < self.smallest:
            raise UsageError(f"--max-bytes {self.max_bytes} is below --min-bytes {self.smallest}")

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
