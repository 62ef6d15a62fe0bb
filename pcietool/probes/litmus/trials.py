"""Which outcomes of a litmus test a machine shows, beside those that the model allows.

What is forbidden and seen is a failure; what is allowed and not seen is no news. Must not call anything impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.litmus.describe import outcome_text
from pcietool.litmus.explore import is_sought
from pcietool.litmus.model.search import Outcome
from pcietool.litmus.text.cuda_source import cuda_source, gpus_of, has_loop, inexpressible
from pcietool.litmus.text.library import find, load
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import LitmusTest
from pcietool.litmus.verdict import Answer, verdict_on
from pcietool.machines.base import Machine, Program
from pcietool.probes.common.checks import check
from pcietool.probes.common.runner import run_each
from pcietool.probes.common.world import no_access
from pcietool.probes.litmus import vectors
from pcietool.probes.litmus.config import Placement, TrialsConfig
from pcietool.probes.litmus.machine import Trials, homes, not_native
from pcietool.probes.litmus.probe import NAME, answered_by_model, complaint, judge, model_row
from pcietool.units import count

CONTROL_TRIALS = 4096
CONTROL = """PTX overlap
{{ x=0; }}
 P0@cta 0,gpu 0         | P1@cta {cta},gpu {gpu}     ;
 ld.relaxed.sys r0, x   | ld.relaxed.sys r0, x   ;
 add r0, r0, 1          | add r0, r0, 1          ;
 st.relaxed.sys x, r0   | st.relaxed.sys x, r0   ;
exists (x = 1)
"""
"""Two threads that overlap lose an increment; two that never meet do not."""


@dataclass(frozen=True)
class Prepared:
    """A test as the model found it, and as the machine runs it."""

    path: Path
    answered: Answer
    program: Program | None
    """None: `reason`."""
    reason: str | None


def run(machine: Machine, config: TrialsConfig, observer: Observer) -> list[ProbeResult]:
    """One result a placement, one row a test. Raises ConfigError, before anything runs, for tests that are not there
    or broken."""
    tests = [(path, load(path)) for path in find(config.tests)]
    with machine.in_random_order(config.seed, tear=config.tear) or nullcontext(machine) as weakest:
        return _run(weakest, tests, config, observer)


def _run(
    machine: Machine, tests: Sequence[tuple[Path, LitmusTest]], config: TrialsConfig, observer: Observer
) -> list[ProbeResult]:
    prepared: dict[Path, Prepared] = {}

    def measure(placement: Placement, result: ProbeResult) -> None:
        result.effort = {"trials": config.trials, "control_trials": CONTROL_TRIALS}
        result.checks.append(_control(machine, placement, config))
        whole = vectors.measure(machine, placement, config)
        result.checks.append(vectors.wholeness_check(whole, config))
        for number, (path, test) in enumerate(tests, start=1):
            observer.progress(f"{placement}: {test.name}, {number} of {len(tests)}")
            if path not in prepared:
                prepared[path] = _prepare(machine, path, test, config, observer)
            doubt = None if config.tear else vectors.torn_there(test, whole)
            result.rows.append(_row(machine, prepared[path], placement, config, doubt))
        result.status, result.verdict, result.reason = summary(result.rows)
        result.verdict += f"; vector bytes whole: {', '.join(map(str, whole))}"

    return run_each(NAME, config.placements, _method, measure, observer)


def _method(placement: Placement) -> str:
    where = {
        "peer": "each variable in the memory of the last thread that reads it",
        "writer": "each variable in the memory of the first thread that writes it",
        "host": "all variables in pinned host memory",
    }
    return (
        f"{where[placement]}; each trial on words of its own; seen: trials that end as the question asks; outcomes: how"
        " many different ones were seen"
    )


def _prepare(machine: Machine, path: Path, test: LitmusTest, config: TrialsConfig, observer: Observer) -> Prepared:
    answered = answered_by_model(test, config, observer)
    reason = _why_not(machine, test)
    return Prepared(path, answered, None if reason else machine.load_text(path.name, cuda_source(test)), reason)


def _why_not(machine: Machine, test: LitmusTest) -> str | None:
    """Why this machine cannot run the test, wherever its variables lie."""
    needed, there = len(gpus_of(test)), len(machine.devices)
    if reason := inexpressible(test):
        return reason
    if machine.backend == "cuda" and has_loop(test):
        return "has a loop, which may block; runs on the model and emulated only"
    if needed > there:
        return f"needs {needed} GPUs and there {'is one' if there == 1 else f'are {there}'}"
    return None


def _row(
    machine: Machine, prepared: Prepared, placement: Placement, config: TrialsConfig, torn_there: str | None
) -> Row:
    answered = prepared.answered
    test = answered.found.test
    status, fault = judge(answered)
    row = model_row(prepared.path, answered, status, fault) | {
        "place": placement,
        "seed": config.seed,
        "trials": None,
        "seen": None,
        "outcome_count": None,
        "note": None,
        "elapsed_us": None,
        "reason": prepared.reason,
    }
    waived = {"status": max(status, Status.WAIVED, key=_severity).value}
    if prepared.program is None:
        return row | waived
    if placement != "host" and (blocked := no_access(machine, len(gpus_of(test)))):
        return row | waived | {"reason": f"{blocked}; --place host works without"}
    places = homes(test, placement)
    doubt = not_native(machine, test, places)
    if doubt and has_loop(test):
        return row | waived | {"reason": f"{doubt}: its loop may never end"}
    trials = Trials(machine, test, prepared.program, places, config.seed)
    counts, elapsed_ns = trials.run(config.trials, config.timeout_s)
    trials.free()
    doubt = doubt or torn_there
    return row | judged(answered, counts, doubt) | {"elapsed_us": elapsed_ns / 1e3, "reason": doubt}


# -- what it means ----------------------------------------------------------------------------------------------------


def summary(rows: Sequence[Row]) -> tuple[Status, str, str | None]:
    """(status, verdict, reason) of all tests; those that were waived only count if nothing else ran."""
    ran = [row for row in rows if row["trials"]]
    waived = len(rows) - len(ran)
    statuses = [Status(row["status"]) for row in rows]
    status = max([one for one in statuses if one is not Status.WAIVED] or statuses, key=_severity)
    if not ran:
        return status, "nothing ran", next(row["reason"] for row in rows)
    texts = []
    for verdict in ("allowed", "forbidden", "undecided"):
        group = [row for row in ran if row["verdict"] == verdict]
        if group:
            texts.append(f"{sum(row['seen'] > 0 for row in group)} of {len(group)} {verdict}")
    tests = "1 test" if len(ran) == 1 else f"{len(ran)} tests"
    left_out = f"; {waived} waived" if waived else ""
    text = f"{tests}, {count(ran[0]['trials'])} trials each; seen of what the model calls: {', '.join(texts)}{left_out}"
    return status, text, complaint(rows)


def judged(answered: Answer, counts: Counter[Outcome], doubt: str | None) -> Row:
    """The part of a row that says what was seen. `doubt`: why the model's promise does not hold here."""
    found, verdict = answered.found, answered.verdict
    trials = count(counts.total())
    seen = sum(number for outcome, number in counts.items() if is_sought(found.test, outcome))
    verdicts = {outcome: verdict_on(answered, outcome) for outcome in sorted(counts)}
    forbidden = [outcome for outcome, one in verdicts.items() if one == "forbidden"]
    status, fault = judge(answered)
    note = None
    if forbidden:
        which = ", ".join(f"{outcome_text(found, outcome)} {_times(counts[outcome])}" for outcome in forbidden)
        note = f"forbidden: {which}"
        status = max(status, Status.INFO if doubt else Status.FAIL, key=_severity)
        fault = fault if doubt else f"{note} of {trials}"
    elif seen and verdict == "undecided":
        expected = found.test.expectation
        is_wrong = expected.stated and expected.verdict == "forbidden"
        note = f"seen, {'though the test says forbidden' if is_wrong else 'and undecided'}"
        status = max(status, Status.FAIL if is_wrong else Status.INFO, key=_severity)
    elif not seen and verdict != "forbidden":
        note = f"not seen in {trials}"
        status = max(status, Status.INFO, key=_severity)
    return {
        "status": status.value,
        "failed": fault and f"{found.test.name}: {fault}",
        "trials": counts.total(),
        "seen": seen,
        "outcome_count": len(counts),
        "outcomes": [
            {
                "text": outcome_text(found, outcome),
                "sought": is_sought(found.test, outcome),
                "verdict": verdicts.get(outcome, "allowed"),
                "count": counts[outcome],
            }
            for outcome in sorted(found.outcomes.keys() | counts.keys())
        ],
        "note": note,
    }


def _times(number: int) -> str:
    return "once" if number == 1 else f"{count(number)} times"


def _severity(status: Status) -> int:
    return list(Status).index(status)


def _control(machine: Machine, placement: Placement, config: TrialsConfig) -> Row:
    """Threads that never overlap show nothing, whatever the machine does."""
    alone = len(machine.devices) == 1 or (placement != "host" and no_access(machine, 2) is not None)
    test = parse_litmus(CONTROL.format(cta=int(alone), gpu=int(not alone)))
    program = machine.load_text("overlap.litmus", cuda_source(test))
    trials = Trials(machine, test, program, homes(test, placement), config.seed)
    counts, _ = trials.run(CONTROL_TRIALS, config.timeout_s)
    trials.free()
    lost = sum(number for outcome, number in counts.items() if is_sought(test, outcome))
    text = (
        f"a load and a store by each of two threads lost an increment in {count(lost)} of {count(CONTROL_TRIALS)}"
        " trials"
    )
    return check("control: threads overlap", lost > 0, text, severity="warn")
