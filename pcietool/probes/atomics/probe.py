"""atomic-loss: does a count by several requesters on one word come out right, and if not, how much is lost?

The same count through single-writer slots stands beside it, and a plain load and store that must lose. Must not call
anything safe: no loss seen is no proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

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
from pcietool.probes.atomics.word_home import Home
from pcietool.probes.common.options import Transport
from pcietool.probes.common.runner import run_each
from pcietool.probes.common.world import World, runnable
from pcietool.units import count, percent

NAME = "atomic-loss"
ALONE_SUFFICES: tuple[Transport, ...] = ("host", "self")
"""One GPU can count on host memory with the CPU, and in its own memory by itself."""
CONTROL_GRID = Grid(1, 32)
CONTROL_OPERATIONS = 4
ADD = Form("add", "red", "sys")
UNTRUSTED = "no count of this run can be trusted"
SHARED_LINE = (
    "a store with a single writer was lost there: keep slots and counted words on lines of their own, 128 bytes apart"
)
METHOD = (
    "every thread of the GPUs in a row adds to one word, all begun together; grid: blocks x threads of each GPU;"
    " expected: increments made; seen: what the word shows afterwards (slots: their sum); 1-1/N: loss expected of N"
    " GPUs where an atomic is a read and a write; twice: how often an atom returned what another had returned"
)


@dataclass(frozen=True)
class Effort:
    """How much is counted: much on a GPU, little where every instruction is emulated."""

    grids: list[Grid]
    operations: int | None
    """Of each thread, if the user said so."""
    most_operations: int
    """Of each thread and ..."""
    most_operations_a_gpu: int
    """... of all threads of a GPU, otherwise."""

    @classmethod
    def of(cls, machine: Machine, config: AtomicsConfig) -> Effort:
        on_gpus = machine.backend == "cuda"
        usual = ("1x1", "1x32", "8x128", "64x256") if on_gpus else ("1x1", "2x32")
        grids = [Grid.parse(text) for text in config.concurrency or usual]
        most = min(device.max_threads_per_block for device in machine.devices)
        for grid in grids:
            if grid.threads > most:
                raise UsageError(f"--concurrency {grid}: a block holds {most} threads at most; use more blocks")
        return cls(grids, config.iterations, *((2000, 327_680) if on_gpus else (128, 512)))

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


def run(machine: Machine, config: AtomicsConfig, observer: Observer) -> list[ProbeResult]:
    """One result a transport. A transport asked for by name that cannot run raises UsageError."""
    _check(machine, config)

    def measure(transport: Transport, result: ProbeResult) -> None:
        _measure(machine, transport, config, observer, result)

    return run_each(
        NAME, runnable(machine, config.transport, ALONE_SUFFICES), lambda transport: METHOD, measure, observer
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


def _measure(
    machine: Machine, transport: Transport, config: AtomicsConfig, observer: Observer, result: ProbeResult
) -> None:
    """Raises Hung."""
    effort = Effort.of(machine, config)
    result.effort = asdict(effort)
    owner = 0 if transport == "self" else config.home
    home = Home(machine, HOST if transport == "host" else on_device(owner))
    world = World.build(machine, transport, 1 if transport == "self" else len(machine.devices), rows=2)
    most_threads = max(grid.size for grid in (*effort.grids, CONTROL_GRID))
    counter = Counter(machine, world, home.place, most_threads, config.timeout_s)
    forms = forms_of(config)
    if config.inject:
        gpus = tuple(range(len(machine.devices)))
        counter.run(forms[0], Requesters(gpus), effort.grids[0], 1, dead=gpus[-1])
    for form, requesters, grid in _plan(home, transport, forms, effort.grids):
        observer.progress(f"{transport}: {form} by {requesters}, {grid}")
        result.rows.append(_row(counter, home, form, requesters, grid, effort.of_thread(grid)))
    result.checks += [
        *_neighbour(counter, home, len(world.tables), effort.most_operations),
        _control(machine, world, transport, owner, config),
        _guards(world),
    ]
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


def _row(counter: Counter, home: Home, form: Form, requesters: Requesters, grid: Grid, operations: int) -> Row:
    predicted, unpredictable = home.predicted(requesters, form)
    row: Row = {
        "home": home.name,
        "requesters": requesters.names,
        "requesters_text": str(requesters),
        "operation": form.operation,
        "kind": form.kind,
        "scope": form.scope,
        "form": str(form),
        "blocks": grid.blocks,
        "threads": grid.threads,
        "concurrency": str(grid),
        "operations_per_thread": operations,
        "native_atomics": home.driver_says(requesters),
        "native": home.is_native(requesters, form),
        "wanted": None,
        "expected": None,
        "seen": None,
        "lost": None,
        "lost_fraction": None,
        "predicted_lost_fraction": predicted,
        "predicted_reason": unpredictable,
        "repeated_old_values": None,
        "elapsed_us": None,
        "ns_per_operation": None,
    }
    if reason := _why_not(home.machine, form, requesters):
        return {**row, "reason": reason}
    came = counter.run(form, requesters, grid, operations)
    reason = came.reason
    if came.expected < came.wanted:
        reason = f"cut short by --timeout after {count(came.expected)} of {count(came.wanted)} operations"
    row["wanted"], row["expected"] = came.wanted, came.expected
    if came.seen is not None:
        row["seen"] = came.seen
        row["lost"] = came.expected - came.seen
        row["lost_fraction"] = row["lost"] / came.expected
    row["repeated_old_values"] = came.repeated_old_values
    row["elapsed_us"] = came.elapsed_ns / 1e3
    row["ns_per_operation"] = came.elapsed_ns / (came.expected / requesters.count)
    return {**row, "reason": reason}


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
    counted = [row for row in rows if row["seen"] is not None]
    if not counted:
        return Status.ERROR, "nothing was counted", rows[0]["reason"] if rows else None
    for row in counted:
        if fault := _fault(row):
            return Status.FAIL, f"{home}: {_loss(row)}", fault
    blunt = next((check for check in checks if not check["passed"] and check.get("severity") == "warn"), None)
    for check in checks:
        if not check["passed"] and check is not blunt:
            return Status.FAIL, f"{check['name']}: {check['text']}", check.get("reason", UNTRUSTED)
    cut = sum(row["expected"] < row["wanted"] for row in counted)
    note = f"; {cut} of {len(counted)} counts cut short by --timeout" if cut else ""
    worst = max(counted, key=lambda row: (row["lost_fraction"], row["expected"]))
    if worst["lost"]:
        advice = "count there with single-writer slots (0 lost), not with atomics"
        status, verdict = Status.INFO, f"{home}: {_loss(worst)}; {advice}{note}"
    else:
        native = all(row["native"] for row in counted)
        total = count(sum(row["expected"] for row in counted))
        promise = "native atomics" if native else "atomics are not native there; no proof that they work"
        status = Status.PASS if native else Status.INFO
        verdict = f"{home}: none seen lost in {total} increments ({promise}){note}"
    if blunt:
        return Status.WARN, verdict, f"{blunt['name']}: {blunt['text']}; {blunt['reason']}"
    return status, verdict, None


def _loss(row: Row) -> str:
    by = f"({row['requesters_text']}, {row['concurrency']}, {row['form']})"
    if row["lost"] < 0:
        return f"{count(-row['lost'])} more seen than the {count(row['expected'])} increments made {by}"
    return f"{percent(row['lost_fraction'])} of {count(row['expected'])} increments lost {by}"


def _fault(row: Row) -> str | None:
    """Why this count should have come out right, if it did not; None if nothing promised that."""
    if row["lost"] < 0:
        return "more was seen than was counted: something else writes to this memory"
    if not row["lost"]:
        return None
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
    yield {
        "name": "stores beside the counted word",
        "passed": not lost,
        "text": f"{count(lost)} of {count(stores)} lost by GPU {storing} while GPU {counting} counted 4 bytes away",
        "reason": SHARED_LINE,
    }
    if not home.is_native(Requesters((counting,)), ADD):
        stores, lost = counter.beside(WIDE, counting, storing, operations)
        yield {
            "name": "control: an atomic over both words loses stores",
            "passed": lost > 0,
            "severity": "warn",
            "text": f"{count(lost)} of {count(stores)} lost to a 64-bit red",
            "reason": "that no store was lost beside the counted word proves nothing here",
        }


def _control(machine: Machine, world: World, transport: Transport, owner: int, config: AtomicsConfig) -> Row:
    """A count that is not atomic must lose, in a GPU's own memory: else this program could not see a loss."""
    own = Counter(machine, world, on_device(owner), CONTROL_GRID.size, config.timeout_s)
    came = own.run(PLAIN, Requesters((owner,)), CONTROL_GRID, CONTROL_OPERATIONS)
    own.free()
    assert came.seen is not None
    lost = came.expected - came.seen
    return {
        "name": "control: a plain load and store loses",
        "passed": lost > 0,
        "text": f"{count(lost)} of {count(came.expected)} lost by {CONTROL_GRID.size} threads of GPU {owner}",
    }


def _guards(world: World) -> Row:
    damage = world.damaged_guards()
    return {"name": "guard words", "passed": not damage, "text": "; ".join(damage) or "untouched"}
