"""Which kernel of which source a scenario launches. Must not compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, eq=False)
class Kernel:
    """`source`: a .cu, .cuh, .ptx or cubin, beside the scenario's file; or `text`, CUDA C++ itself, which `source` then
    only names. `entry`: the kernel's name as C++ has it, templates with their arguments, such as
    "ns::reduce<float, {ranks}>"; {ranks} and the scenario's sizes are filled in, in `define` too."""

    source: str | Path
    entry: str
    include: Sequence[str | Path] = ()
    define: Mapping[str, str | int] = field(default_factory=dict)
    std: str = "c++17"
    text: str | None = None

    def entry_for(self, sizes: Mapping[str, object]) -> str:
        return _filled(self.entry, sizes)

    def defines_for(self, sizes: Mapping[str, object]) -> dict[str, str]:
        return {name: _filled(str(value), sizes) for name, value in self.define.items()}


def _filled(text: str, sizes: Mapping[str, object]) -> str:
    """Only the names that there are: C++ has braces of its own."""
    for name, value in sizes.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text
