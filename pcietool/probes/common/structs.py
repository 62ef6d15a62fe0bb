"""Structs that a kernel takes by value, from the host's mirror of their layout. Must not know any of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcietool.machines.base import Buffer


def struct_of(layout: np.dtype[Any], **members: Any) -> np.ndarray:
    """One struct of this layout, shape (); a Buffer stands for its address. Raises KeyError unless exactly its members
    are given, and OverflowError for a number that does not fit."""
    if set(members) != set(layout.names or ()):
        raise KeyError(f"{sorted(members)} are not the members {layout.names}")
    struct = np.zeros((), layout)
    for name, value in members.items():
        struct[name] = value.address if isinstance(value, Buffer) else value
    return struct
