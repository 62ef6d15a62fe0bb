"""The pairs of tests/cases as scenarios. Must not judge them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pcietool.check import Array, Kernel, Piece, Scenario, World
from pcietool.check.arrays import Values
from tests.cases.case import PRELUDE, Case, Described, Memory


def scenario_of(case: Case, variant: str) -> Scenario:
    """`variant`: bug or fix; at the case's own size, which is small."""
    text = f'#line 1 "{PRELUDE.name}"\n{PRELUDE.read_text()}\n#line 1 "{variant}.cu"\n{case.source(variant)}'
    kernels: dict[str, Kernel] = {}

    def play(w: World) -> None:
        arrays = {name: _array(w, name, described) for name, described in case.buffers.items()}
        for one in case.launches:
            options = dict(one)
            ranks, entry, args = options.pop("ranks"), options.pop("entry"), options.pop("args")
            kernel = kernels.setdefault(entry, Kernel(f"{variant}.cu", entry, text=text))
            shape = {"grid": options.pop("grid", 1), "block": options.pop("block", 1)}
            given = {rank: [_argument(word, rank, arrays, case) for word in args] for rank in ranks}
            w.launch(given.__getitem__, kernel=kernel, ranks=ranks, **shape, **options)
        w.expect_one_of(*(_alternative(right, arrays, case) for right in case.right))

    anything = Kernel(f"{variant}.cu", str(case.launches[0]["entry"]), text=text)
    return Scenario(case.name, play, anything, (case.gpus,), 1, 1, {}, Path(__file__).parent, __file__)


def _array(w: World, name: str, described: Described) -> Array:
    initial = np.zeros(described.count, described.dtype)
    initial[: len(described.values)] = described.values
    if described.place == "host":
        return w.pinned(name, described.dtype, described.count, initial)
    if described.place == "each":
        return w.each(name, described.dtype, described.count, initial)
    return w.one(name, described.dtype, described.count, initial, rank=int(described.place))


def _argument(word: str | int, rank: int, arrays: Mapping[str, Array], case: Case) -> int | Piece:
    if isinstance(word, int):
        return word
    if word in ("rank", "gpus"):
        return {"rank": rank, "gpus": case.gpus}[word]
    name, _, whose = word.partition("@")
    pieces = arrays[name].pieces
    if len(pieces) == 1:
        return pieces[0]
    return pieces[rank if not whose else (rank + 1) % len(pieces) if whose == "next" else int(whose)]


def _alternative(right: Memory, arrays: Mapping[str, Array], case: Case) -> dict[Array, Values]:
    """Values by rank where every rank has the array."""
    found: dict[Array, Values] = {}
    for name, values in right.items():
        count = case.buffers[name].count
        parts = [values[first : first + count] for first in range(0, len(values), count)]
        found[arrays[name]] = parts[0] if len(parts) == 1 else parts.__getitem__
    return found
