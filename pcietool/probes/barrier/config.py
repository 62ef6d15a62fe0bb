"""What barrier-latency is asked to measure. Must not touch a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pcietool.contract.config import Config, Limits, Option
from pcietool.errors import UsageError
from pcietool.probes.common.injections import checked
from pcietool.probes.common.options import MAX_ROUNDS, Inject, TimeoutSeconds, WantedTransport

FLOOR_NEEDS = "floor is a loop of one warp and only exists in-kernel"
INJECTIONS = ("dead-rank", "drop-signal", "beyond-residency", "stall=US")
Order = Literal["publishing", "relaxed", "article", "floor"]
Mode = Literal["in-kernel", "launched", "graph"]
_KERNEL = "Kernel"


@dataclass(frozen=True, kw_only=True)
class BarrierConfig(Config):
    """What to measure. `iterations` and `launches` of None mean the machine's usual number."""

    transport: WantedTransport = None
    iterations: Annotated[
        int | None,
        Option(
            "Rounds in-kernel that are measured; launched and graph always run 20. Default: 2000 on GPUs, 50 emulated.",
            name="--iters",
            short="-n",
            min=1,
            ceiling=10_000_000,
        ),
    ] = None
    warmup: Annotated[int, Option("Rounds before that, which are not.", short="-w", min=0, ceiling=MAX_ROUNDS // 2)] = (
        10
    )
    launches: Annotated[int | None, Limits(min=1)] = None
    timeout_s: TimeoutSeconds = 2.0
    threads: Annotated[
        int, Option("Threads a block, whole warps.", group=_KERNEL, min=32, max=1024, multiple_of=32)
    ] = 32
    blocks: Annotated[int, Option("Blocks a rank; they meet before the last one signals.", group=_KERNEL, min=1)] = 1
    nanosleep_ns: Annotated[int, Option("Nanoseconds to sleep between polls.", group=_KERNEL, min=0, max=1_000_000)] = 0
    orders: Annotated[
        tuple[Order, ...],
        Option("What a round orders; can be repeated. Default: all.", name="--order", group=_KERNEL, first=True),
    ] = ("publishing", "relaxed", "article", "floor")
    modes: Annotated[
        tuple[Mode, ...],
        Option(
            "Rounds in one kernel, one launch each, or a graph; can be repeated. Default: all.",
            name="--mode",
            group=_KERNEL,
            first=True,
        ),
    ] = ("in-kernel", "launched", "graph")
    sweep: Annotated[bool, Option("Also with 2, 3, ... ranks, up to all GPUs.")] = False
    inject: Inject = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.inject, INJECTIONS)
        if self.modes and "in-kernel" not in self.modes:
            self._refuse_idle(("iterations", "warmup"), f"--mode {' and '.join(self.modes)} always runs 20 rounds")
        if set(self.orders) == {"article"}:
            self._refuse_idle(("nanosleep_ns",), "--order article sleeps as long as the article does")
        if self.transport == "self":
            self._refuse_idle(("sweep",), "--transport self has two ranks")
        if self.modes and set(self.orders) == {"floor"} and "in-kernel" not in self.modes:
            raise UsageError(f"--order floor: {FLOOR_NEEDS}; add --mode in-kernel, or take another order")
