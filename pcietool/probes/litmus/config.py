"""What litmus is asked: on the model alone, or on a machine too. Must not explore or touch a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pcietool.contract.config import Config, Option
from pcietool.errors import UsageError
from pcietool.litmus.bounds import MAX_SECONDS, MAX_STATES
from pcietool.probes.common.options import Seed, TimeoutSeconds
from pcietool.units import parse_count

Placement = Literal["peer", "writer", "host"]
PLACEMENTS: tuple[Placement, ...] = ("peer", "writer", "host")
_TRIALS = "Trials"


def parse_trials(text: str) -> int:
    """Raises UsageError."""
    try:
        return parse_count(text)
    except UsageError as error:
        raise UsageError(f"--trials {error}") from None


@dataclass(frozen=True, kw_only=True)
class _Tests(Config):
    """`tests`: files, directories, or starts of packaged names. `max_states` and `max_seconds` bound the search of each
    on the model. `tear`: PTX promises no vector as a whole, and none is taken for one."""

    tests: Annotated[
        tuple[str, ...],
        Option(
            "Litmus files, or packaged tests such as mp, sb-fence, all.",
            is_argument=True,
            metavar="FILE|DIR|NAME...",
        ),
    ]

    max_states: Annotated[int, Option("Give up beyond this many states a test.", min=1)] = MAX_STATES
    max_seconds: Annotated[float, Option("Give up after this long a test.", above=0, ceiling=86_400)] = MAX_SECONDS
    tear: Annotated[
        bool, Option("Take vectors for their scalars, as PTX has it. Default: whole, as on all paths measured.")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tests:
            raise UsageError("there is no litmus test to run; name one, or all")


@dataclass(frozen=True, kw_only=True)
class LitmusConfig(_Tests):
    """On the model alone."""


@dataclass(frozen=True, kw_only=True)
class TrialsConfig(_Tests):
    """`trials` of each test; `place` of None means peer and host."""

    trials: Annotated[
        int,
        Option(
            "Run each test so often on a machine too, such as 1M, beside the model.",
            metavar="N",
            parse=parse_trials,
            group=_TRIALS,
            min=1,
            ceiling=10**12,
        ),
    ]
    place: Annotated[
        Literal["peer", "writer", "host", "all"] | None,
        Option(
            "Where variables lie in trials: in the memory of the GPU that reads each (peer), of the one that"
            " writes each (writer), or in pinned host memory (host). Default: peer and host.",
            group=_TRIALS,
        ),
    ] = None
    seed: Seed = 0
    timeout_s: TimeoutSeconds = 2.0

    @property
    def placements(self) -> tuple[Placement, ...]:
        if self.place is None:
            return ("peer", "host")
        return PLACEMENTS if self.place == "all" else (self.place,)
