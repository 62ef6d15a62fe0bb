"""How something comes about, as a person reads it: one step a line, by rank, at a line of the source.

Reads what engines say in words; must not judge it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_STEP = re.compile(r"(?:GPU (?P<gpu>\d+) block (?P<block>\d+) thread (?P<thread>-?\d+): )?(?P<rest>.*)", re.DOTALL)
_AT = re.compile(r"(?P<place>[^\s():]+:\d+) \(PTX line \d+: (?P<ptx>[^)]*)\),? ?")
_ON = re.compile(r" on (?:GPU \d+|host memory)(?= |$)")
MOST = 60


@dataclass(frozen=True)
class Step:
    """`rank` None: nobody in particular."""

    rank: int | None
    who: str
    at: str
    """Such as "mine.cu:12"."""
    does: str


def step(text: str, rank: int | None = None) -> Step:
    """From "GPU 1 block 0 thread 2: mine.cu:4 (PTX line 56: st...), 'box'+0 on GPU 1 <- 7"."""
    found = _STEP.fullmatch(text)
    assert found is not None
    who = "" if found["gpu"] is None else f"block {found['block']} thread {found['thread']}"
    at = _AT.search(found["rest"])
    does = found["rest"] if at is None else found["rest"].replace(at.group(), "")
    if at is not None and not does.strip("( )"):
        does = at["ptx"]
    elif at is not None and "'" not in does:
        does = f"{at['ptx']} {does}"
    gpu = rank if found["gpu"] is None else int(found["gpu"])
    return Step(gpu, who, at["place"] if at else "", _ON.sub("", does).strip())


def steps(lines: Sequence[str]) -> tuple[Step, ...]:
    """An execution; of a long one its beginning and its end."""
    if len(lines) > MOST:
        left_out = f"... {len(lines) - MOST} steps ..."
        lines = [*lines[: MOST // 2], left_out, *lines[-MOST // 2 :]]
    return tuple(map(step, lines))


def place(source: str) -> str:
    """ "mine.cu:4 (PTX line 56: ...)" -> "mine.cu:4"."""
    return source.partition(" (")[0]


class Texts:
    """Lines of the sources, by the name that messages have."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lines = {name: text.splitlines() for name, text in texts.items()}

    def line(self, at: str) -> str:
        """What stands at "mine.cu:12"; nothing if that is not known."""
        name, _, number = at.rpartition(":")
        lines = self._lines.get(name, ())
        return lines[int(number) - 1].strip() if number.isdigit() and 0 < int(number) <= len(lines) else ""

    def of(self, places: Iterable[str]) -> dict[str, str]:
        return {at: text for at in places if (text := self.line(at))}
