"""What all engines together say of a scenario: one word, one line, and what was not looked at.

Must not run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pcietool.check.running.engines import tried
from pcietool.check.running.findings import Finding, Said, worst
from pcietool.contract.results import Status

Word = Literal["PASS", "CRASH", "WRONG DATA", "HANG", "RACE", "NOT PROVED"]
STATUS = {
    "PASS": Status.PASS,
    "CRASH": Status.FAIL,
    "WRONG DATA": Status.FAIL,
    "HANG": Status.HANG,
    "RACE": Status.FAIL,
    "NOT PROVED": Status.WARN,
}


@dataclass(frozen=True)
class Verdict:
    word: Word
    text: str
    finding: Finding | None
    not_covered: tuple[str, ...]

    @property
    def status(self) -> Status:
        return STATUS[self.word]


def judge(said: Sequence[Said], idle: bool) -> Verdict:
    """`idle`: the expectations hold although nothing ran, so that they tell nothing."""
    found = worst(finding for one in said for finding in one.findings)
    left_out = tuple(dict.fromkeys(text for one in said for text in one.not_covered))
    if not any(one.proved for one in said):
        left_out = tuple(dict.fromkeys([*left_out, *(one.cut_short for one in said if one.cut_short)]))
    if idle:
        left_out = (
            "what is expected is true before any kernel runs: expect something that only the kernel does",
            *left_out,
        )
    if found is not None:
        times = next(one for one in said if found in one.findings)
        how_often = f"{found.times} of {tried(times)}" if found.engine == "random" else f"{found.engine} order"
        return Verdict(found.kind, f"{found.text} ({how_often}, {times.size})", found, left_out)
    proof = next((one for one in said if one.proved), None)
    others = [
        f"{tried(one) if one.engine == 'random' else 'timing order'} at {one.size}"
        for one in said
        if one.tries and one is not proof
    ]
    also = "; ".join(others)
    so_are = f"; so are {also}" if also else ""
    if proof is not None and not left_out:
        return Verdict("PASS", f"every execution at {proof.size} is right ({tried(proof)}){so_are}", None, ())
    why = left_out[0] if left_out else "not every execution was looked at (explore was not run)"
    return Verdict("NOT PROVED", f"{why}; nothing wrong in {also or 'what ran: nothing did'}", None, left_out or (why,))
