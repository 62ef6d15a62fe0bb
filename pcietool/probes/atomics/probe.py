"""atomic-loss: does a count by several requesters on one word come out right, and if not, how much is lost?

The same count through single-writer slots stands beside it, and a plain load and store that must lose. Must not call
anything safe: no loss seen is no proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.errors import UsageError
from pcietool.machines.base import HOST, Machine, on_device
from pcietool.probes.atomics.config import AtomicsConfig, Grid
from pcietool.probes.atomics.counting import (
    CPU_CAN_JOIN,
    PLAIN,
    SLOTS,
    WIDE,
    WITHOUT_RED,
    Counter,
    Form,
    Requesters,
)
from pcietool.probes.atomics.rows import blank
from pcietool.probes.atomics.undoing import Storing, Undoer
from pcietool.probes.atomics.word_home import Home
from pcietool.probes.common.checks import check, first_failed, guard_check
from pcietool.probes.common.effort import effort_for
from pcietool.probes.common.options import Transport
from pcietool.probes.common.runner import Case, run_transports
from pcietool.probes.common.world import World
from pcietool.units import count, percent

NAME = "atomic-loss"
ALONE_SUFFICES: tuple[Transport, ...] = ("host", "self")
"""One GPU can count on host memory with the CPU, and in its own memory by itself."""
CONTROL_GRID = Grid(1, 32)
CONTROL_OPERATIONS = 4
ADD = Form("add", "red", "sys")
WHAT_IS_LOST: Mapping[str, str] = {
    "min": "smallest values", "max": "greatest values", "and": "bits", "or": "bits", "xor": "bits",
}  # fmt: skip
"""Where it is no increment."""
UNTRUSTED = "no count of this run can be trusted"
SHARED_LINE = (
    "a store with a single writer was lost there: keep slots and counted words on lines of their own, 128 bytes apart"
)
METHOD = (
    "every thread of the GPUs in a row counts on one word (min to xor: on one after the other), all begun together;"
    " grid: blocks x threads of each GPU; expected: increments made (min, max: words; and, or, xor: bits); seen: what"
    " the word shows afterwards (slots: their sum); 1-1/N: loss expected of N GPUs where an atomic is a read and a"
    " write; twice: how often an atom returned what another had returned"
)


@dataclass(frozen=True)
class Effort:
    """How much is counted."""

    grids: list[Grid]
    operations: int | None
    """Of each thread, if the user said so."""
    most_operations: int
    """Of each thread and ..."""
    most_operations_a_gpu: int
    """... of all threads of a GPU, otherwise."""
    stores: int
    """In each round in which RMWs change nothing."""

    @classmethod
    def of(cls, machine: Machine, config: AtomicsConfig) -> Effort:
        """Raises UsageError for more threads than a block can have."""
        asked = None if config.concurrency is None else list(map(Grid.parse, config.concurrency))
        effort = effort_for(
            machine,
            cuda=cls([Grid(1, 1), Grid(1, 32), Grid(8, 128), Grid(64, 256)], None, 2000, 327_680, 20_000),
            emulated=cls([Grid(1, 1), Grid(2, 32)], None, 128, 512, 48),
            grids=asked or None,
            operations=config.iterations,
        )
        most = min(device.max_threads_per_block for device in machine.devices)
        for grid in effort.grids:
            if grid.threads > most:
                raise UsageError(f"--concurrency {grid}: a block holds {most} threads at most; use more blocks")
        return effort

    def of_thread(self, grid: Grid) -> int:
        return self.operations or max(1, min(self.most_operations, self.most_operations_a_gpu // grid.size))


def forms_of(config: AtomicsConfig) -> list[Form]:
    """All that exist, in the order asked for."""
    return [
        Form(operation, kind, scope)
        for operation in config.operations
        for kind in config.kinds
        for scope in config.scopes
        if not (kind == "red" and operation in WITHOUT_RED)
    ]


AtomicsCase: TypeAlias = Case[AtomicsConfig, Effort]


def run(machine: Machine, config: AtomicsConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""
    _check(machine, config)
    return run_transports(
        NAME,
        machine,
        config,
        observer,
        lambda _: METHOD,
        lambda _: Effort.of(machine, config),
        _measure,
        ALONE_SUFFICES,
    )


def _check(machine: Machine, config: AtomicsConfig) -> None:
    """Raises UsageError for what cannot be run on this machine, or anywhere."""
    gpus = len(machine.devices)
    if config.home >= gpus:
        raise UsageError(f"--home {config.home}: no such GPU, there are {gpus}, numbered from 0")
    if config.inject and (gpus < 2 or config.transport == "self"):
        raise UsageError("--inject dead-rank needs two GPUs: one that is dead and one that waits for it")
    if not forms_of(config):
        raise UsageError("--kind red: cas and exch only exist with a result; use --kind atom or another --operation")


def _measure(case: AtomicsCase) -> None:
    """Raises Hung."""
    machine, config, effort, result = case.machine, case.config, case.effort, case.result
    owner = 0 if case.transport == "self" else config.home
    home = Home(machine, HOST if case.transport == "host" else on_device(owner))
    ranks = 1 if case.transport == "self" else case.ranks
    world = World.build(machine, case.transport, ranks, rows=2, deadline_s=config.timeout_s)
    counter = Counter(world, home.place, max(grid.size for grid in (*effort.grids, CONTROL_GRID)))
    forms = forms_of(config)
    if config.inject:
        gpus = tuple(range(len(machine.devices)))
        counter.run(forms[0], Requesters(gpus), effort.grids[0], 1, dead=gpus[-1])
    plan = list(_plan(home, case.transport, forms, effort.grids))
    for number, (form, requesters, grid) in enumerate(plan, start=1):
        case.progress(f"{form} by {requesters}, {grid}, {number} of {len(plan)}")
        result.rows.append(_row(counter, home, form, requesters, grid, effort.of_thread(grid)))
    result.checks += [*_neighbour(counter, home, len(world.tables), effort.most_operations), _control(world, owner)]
    for accessing, storing in _pairs(home, world):
        undoer = Undoer(world, home, effort.stores)
        case.progress(f"RMWs that change nothing by GPU {accessing}, under stores")
        result.rows += undoer.rows(accessing, storing)
        result.checks += undoer.control(accessing, storing)
        undoer.free()
    result.checks.append(guard_check(world))
    counter.free()
    world.free()
    result.status, result.verdict, result.reason = judge(result.rows, result.checks, home.name)


def _plan(
    home: Home, transport: Transport, forms: Sequence[Form], grids: Sequence[Grid]
) -> Iterator[tuple[Form, Requesters, Grid]]:
    """One thing varies at a time: who counts and with how many threads, by the first form of each operation; then the
    other forms, and the slots, where the most requesters count with the most threads."""
    everybody = home.requesters(transport)
    busiest = max(grids, key=lambda grid: grid.size)
    contended = [requesters for requesters in everybody if requesters.count > 1] or everybody
    firsts = [form for index, form in enumerate(forms) if form.operation not in {f.operation for f in forms[:index]}]
    for form in firsts:
        for requesters in everybody:
            for grid in grids:
                yield form, requesters, grid
    most = max(contended, key=lambda requesters: requesters.count)
    for form in forms:
        if form not in firsts:
            yield form, most, busiest
    for requesters in contended:
        yield SLOTS, requesters, busiest


def _pairs(home: Home, world: World) -> Iterator[tuple[int, Storing]]:
    """(whose RMWs change nothing, who stores meanwhile): another GPU over the weakest way, and the word's owner; in
    host memory a GPU and the CPU, and two GPUs."""
    gpus = world.devices
    if home.place.device is None:
        yield 0, "CPU"
        if len(gpus) > 1:
            yield 0, 1
    elif others := [gpu for gpu in gpus if gpu != home.place.device]:
        yield home.weakest(others), home.place.device


def _row(counter: Counter, home: Home, form: Form, requesters: Requesters, grid: Grid, operations: int) -> Row:
    row = blank(home, form, requesters, grid, operations)
    if reason := _why_not(home.machine, form, requesters):
        return row | {"reason": reason}
    came = counter.run(form, requesters, grid, operations)
    reason = came.reason
    if came.made < came.wanted:
        reason = f"cut short by --timeout after {count(came.made)} of {count(came.wanted)} operations"
    row["wanted"], row["made"], row["expected"] = came.wanted, came.made, came.expected
    if came.seen is not None:
        row["seen"] = came.seen
        row["lost"] = came.expected - came.seen
        row["lost_fraction"] = row["lost"] / came.expected
    row["repeated_old_values"] = came.repeated_old_values
    row["elapsed_us"] = came.elapsed_ns / 1e3
    row["ns_per_operation"] = came.elapsed_ns / (came.made / requesters.count)
    return row | {"reason": reason}


def _why_not(machine: Machine, form: Form, requesters: Requesters) -> str | None:
    if not requesters.cpu:
        return None
    if form.operation not in (*CPU_CAN_JOIN, "slots"):
        return f"the CPU thread counts by adding 1, so it cannot join {form.operation}"
    return machine.missing("host_agent")


# -- is it right? -----------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row], checks: Sequence[Row], home: str) -> tuple[Status, str, str | None]:
    """(status, verdict, reason). Loss is a failure where atomicity was promised: by the driver, by the word's owner
    being alone, or by each slot having one writer."""
    seen = [row for row in rows if row["seen"] is not None]
    counted = [row for row in seen if not row["storing"]]
    stored = [row for row in seen if row["storing"]]
    if not counted:
        return Status.ERROR, "nothing was counted", rows[0]["reason"] if rows else None
    for row in seen:
        if fault := _fault(row):
            return Status.FAIL, f"{home}: {_loss(row)}", fault
    failed = first_failed(checks)
    if failed and failed.get("severity") != "warn":
        return Status.FAIL, f"{failed['name']}: {failed['text']}", failed.get("reason", UNTRUSTED)
    cut = sum(row["made"] < row["wanted"] for row in counted)
    note = f"; {cut} of {len(counted)} counts cut short by --timeout" if cut else ""
    undone = max(stored, key=lambda row: row["lost_fraction"], default=None)
    if undone and undone["lost"]:
        note = f"; RMWs that change nothing undo stores: {_loss(undone)}{note}"
    worst = max(counted, key=lambda row: (row["lost_fraction"], row["expected"]))
    if worst["lost"]:
        advice = "count there with single-writer slots (0 lost), not with atomics"
        status, verdict = Status.INFO, f"{home}: {_loss(worst)}; {advice}{note}"
    else:
        native = all(row["native"] for row in counted)
        total = count(sum(row["expected"] for row in counted))
        promise = "native atomics" if native else "atomics are not native there; no proof that they work"
        status = Status.PASS if native else Status.INFO
        verdict = f"{home}: none seen lost in {total} {_what(*counted)} ({promise}){note}"
    if failed:
        return Status.WARN, verdict, f"{failed['name']}: {failed['text']}; {failed['reason']}"
    return status, verdict, None


def _loss(row: Row) -> str:
    if row["storing"]:
        return f"{percent(row['lost_fraction'])} of {count(row['expected'])} ({row['requesters_text']}; {row['form']})"
    by = f"({row['requesters_text']}, {row['concurrency']}, {row['form']})"
    if row["lost"] < 0:
        return f"{count(-row['lost'])} more seen than the {count(row['expected'])} {_what(row)} made {by}"
    return f"{percent(row['lost_fraction'])} of {count(row['expected'])} {_what(row)} lost {by}"


def _what(*rows: Row) -> str:
    """Of what rows show how much was lost."""
    names = {WHAT_IS_LOST.get(row["operation"], "increments") for row in rows}
    return names.pop() if len(names) == 1 else "operations"


def _fault(row: Row) -> str | None:
    """Why this count should have come out right, if it did not; None if nothing promised that."""
    if row["lost"] < 0:
        return "more was seen than was counted: something else writes to this memory"
    if not row["lost"]:
        return None
    if row["kind"] == "control":
        return "nobody else writes to that word, and stores to it were undone: something else does, or they are lost"
    if row["operation"] == SLOTS.operation:
        return "each slot has one writer, so stores are lost on the way: no protocol works there"
    if row["native_atomics"] == "local":
        return "the word's owner was alone: the GPU itself is at fault"
    if len(row["requesters"]) * row["blocks"] * row["threads"] == 1:
        return "one thread counted alone, each increment behind the one before: what crosses this link comes back wrong"
    if row["native"]:
        return f"the driver says that this path has native atomics ({row['native_atomics']}): do not believe it"
    return None


def _neighbour(counter: Counter, home: Home, gpus: int, operations: int) -> Iterator[Row]:
    """Is a word with a single writer safe beside one that another GPU counts on? An atomic that is a read and a write
    would lose its stores if it wrote back more than its own word, as the control does."""
    others = [gpu for gpu in range(gpus) if gpu != home.place.device]
    if gpus < 2:
        return
    counting, storing = others[0], next(gpu for gpu in range(gpus) if gpu != others[0])
    stores, lost = counter.beside(ADD, counting, storing, operations)
    yield check(
        "stores beside the counted word",
        not lost,
        f"{count(lost)} of {count(stores)} lost by GPU {storing} while GPU {counting} counted 4 bytes away",
        reason=SHARED_LINE,
    )
    if not home.is_native(Requesters((counting,)), ADD):
        stores, lost = counter.beside(WIDE, counting, storing, operations)
        yield check(
            "control: an atomic over both words loses stores",
            lost > 0,
            f"{count(lost)} of {count(stores)} lost to a 64-bit red",
            severity="warn",
            reason="that no store was lost beside the counted word proves nothing here",
        )


def _control(world: World, owner: int) -> Row:
    """A count that is not atomic must lose, in a GPU's own memory: else this program could not see a loss."""
    own = Counter(world, on_device(owner), CONTROL_GRID.size)
    came = own.run(PLAIN, Requesters((owner,)), CONTROL_GRID, CONTROL_OPERATIONS)
    own.free()
    assert came.seen is not None
    lost = came.expected - came.seen
    return check(
        "control: a plain load and store loses",
        lost > 0,
        f"{count(lost)} of {count(came.expected)} lost by {CONTROL_GRID.size} threads of GPU {owner}",
    )
