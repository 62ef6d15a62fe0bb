"""Seeded straight-line litmus tests of what the referee (axioms.py) does not know or seldom sees: RMWs without effect,
refused compare-and-swaps, loads by the non-coherent path, accesses of different sizes, vectors.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Literal

from tests.litmus.random_programs import LOCATIONS, PLACES, SCOPES

Kind = Literal["rmws", "sizes"]
WITHOUT_EFFECT = (("add", 0), ("or", 0), ("max", 0), ("max", 2), ("exch", 0), ("exch", 1))
PARTS = (".u8 {}", ".u8 {}+1", ".u16 {}", ".u32 {}", ".u32 {}", ".u32 {}+4", ".u64 {}", ".u64 {}", ".v2.u32 {}")
RMW_PARTS = (".u32 {}", ".u32 {}+4", ".u64 {}")


def wider_program(seed: int, kind: Kind, native: bool = True) -> str:
    rng = random.Random(seed)
    numbers = itertools.count(1)
    columns = [_column(rng, numbers, kind) for _ in range(rng.choice((2, 2, 2, 3)))]
    if not any("r0" in line for column in columns for line in column):
        columns[-1].append("ld.weak r0, x")
    heads = [f"P{n}@{PLACES[0] if n == 0 else rng.choice(PLACES)}" for n in range(len(columns))]
    rows = [" | ".join(row) for row in itertools.zip_longest(*columns, fillvalue="")]
    asked = [f"P{n}:{name} = 0" for n, column in enumerate(columns) for name in _registers(column)]
    homes = "" if native else " without native atomics"
    initial = f"{{ x=0{homes}; y=0{homes}; }}"
    body = (f"{row} ;" for row in [" | ".join(heads), *rows])
    condition = " /\\ ".join(asked)
    return "\n".join([f"PTX wider {seed}", initial, *body, f"exists ({condition})"])


def _registers(column: list[str]) -> list[str]:
    return sorted({name for line in column for name in re.findall(r"\br\d+\b", line)}, key=lambda name: int(name[1:]))


def _column(rng: random.Random, numbers: itertools.count[int], kind: Kind) -> list[str]:
    registers = (f"r{number}" for number in itertools.count())
    make = _instruction if kind == "rmws" else _sized_instruction
    return [make(rng, numbers, registers) for _ in range(rng.randint(1, 3))]


def _order(rng: random.Random, strongest: str) -> str:
    scope = rng.choice(SCOPES)
    return rng.choice(("weak", f"relaxed.{scope}", f"{strongest}.{scope}"))


def _rmw_order(rng: random.Random) -> str:
    return f"{rng.choice(('relaxed', 'acquire', 'release', 'acq_rel'))}.{rng.choice(SCOPES)}"


def _fence(rng: random.Random) -> str:
    return f"fence.{rng.choice(('acq_rel', 'sc'))}.{rng.choice(SCOPES)}"


def _instruction(rng: random.Random, numbers: itertools.count[int], registers: Iterator[str]) -> str:
    place = rng.choice(LOCATIONS)
    match rng.choices(("ld", "st", "fence", "rmw", "cas", "nc"), (30, 26, 10, 24, 10, 4))[0]:
        case "ld":
            return f"ld.{_order(rng, 'acquire')} {next(registers)}, {place}"
        case "nc":
            return f"ld.nc {next(registers)}, {place}"
        case "st":
            return f"st.{_order(rng, 'release')} {place}, {next(numbers)}"
        case "fence":
            return _fence(rng)
        case "cas":
            expected = rng.choice((0, 0, 1, 2))
            return f"atom.{_rmw_order(rng)}.cas {next(registers)}, {place}, {expected}, {next(numbers)}"
    operation, value = rng.choice((*WITHOUT_EFFECT, ("exch", next(numbers)), ("add", next(numbers))))
    return f"atom.{_rmw_order(rng)}.{operation} {next(registers)}, {place}, {value}"


def _sized_instruction(rng: random.Random, numbers: itertools.count[int], registers: Iterator[str]) -> str:
    place = rng.choice(LOCATIONS)
    part, address = rng.choice(PARTS).format(place).split()
    pair = part.startswith(".v2")
    match rng.choices(("ld", "st", "fence", "rmw"), (40, 40, 10, 5))[0]:
        case "ld":
            target = f"{{{next(registers)}, {next(registers)}}}" if pair else next(registers)
            return f"ld.{_order(rng, 'acquire')}{part} {target}, {address}"
        case "st":
            number = next(numbers)
            everywhere = {".u16": 257, ".u32": 16777473, ".u64": 4294967297}.get(part, 1)
            value = f"{{{number}, {number + 20}}}" if pair else str(number * everywhere)
            return f"st.{_order(rng, 'release')}{part} {address}, {value}"
        case "fence":
            return _fence(rng)
    part, address = rng.choice(RMW_PARTS).format(place).split()
    return f"atom.{_rmw_order(rng)}.exch{part} {next(registers)}, {address}, {next(numbers)}"
