"""Seeded straight-line litmus tests that ask for every register."""

from __future__ import annotations

import itertools
import random

LOCATIONS = ("x", "y")
SCOPES = ("cta", "gpu", "sys")
PLACES = ("cta 0,gpu 0", "cta 1,gpu 0", "cta 0,gpu 1")


def random_program(seed: int, with_rmws: bool, longest: int) -> str:
    rng = random.Random(seed)
    numbers = itertools.count(1)
    columns = [_column(rng, numbers, with_rmws, longest) for _ in range(rng.choice((2, 2, 2, 3)))]
    if not any(" r0" in line for column in columns for line in column):
        columns[-1].append("ld.weak r0, x")
    heads = [f"P{n}@{PLACES[0] if n == 0 else rng.choice(PLACES)}" for n in range(len(columns))]
    rows = [" | ".join(row) for row in itertools.zip_longest(*columns, fillvalue="")]
    registers = [
        f"P{n}:r{r} = 0" for n, column in enumerate(columns) for r in range(sum(" r" in line for line in column))
    ]
    condition = " /\\ ".join(registers)
    return "\n".join(
        [
            f"PTX random {seed}",
            "{ x=0; y=0; }",
            *(f"{row} ;" for row in [" | ".join(heads), *rows]),
            f"exists ({condition})",
        ]
    )


def _column(rng: random.Random, numbers: itertools.count[int], with_rmws: bool, longest: int) -> list[str]:
    registers = itertools.count()
    return [_instruction(rng, numbers, registers, with_rmws) for _ in range(rng.randint(1, longest))]


def _instruction(
    rng: random.Random, numbers: itertools.count[int], registers: itertools.count[int], with_rmws: bool
) -> str:
    place, scope = rng.choice(LOCATIONS), rng.choice(SCOPES)
    kind = rng.choices(("ld", "st", "fence", "rmw"), (36, 36, 14, 14 if with_rmws else 0))[0]
    if kind == "ld":
        order = rng.choice(("weak", f"relaxed.{scope}", f"acquire.{scope}"))
        return f"ld.{order} r{next(registers)}, {place}"
    if kind == "st":
        order = rng.choice(("weak", f"relaxed.{scope}", f"release.{scope}"))
        return f"st.{order} {place}, {next(numbers)}"
    if kind == "fence":
        return f"fence.{rng.choice(('acq_rel', 'sc'))}.{scope}"
    order = rng.choice(("relaxed", "acquire", "release", "acq_rel"))
    return f"atom.{order}.{scope}.{rng.choice(('exch', 'add'))} r{next(registers)}, {place}, {next(numbers)}"
