"""The names of the load distributions that `routing` makes. Light: `--help` lists them."""

from __future__ import annotations

from typing import Literal, get_args

Distribution = Literal[
    "uniform",
    "zipf",
    "one-hot",
    "all-to-one",
    "none-to-one",
    "one-row",
    "self-only",
    "all-remote",
    "chunk-edges",
    "duplicates",
]
DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)
