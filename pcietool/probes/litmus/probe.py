"""Which outcomes of a litmus test PTX allows: every execution that the memory model has, and what the test expects.

Without a machine: nothing here is timed, and no GPU is asked; `litmus_trials` does that. A search that its bound ended
is never taken for a proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.litmus.describe import interleaving, outcome_text
from pcietool.litmus.explore import Exploration, explore
from pcietool.litmus.gaps import gaps
from pcietool.litmus.text.library import find, load
from pcietool.litmus.text.program import LitmusTest, Verdict
from pcietool.probes.litmus.config import LitmusConfig
from pcietool.units import count

NAME = "litmus"
MACHINE = {
    "backend": "emulated",
    "label": "PTX memory model",
    "devices": [],
    "links": [],
    "host_links": [],
    "facts": {},
}
"""What stands in the result where other commands describe GPUs and links."""


def run(config: LitmusConfig, observer: Observer) -> ProbeResult:
    """One row a test. Raises ConfigError, before anything is explored, for tests that are not there or broken."""
    tests = [(path, load(path)) for path in find(config.tests)]
    method = f"executions of the model, depth first, equal states merged, at most {count(config.max_states)} a test"
    result = ProbeResult(NAME, Status.PASS, "", "model", method)
    observer.begin(result)
    statuses = []
    for path, test in tests:
        observer.progress(f"{test.name}, {path}")
        found = explore(test, config.max_states)
        status, reason = judge(found)
        statuses.append(status)
        result.rows.append(model_row(path, found, status, reason))
    result.status = max(statuses, key=list(Status).index)
    result.verdict = _summary(result.rows)
    result.reason = complaint(result.rows)
    observer.result(result)
    return result


def verdict_of(found: Exploration) -> Verdict:
    """Whether the question's proposition can come true."""
    if found.sought:
        return "allowed"
    return "forbidden" if found.complete else "undecided"


def judge(found: Exploration) -> tuple[Status, str | None]:
    """What the exploration means for a test that expects something; the reason if that is not a pass."""
    expected = found.test.expectation
    verdict = verdict_of(found)
    if found.hung and not expected.hangs:
        return Status.HANG, "a barrier is never completed"
    if not found.outcomes and not found.hung and found.complete:
        return Status.HANG, "no execution ends"
    if verdict == "undecided":
        reason = f"not found in {count(found.states)} states, which proves nothing; raise --max-states"
        return (Status.ERROR if expected.verdict else Status.WARN), reason
    if verdict == "forbidden" and (expected.verdict != verdict or not expected.stated) and gaps(found.test):
        return Status.WARN, f"not found, but the model does not show all of {', '.join(gaps(found.test))}"
    if expected.verdict is None:
        return Status.INFO, None
    if verdict != expected.verdict:
        return Status.FAIL, f"{verdict}, though the test says {expected.verdict}"
    if expected.hangs and not found.hung:
        return Status.FAIL, "no execution hangs, though the test says so"
    return Status.PASS, None


def model_row(path: Path, found: Exploration, status: Status, reason: str | None) -> Row:
    """What the model says of one test."""
    test = found.test
    sought = found.sought
    return {
        "test": test.name,
        "file": path.name,
        "verdict": verdict_of(found),
        "expected": _expected(test),
        "status": status.value,
        "failed": None if reason is None else f"{test.name}: {reason}",
        "question": test.question.text,
        "why": test.description,
        "outcome_count": len(found.outcomes),
        "outcomes": [{"text": outcome_text(found, outcome), "sought": outcome in sought} for outcome in found.outcomes],
        "states": found.states,
        "complete": found.complete,
        "hung_states": found.hung,
        "gaps": gaps(test),
        "interleaving": _evidence(found, status),
    }


def _expected(test: LitmusTest) -> str | None:
    verdict = test.expectation.verdict
    return f"{verdict}, hangs" if test.expectation.hangs else verdict


def _evidence(found: Exploration, status: Status) -> list[str]:
    """The shortest execution found that does what was asked for, or that hangs."""
    if found.hang is not None and (status is Status.HANG or not found.sought):
        return interleaving(found.model, found.hang)
    paths = [found.outcomes[outcome] for outcome in found.sought]
    return interleaving(found.model, min(paths, key=len)) if paths else []


def _summary(rows: Sequence[Row]) -> str:
    """Such as "2 tests, 2 of 2 as expected: 1 allowed, 1 forbidden; every execution explored, 40 states"."""
    expecting = [row for row in rows if row["expected"] is not None]
    agreeing = sum(row["status"] == Status.PASS for row in expecting)
    verdicts = Counter(row["verdict"] for row in rows)
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in sorted(verdicts))
    agreement = f", {agreeing} of {len(expecting)} as expected" if expecting else ""
    tests = "1 test" if len(rows) == 1 else f"{len(rows)} tests"
    extent = "every execution explored" if all(row["complete"] for row in rows) else "not every execution explored"
    return f"{tests}{agreement}: {counts}; {extent}, {count(sum(row['states'] for row in rows))} states"


def complaint(rows: Sequence[Row]) -> str | None:
    """All that is wrong, or None."""
    return "; ".join(row["failed"] for row in rows if row["failed"]) or None
