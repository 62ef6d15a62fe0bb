"""Which outcomes of a litmus test PTX allows, and what the test expects: executions of the memory model, its axioms
where the model has gaps, and states from which no end can be reached.

Without a machine: nothing here is timed, and no GPU is asked; `trials` does that. A search that its bound ended is
never taken for a proof.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.litmus.axioms.decide import MOST_CANDIDATES
from pcietool.litmus.axioms.words import execution_text
from pcietool.litmus.describe import interleaving, outcome_text, stuck
from pcietool.litmus.explore import explore
from pcietool.litmus.model.search import Bounds
from pcietool.litmus.text.library import find, load
from pcietool.litmus.text.program import LitmusTest
from pcietool.litmus.threads import MAX_STEPS
from pcietool.litmus.verdict import STOPPED, Answer, answer
from pcietool.probes.litmus.config import LitmusConfig, TrialsConfig
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


PROGRESS_S = 2.0
"""From one line of progress to the next."""


def run(config: LitmusConfig, observer: Observer) -> ProbeResult:
    """One row a test. Raises ConfigError, before anything is explored, for tests that are not there or broken."""
    tests = [(path, load(path)) for path in find(config.tests)]
    method = f"executions of the model, depth first, equal states merged, at most {count(config.max_states)} a test"
    result = ProbeResult(NAME, Status.PASS, "", "model", method)
    observer.begin(result)
    statuses = []
    for number, (path, test) in enumerate(tests, start=1):
        observer.progress(f"{test.name}, {path}, {number} of {len(tests)}")
        answered = answered_by_model(test, config, observer)
        status, reason = judge(answered)
        statuses.append(status)
        result.rows.append(model_row(path, answered, status, reason))
    result.status = max(statuses, key=list(Status).index)
    result.verdict = _summary(result.rows)
    result.reason = complaint(result.rows)
    observer.result(result)
    return result


def answered_by_model(test: LitmusTest, config: LitmusConfig | TrialsConfig, observer: Observer) -> Answer:
    """Says now and then how far it is."""
    of_model = Bounds(
        config.max_states, MAX_STEPS, seconds=config.max_seconds, progress=told(f"{test.name}: {{}} states", observer)
    )
    of_axioms = Bounds(
        MOST_CANDIDATES,
        seconds=config.max_seconds,
        progress=told(f"{test.name}: {{}} candidates for an execution by the axioms", observer),
    )
    return answer(explore(test, of_model, config.tear), of_axioms)


def told(text: str, observer: Observer, clock: Callable[[], float] = time.monotonic) -> Callable[[int], None]:
    """Tells the observer a number, in this text, but not too often."""
    due = clock() + PROGRESS_S

    def progress(number: int) -> None:
        nonlocal due
        if clock() >= due:
            due = clock() + PROGRESS_S
            observer.progress(text.format(count(number)))

    return progress


def judge(answered: Answer) -> tuple[Status, str | None]:
    """What the answer means for a test that expects something; the reason if that is not a pass."""
    found, verdict = answered.found, answered.verdict
    expected = found.test.expectation
    if found.hang is not None and not expected.hangs:
        state = found.hang[-1].state if found.hang else found.model.start()
        return Status.HANG, f"an execution never ends: {'; '.join(stuck(found.model, state))}"
    if verdict == "undecided":
        return (Status.ERROR if expected.verdict else Status.WARN), f"undecided: {answered.reason}"
    if expected.verdict not in (None, verdict):
        return Status.FAIL, f"{verdict}, though the test says {expected.verdict}"
    if found.stopped and not found.hung:
        reason = f"{count(found.states)} states do not tell whether every execution ends; {STOPPED[found.stopped]}"
        return (Status.ERROR if expected.hangs else Status.WARN), reason
    if expected.hangs and not found.hung:
        return Status.FAIL, "no execution hangs, though the test says so"
    return (Status.INFO if expected.verdict is None else Status.PASS), None


def model_row(path: Path, answered: Answer, status: Status, reason: str | None) -> Row:
    """What the model says of one test."""
    found = answered.found
    test = found.test
    sought = found.sought
    return {
        "test": test.name,
        "file": path.name,
        "verdict": answered.verdict,
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
        "gaps": list(answered.gaps),
        "by_axioms": answered.decision is not None,
        "interleaving": _evidence(answered),
        "hanging": [] if found.hang is None else interleaving(found.model, found.hang),
    }


def _expected(test: LitmusTest) -> str | None:
    verdict = test.expectation.verdict
    return f"{verdict}, hangs" if test.expectation.hangs else verdict


def _evidence(answered: Answer) -> list[str]:
    """The shortest execution found that does what was asked for."""
    found, decision = answered.found, answered.decision
    if decision and decision.execution:
        return execution_text(found.test, decision.execution)
    paths = [found.execution(outcome) for outcome in found.sought]
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
    asked = sum(row["by_axioms"] for row in rows)
    axioms = f"; axioms asked for {asked}" if asked else ""
    return f"{tests}{agreement}: {counts}; {extent}, {count(sum(row['states'] for row in rows))} states{axioms}"


def complaint(rows: Sequence[Row]) -> str | None:
    """All that is wrong, or None."""
    return "; ".join(row["failed"] for row in rows if row["failed"]) or None
