"""Do the checks of verify find what they are for? Every mutant must be found, every equivalent must not.

Must not decide what right data are; `trial_runner` makes the checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product
from typing import TypeAlias

from pcietool.contract.results import Row, Status
from pcietool.machines.base import CopyStream, Machine
from pcietool.probes.common.hangs import Hung
from pcietool.probes.common.options import Transport
from pcietool.probes.common.runner import Case
from pcietool.probes.verify.config import A_TRY, MOST_ITERATIONS, ROUTED, VerifyConfig
from pcietool.probes.verify.effort import STARTS, Effort
from pcietool.probes.verify.mutants import MUTANTS, Mutant
from pcietool.probes.verify.traffic import Traffic
from pcietool.probes.verify.trial import POINTS, Late, Trial
from pcietool.probes.verify.trial_runner import TrialRunner

BURSTS = 20
"""Launches of BURST iterations in which nobody is late but the links are busy, on GPUs: there a flag overtakes its
data. On idle links weak faults of messages hardly ever show."""
BURST = MOST_ITERATIONS
LATE_NS = 200_000
"""Longer than a consumer needs for a whole chunk, in host memory too."""
MUTANT_DEADLINE_S = 0.2
"""Of A_TRY iterations with a rank that is late, and of a burst. Most mutants that hang do so for ever; no honest
launch takes that long."""
EQUIVALENT_STEP = 5
"""Of all tries, every fifth: each point, all first sequence numbers, and most ranks come up."""
NOT_SENSITIVE = "not sensitive here"
BULK_NEEDS = (9, 0)


VerifyCase: TypeAlias = Case[VerifyConfig, Effort]


def prove_checks(case: VerifyCase) -> None:
    """One row a mutant. Raises Hung only where a kernel does not even end by its own deadline."""
    machine, config, result = case.machine, case.config, case.result
    runners = {"any": TrialRunner(machine, case.transport, case.effort, config.seed, config.timeout_s)}
    if reason := _failure(runners["any"], config):
        result.status, result.verdict, result.reason = Status.FAIL, "no mutant says anything here", reason
        runners["any"].free()
        return
    weakest = machine.in_random_order(config.seed)
    if weakest is not None:
        runners["weak"] = TrialRunner(weakest, case.transport, case.effort, config.seed, config.timeout_s)
    traffic = Traffic(runners["any"].world, "none" if weakest or machine.missing("copy_engine") else "all")
    chosen = [mutant for mutant in MUTANTS if mutant.entry in config.chosen_entries]
    for number, mutant in enumerate(chosen, start=1):
        case.progress(f"{mutant.entry}: {mutant.name}, {number} of {len(chosen)}")
        runner = runners.get(mutant.order, runners["any"])
        result.rows.append(_row(mutant, machine, case.transport, runner, traffic.streams, weakest is not None))
    traffic.free()
    for runner in runners.values():
        runner.free()
    if weakest is not None:
        weakest.close()
    result.status, result.verdict, result.reason = judge(result.rows)


def _failure(runner: TrialRunner, config: VerifyConfig) -> str | None:
    """What is wrong where nothing was broken: a machine that fails by itself would kill every mutant. Raises Hung."""
    for entry in config.chosen_entries:
        report = runner.run(runner.entry(entry, None), Trial(runner.effort.iterations))
        if report.hang:
            raise Hung(report.hang, f"{entry} as it is: no mutant says anything here")
        if report.findings:
            return f"{entry} as it is: {report.findings[0].text}"
    return None


def _row(
    mutant: Mutant,
    machine: Machine,
    transport: Transport,
    runner: TrialRunner,
    traffic: tuple[CopyStream, ...],
    emulated: bool,
) -> Row:
    row: Row = {
        "mutant": mutant.name,
        "entry": mutant.entry,
        "order": mutant.order,
        "expected": "survives" if mutant.survives else "killed",
        "outcome": None,
        "killed_by": None,
        "tries": 0,
        "how": None,
        "found": None,
    }
    if reason := _why_not(mutant, machine, transport):
        return row | {"outcome": "waived", "reason": reason}
    for trial in (*_tries(mutant, runner.effort), *_bursts(mutant, emulated)):
        row["tries"] += 1
        deadline_s = MUTANT_DEADLINE_S * (trial.iterations / A_TRY if trial.late else 1)
        streams = () if trial.late else traffic
        report = runner.run(runner.entry(mutant.entry, mutant.distribution), trial, streams, deadline_s)
        if report.hang and report.hang.limit == "host join timeout":
            raise Hung(report.hang, f"{mutant.entry}: {mutant.name}")
        if report.findings:
            first = report.findings[0]
            how = f"{trial.late or 'links busy'}, from sequence {trial.start}"
            return row | {"outcome": "killed", "killed_by": first.check, "how": how, "found": first.text}
    if mutant.survives or emulated:
        return row | {"outcome": "survived"}
    return row | {"outcome": NOT_SENSITIVE}


def _tries(mutant: Mutant, effort: Effort) -> Iterator[Trial]:
    """Who is late, where, and the first sequence number; all of them, few for an equivalent."""
    every = product((*STARTS[1:], STARTS[0]), POINTS, range(effort.ranks))
    for start, point, rank in islice(every, 0, None, EQUIVALENT_STEP if mutant.survives else 1):
        yield Trial(effort.iterations, start, Late(rank, point, LATE_NS), defines=mutant.defines)


def _bursts(mutant: Mutant, emulated: bool) -> Iterator[Trial]:
    if not emulated and mutant.order == "weak" and mutant.entry not in ROUTED:
        yield from (Trial(BURST, defines=mutant.defines) for _ in range(BURSTS))


def _why_not(mutant: Mutant, machine: Machine, transport: Transport) -> str | None:
    """Why this is no mutant, or cannot be made, on this transport."""
    if mutant.needs == "two GPUs" and transport == "self":
        return "gpu scope: on one GPU gpu scope is enough"
    if mutant.needs == "two requesters" and not _loses(machine, transport):
        return "remote RMW counter: needs two requesters over links without native atomics"
    if mutant.needs == "native" and not _native(machine, transport):
        return "native link: remote RMW needs native atomics on all links"
    if mutant.needs == "bulk" and any(device.compute_capability < BULK_NEEDS for device in machine.devices):
        return "bulk stores need sm_90 or newer"
    return None


def _native(machine: Machine, transport: Transport) -> bool:
    return transport == "self" or _native_atomics(machine, transport) == {"full"}


def _loses(machine: Machine, transport: Transport) -> bool:
    """Do two GPUs or more increment each word over links without native atomics? A rank's own memory is no link."""
    if transport == "self" or len(machine.devices) < (2 if transport == "host" else 3):
        return False
    return _native_atomics(machine, transport) == {"none"}


def _native_atomics(machine: Machine, transport: Transport) -> set[str]:
    """Of every link that this transport takes between GPUs, or between GPUs and the host."""
    devices = range(len(machine.devices))
    if transport == "host":
        return {machine.host_link(device).native_atomics for device in devices}
    return {machine.link(src, dst).native_atomics for src, dst in permutations(devices, 2)}


def judge(rows: Sequence[Row]) -> tuple[Status, str, str | None]:
    """(status, verdict, reason): a mutant that survives is as bad as wrong data, and so is a killed equivalent."""
    run = [row for row in rows if row["outcome"] != "waived"]
    mutants = [row for row in run if row["expected"] == "killed"]
    equivalents = [row for row in run if row["expected"] == "survives"]
    killed = sum(row["outcome"] == "killed" for row in mutants)
    survived = sum(row["outcome"] == "survived" for row in equivalents)
    verdict = f"{killed} of {len(mutants)} mutants killed, {survived} of {len(equivalents)} equivalents survive"
    insensitive = sum(row["outcome"] == NOT_SENSITIVE for row in mutants)
    if insensitive:
        verdict += f", {insensitive} not sensitive here"
    for row in mutants:
        if row["outcome"] == "survived":
            return Status.FAIL, verdict, f"{row['entry']}: {row['mutant']}: not found in {row['tries']} tries"
    for row in equivalents:
        if row["outcome"] == "killed":
            return Status.FAIL, verdict, f"{row['entry']}: {row['mutant']}: false alarm: {row['found']}"
    if not run:
        return Status.WAIVED, "not run", "; ".join(dict.fromkeys(row["reason"] for row in rows))
    return Status.WARN if insensitive else Status.PASS, verdict, None
