"""What check is asked, of a file that can be read. Must not load a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pcietool.contract.config import Config, Option
from pcietool.contract.text_files import read_text
from pcietool.errors import UsageError
from pcietool.probes.common.options import Seed, TimeoutSeconds

EngineName = Literal["timing", "random", "explore"]
ENGINES: tuple[EngineName, ...] = ("timing", "random", "explore")
_EFFORT = "Effort"


@dataclass(frozen=True, kw_only=True)
class CheckConfig(Config):
    """`names`: scenarios of `file`, or all. `engine`: those to run, with commas between; None for all that apply."""

    file: Annotated[str, Option("Scenarios: Python, see docs/check.md.", is_argument=True, metavar="FILE")]
    names: Annotated[
        tuple[str, ...], Option("Only these of its scenarios.", is_argument=True, metavar="[NAME...]")
    ] = ()
    seeds: Annotated[
        int, Option("Runs in random order, each with another seed.", min=1, ceiling=10**6, group=_EFFORT)
    ] = 200
    runs: Annotated[int, Option("Runs on GPUs (--backend cuda).", min=1, ceiling=10**6, group=_EFFORT)] = 20
    engine: Annotated[
        str | None,
        Option("Only this way of running, or some: timing,random. Default: all three.", choices=ENGINES, several=True),
    ] = None
    replay: Annotated[
        int | None, Option("Run this one seed in random order, and show all that comes of it.", min=0, metavar="SEED")
    ] = None
    quick: Annotated[bool, Option("Do not ask which orderings are needed, and which is missing.", group=_EFFORT)] = (
        False
    )
    max_states: Annotated[int, Option("Give up exploring beyond this many states.", min=1, group=_EFFORT)] = 300_000
    max_seconds: Annotated[
        float, Option("Give up each step after this long.", above=0, ceiling=86_400, group=_EFFORT)
    ] = 30.0
    jobs: Annotated[
        int | None,
        Option("Emulate on so many cores. Default: all there are.", short="-j", min=1, ceiling=256, group=_EFFORT),
    ] = None
    tear: Annotated[
        bool, Option("Take vectors for their scalars, as PTX has it. Default: whole where the fabric has them so.")
    ] = False
    seed: Seed = 0
    timeout_s: TimeoutSeconds = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        path = Path(self.file)
        read_text(path)
        if path.suffix != ".py":
            raise UsageError(
                f"{path}: a scenario file is Python (.py), which names the kernel's file; see docs/check.md"
            )

    @property
    def engines(self) -> tuple[str, ...]:
        if self.replay is not None:
            return ("random",)
        return tuple(self.engine.split(",")) if self.engine else ENGINES

    @property
    def seed_range(self) -> range:
        if self.replay is not None:
            return range(self.replay, self.replay + 1)
        return range(self.seed, self.seed + self.seeds)
