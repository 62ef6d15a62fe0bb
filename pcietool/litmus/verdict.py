"""Whether PTX allows what a test asks for: the step-by-step model where it finds it or has no gap, else the axioms.

Nothing here knows what a test expects.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcietool.litmus.axioms.decide import BOUNDS, Decision, decide
from pcietool.litmus.explore import Exploration, is_sought
from pcietool.litmus.gaps import gaps
from pcietool.litmus.model.search import Bounds, Outcome
from pcietool.litmus.text.program import Verdict
from pcietool.units import count

STOPPED = {
    "states": "raise --max-states",
    "seconds": "raise --max-seconds",
    "steps": "bound its loops",
}
"""What helps against each bound of a search."""


@dataclass(frozen=True)
class Answer:
    """`decision`: that of the axioms, where they had to be asked. `reason`: why the verdict is undecided."""

    found: Exploration
    verdict: Verdict
    gaps: tuple[str, ...]
    bounds: Bounds
    """For the axioms."""
    decision: Decision | None = None
    reason: str | None = None


def answer(found: Exploration, bounds: Bounds = BOUNDS) -> Answer:
    """`bounds` for the axioms alone."""
    known = tuple(gaps(found.test))
    if found.sought:
        return Answer(found, "allowed", known, bounds)
    if found.complete and not known:
        return Answer(found, "forbidden", known, bounds)
    decision = decide(found.test, lambda outcome: is_sought(found.test, outcome), found.tear, bounds)
    return Answer(
        found, decision.verdict, known, bounds, decision, decision.reason and _open(found, known, decision.reason)
    )


def verdict_on(answered: Answer, outcome: Outcome) -> Verdict:
    """On an outcome that was seen, whether or not the test asks for it."""
    found = answered.found
    if outcome in found.outcomes:
        return "allowed"
    if found.complete and not answered.gaps:
        return "forbidden"
    return decide(found.test, lambda other: other == outcome, found.tear, answered.bounds).verdict


def _open(found: Exploration, known: tuple[str, ...], reason: str) -> str:
    """Why nothing is known: what ended the search, or what the model does not show, and why the axioms do not tell."""
    if found.stopped:
        return f"not found in {count(found.states)} states, which proves nothing; {STOPPED[found.stopped]} ({reason})"
    return f"not found, but the model does not show all of {', '.join(known)}, and {reason}"
