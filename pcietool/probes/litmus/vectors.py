"""Up to how many bytes a vector is whole, on each path to memory: measured beside the trials, since PTX promises none.

A writer stores vectors of 8 and 16 bytes whose elements are all the same, a reader looks at them, and where the
elements of one look differ it was torn. Must not say what a test may rely on; `trials` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from pcietool.contract.results import Row
from pcietool.litmus.text.cuda_source import cuda_source
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import Access, LitmusTest
from pcietool.machines.base import Machine
from pcietool.probes.common.checks import check
from pcietool.probes.common.world import no_access
from pcietool.probes.litmus.config import Placement, TrialsConfig
from pcietool.probes.litmus.machine import Trials, homes
from pcietool.units import count

EMULATED_TRIALS = 64
FEWEST_TRIALS = 65_536
"""On GPUs, where a torn vector is rare."""
STORES = LOOKS = 12
"""Of each size in one trial."""
WIDEST = 16
"""Bytes of the widest vector that is tried."""


@dataclass(frozen=True)
class Wholeness:
    """What was seen on one path. `overlapped`: trials in which the reader saw a value change while it looked."""

    path: str
    trials: int
    looks: int
    """At each of the sizes."""
    torn_8: int
    torn_16: int
    overlapped: int

    @property
    def vector_bytes_whole(self) -> int:
        """4: not even two words."""
        return 4 if self.torn_8 else 8 if self.torn_16 else WIDEST

    def __str__(self) -> str:
        torn = f"{count(self.torn_8 + self.torn_16)} torn of {count(2 * self.looks)}"
        return f"{self.vector_bytes_whole} in {self.path} ({torn})"


def measure(machine: Machine, placement: Placement, config: TrialsConfig) -> list[Wholeness]:
    """Of the paths of this placement, on an emulated machine of its own, so that it changes no trial. Raises Hung."""
    with machine.in_random_order(config.seed, tear=config.tear) or nullcontext(machine) as weakest:
        return [_wholeness(weakest, path, test, placement, config) for path, test in _paths(weakest, placement)]


def wholeness_check(found: Sequence[Wholeness], config: TrialsConfig) -> Row:
    """Passed if every vector was whole, or need not be (--tear), and some could have been seen torn."""
    whole = min(one.vector_bytes_whole for one in found)
    blind = [one.path for one in found if not one.overlapped]
    reason = f"vectors of more than {whole} bytes are torn there: --tear takes them for their scalars"
    if blind:
        reason = f"in {', '.join(blind)} nothing changed while it was looked at, which proves nothing"
    row = check(
        "vector bytes whole",
        not blind and (whole == WIDEST or config.tear),
        ", ".join(map(str, found)),
        severity="warn",
        reason=reason,
    )
    paths: list[dict[str, Any]] = [asdict(one) | {"vector_bytes_whole": one.vector_bytes_whole} for one in found]
    return row | {"paths": paths}


def torn_there(test: LitmusTest, found: Sequence[Wholeness]) -> str | None:
    """Why the model, which takes vectors for whole, may not hold for this test, or None."""
    vectors = [
        one.part.size * one.part.scalars
        for thread in test.threads
        for one in thread.code
        if isinstance(one, Access) and one.part.scalars > 1
    ]
    whole = min(one.vector_bytes_whole for one in found)
    if max(vectors, default=0) <= whole:
        return None
    return f"vectors of more than {whole} bytes are torn here, and the model takes them for whole; --tear does not"


def _paths(machine: Machine, placement: Placement) -> Iterator[tuple[str, LitmusTest]]:
    """What is measured, and by which test. Threads of one GPU are in two blocks."""
    alone = len(machine.devices) == 1
    if placement == "host":
        yield "host memory", vectors_test(1 if alone else 0, 0 if alone else 1)
        return
    yield "own memory", vectors_test(1, 0)
    if not alone and no_access(machine, 2) is None:
        side = "stored to" if placement == "peer" else "read"
        yield f"another GPU's memory, {side} over the link", vectors_test(0, 1)


def _wholeness(machine: Machine, path: str, test: LitmusTest, placement: Placement, config: TrialsConfig) -> Wholeness:
    program = machine.load_text("vectors.litmus", cuda_source(test))
    trials = Trials(machine, test, program, homes(test, placement), config.seed)
    number = EMULATED_TRIALS if machine.backend == "emulated" else max(FEWEST_TRIALS, config.trials)
    counts, _ = trials.run(number, config.timeout_s)
    trials.free()
    torn_16 = sum(outcome[0] * times for outcome, times in counts.items())
    torn_8 = sum(outcome[1] * times for outcome, times in counts.items())
    overlapped = sum(times for (_, _, first, last), times in counts.items() if first != last)
    return Wholeness(path, number, number * LOOKS, torn_8, torn_16, overlapped)


def vectors_test(cta: int, gpu: int) -> LitmusTest:
    """x has 16 bytes, y has 8. The reader's r10 and r11 count torn looks at each, r12 and r13 are the first element of
    the first and of the last look at x. The writer waits for an answer before it goes on, or it were done at once."""
    stores = [
        cell
        for value in range(1, STORES + 1)
        for cell in (
            f"st.relaxed.sys.v4.u32 x, {{{', '.join([str(value)] * 4)}}}",
            f"st.relaxed.sys.v2.u32 y, {{{value}, {value}}}",
            "ld.relaxed.sys r0, x",
            "beq r0, 0, LEND",
        )
    ]
    stores.append("LEND:")
    looks = [cell for look in range(LOOKS) for cell in _look(look)]
    looks += [f"L{LOOKS}Y: add r13, r0, 0"]
    rows = [
        f"{stores[row] if row < len(stores) else ''} | {looks[row] if row < len(looks) else ''} ;"
        for row in range(max(len(stores), len(looks)))
    ]
    text = "\n".join(
        [
            "PTX vectors",
            "{ x=0; y=0; }",
            f"P0@cta 0,gpu 0 | P1@cta {cta},gpu {gpu} ;",
            *rows,
            "exists (P1:r10 = 1 \\/ P1:r11 = 1 \\/ P1:r12 = 1 \\/ P1:r13 = 1)",
        ]
    )
    return parse_litmus(text)


def _look(look: int) -> Iterator[str]:
    """At y, then at x; each has a label at its end."""
    yield f"L{look}Y: ld.relaxed.sys.v2.u32 {{r4, r5}}, y"
    yield f"beq r4, r5, L{look}X"
    yield "add r11, r11, 1"
    yield f"L{look}X: ld.relaxed.sys.v4.u32 {{r0, r1, r2, r3}}, x"
    if look == 0:
        yield "add r12, r0, 0"
    yield f"bne r0, r1, L{look}T"
    yield f"bne r0, r2, L{look}T"
    yield f"beq r0, r3, L{look + 1}Y"
    yield f"L{look}T: add r10, r10, 1"
