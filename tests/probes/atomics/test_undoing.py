"""Whether RMWs that change nothing undo a writer's stores: on both machines, and what the probe makes of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pcietool.contract.results import ProbeResult, Row, Status
from pcietool.machines.base import HOST, Machine, on_device
from pcietool.machines.devices import Link
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics import undoing
from pcietool.probes.atomics.config import AtomicsConfig
from pcietool.probes.atomics.probe import run
from pcietool.probes.atomics.undoing import CONTROLS, RMWS, Storing, Undoer
from pcietool.probes.atomics.word_home import Home
from pcietool.probes.common.world import World
from tests.listening import Listener
from tests.probes.atomics.test_atomics_verdict import one_native_pair

NATIVE, NOT_NATIVE = "h200-nvlink2", "pcie5-switch4"


@contextmanager
def undoer_on(machine: Machine, home: int | None, stores: int = 40, deadline_s: float = 2.0) -> Iterator[Undoer]:
    """For a word in host memory (home None) or on a GPU."""
    world = World.build(machine, "host" if home is None else "peer", len(machine.devices), 2, deadline_s)
    undoer = Undoer(world, Home(machine, HOST if home is None else on_device(home)), stores)
    yield undoer
    undoer.free()
    world.free()


def measure(machine: EmulatedMachine, **options: Any) -> ProbeResult:
    config = AtomicsConfig(iterations=2, kinds=("atom",), scopes=("sys",), concurrency=("1x1",), **options)
    (result,) = run(machine, config, Listener())
    return result


def stored(result: ProbeResult) -> list[Row]:
    return [row for row in result.rows if row["storing"]]


def test_a_cpu_sees_what_undoes_its_stores_and_nothing_else(machine: Machine) -> None:
    if reason := machine.missing("host_agent"):
        pytest.skip(reason)
    with undoer_on(machine, None, 40 if machine.backend == "emulated" else 5000) as undoer:
        rows = {row["operation"]: row for row in undoer.rows(0, "CPU")}
        (control,) = undoer.control(0, "CPU")
    assert control["passed"]
    for form in (*RMWS, *CONTROLS):
        row = rows[form.operation]
        assert row["made"] == row["wanted"] == row["expected"]
        assert row["accesses"] > 0
        assert row["lost"] == row["expected"] - row["seen"]
        if form.kind == "control" or row["native"]:
            assert row["lost"] == 0


@pytest.mark.parametrize(("home", "accessing", "storing"), [(None, 0, "CPU"), (None, 0, 1), (0, 1, 0)])
def test_every_rmw_undoes_stores_where_atomics_are_not_native(
    home: int | None, accessing: int, storing: Storing
) -> None:
    with EmulatedMachine.open(NOT_NATIVE, range(2)) as machine, undoer_on(machine, home) as undoer:
        rows = list(undoer.rows(accessing, storing))
    writer = "CPU" if storing == "CPU" else f"GPU {storing}"
    assert [row["operation"] for row in rows] == [form.operation for form in (*RMWS, *CONTROLS)]
    for row in rows:
        assert row["requesters"] == [f"GPU {accessing}", writer]
        assert (row["native"], row["made"], row["reason"]) == (False, 40, None)
        assert (row["lost"] > 20) == (row["kind"] == "no-op")
        assert (row["predicted_lost_fraction"] == 0) == (row["kind"] == "control")
    assert {row["lost"] for row in rows if row["kind"] == "control"} == {0}


def test_none_undoes_a_store_where_they_are_native_though_a_load_and_a_store_does() -> None:
    with EmulatedMachine.open(NATIVE) as machine, undoer_on(machine, 0) as undoer:
        rows = list(undoer.rows(1, 0))
        (control,) = undoer.control(1, 0)
    assert {(row["lost"], row["predicted_lost_fraction"]) for row in rows} == {(0, 0.0)}
    assert all(row["native"] for row in rows if row["kind"] == "no-op")
    assert control["passed"]


@pytest.mark.parametrize(("home", "accessing", "storing"), [(None, 0, "CPU"), (None, 0, 1), (0, 1, 0)])
def test_stores_end_at_half_of_the_deadline(home: int | None, accessing: int, storing: Storing) -> None:
    with EmulatedMachine.open(NOT_NATIVE, range(2)) as machine, undoer_on(machine, home, 1000, 500e-6) as undoer:
        row = next(undoer.rows(accessing, storing))
    assert 10 < row["made"] < 100
    assert row["expected"] == row["made"]
    assert row["reason"] == "cut short by --timeout"


def test_undone_stores_stand_in_the_verdict_beside_the_loss() -> None:
    with EmulatedMachine.open(NOT_NATIVE, range(2)) as machine:
        result = measure(machine, transport="host")
    worst = max(stored(result), key=lambda row: row["lost_fraction"])
    assert result.status is Status.INFO
    assert {row["storing"] for row in stored(result)} == {"CPU", "GPU 1"}
    text = f"{100 * worst['lost_fraction']:.1f} % of 48 ({worst['requesters_text']}; {worst['form']})"
    assert f"RMWs that change nothing undo stores: {text}" in result.verdict


def test_the_weakest_way_is_taken() -> None:
    """GPU 1 has native atomics on the memory of GPU 0, and GPU 2 has not."""
    with one_native_pair() as machine:
        result = measure(machine, transport="peer")
    assert {row["requesters_text"] for row in stored(result)} == {"GPU 2, GPU 0 stores"}
    assert {row["native_atomics"] for row in stored(result)} == {"none"}


class Liar(EmulatedMachine):
    """Says that its peers have native atomics, which they do not."""

    def link(self, src: int, dst: int) -> Link:
        return replace(super().link(src, dst), native_atomics="full")


def test_stores_undone_where_the_driver_says_native_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = EmulatedMachine.open(NOT_NATIVE)
    with Liar(honest.spec, range(2), 0) as liar:
        (result,) = run(liar, AtomicsConfig(transport="peer", iterations=1, concurrency=("1x1",)), Listener())
    row = next(row for row in stored(result) if row["kind"] == "no-op")
    assert row["native"]
    assert row["lost"] > 0
    assert result.status is Status.FAIL
    assert "do not believe it" in (result.reason or "")


def test_who_sees_no_store_undone_by_a_load_and_a_store_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undoing, "PLAIN", "load")
    with EmulatedMachine.open(NATIVE) as machine:
        result = measure(machine, transport="peer")
    assert result.status is Status.WARN
    text = "control: a plain load and store undoes stores: 0 of 48 by GPU 0 undone by GPU 1"
    assert result.reason == f"{text}; that an RMW undid no store proves nothing here"


class WithoutCpu(EmulatedMachine):
    def missing(self, capability: str) -> str | None:
        return "libatomic.so.1 is missing" if capability == "host_agent" else None


def test_without_a_cpu_thread_the_rows_say_so() -> None:
    honest = EmulatedMachine.open(NATIVE, range(1))
    with WithoutCpu(honest.spec, range(1), 0) as machine:
        result = measure(machine, transport="host")
    assert stored(result)
    assert {(row["seen"], row["reason"]) for row in stored(result)} == {(None, "libatomic.so.1 is missing")}
    assert not any("undoes" in check["name"] for check in result.checks)


def test_one_gpu_in_its_own_memory_has_nobody_who_stores() -> None:
    with EmulatedMachine.open(NATIVE, range(1)) as machine:
        assert not stored(measure(machine, transport="self"))
