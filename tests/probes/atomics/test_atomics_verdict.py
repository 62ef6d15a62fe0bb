"""What counts mean: the verdict of atomic-loss, and what drivers promise. No machine counts here."""

from typing import Any

import pytest

from pcietool.contract.results import Row, Status
from pcietool.emulator.fabric.fabric import FabricSpec, load_fabric
from pcietool.machines.base import HOST, on_device
from pcietool.machines.devices import Device, HostLink
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics.config import AtomicsConfig
from pcietool.probes.atomics.counting import Form, Requesters
from pcietool.probes.atomics.probe import judge, run
from pcietool.probes.atomics.word_home import Home
from tests.listening import Listener


def row(
    seen: int | None,
    native_atomics: str = "none",
    operation: str = "add",
    expected: int = 100,
    wanted: int | None = None,
    gpus: int = 2,
) -> Row:
    return {
        "home": "host memory",
        "requesters": [f"GPU {gpu}" for gpu in range(gpus)],
        "requesters_text": "GPUs 0,1",
        "storing": None,
        "kind": "atom",
        "blocks": 1,
        "threads": 1,
        "operation": operation,
        "form": operation,
        "concurrency": "1x1",
        "native_atomics": native_atomics,
        "native": native_atomics in ("full", "local"),
        "wanted": wanted or expected,
        "made": expected,
        "expected": expected,
        "seen": seen,
        "lost": None if seen is None else expected - seen,
        "lost_fraction": None if seen is None else (expected - seen) / expected,
        "reason": "nobody counted" if seen is None else None,
    }


def undone(seen: int, native_atomics: str = "none", kind: str = "no-op") -> Row:
    return row(seen, native_atomics) | {
        "requesters_text": "GPU 0, CPU stores",
        "storing": "CPU",
        "kind": kind,
        "operation": "cas",
        "form": "no-op cas",
    }


FAILED = {"name": "control", "passed": False, "text": "0 of 128 lost"}


@pytest.mark.parametrize(
    ("rows", "checks", "status", "words"),
    [
        ([row(51)], [], Status.INFO, "49.0 % of 100 increments lost"),
        ([row(51), row(9000, expected=10_000)], [], Status.INFO, "49.0 % of 100 increments lost"),
        ([row(51), row(100, wanted=200)], [], Status.INFO, "; 1 of 2 counts cut short by --timeout"),
        ([row(100, "full", wanted=200)], [], Status.PASS, "; 1 of 1 counts cut short by --timeout"),
        ([row(100)], [], Status.INFO, "not native"),
        ([row(100, "full"), row(100, "local")], [], Status.PASS, "none seen lost in 200"),
        ([row(99, "full")], [], Status.FAIL, "do not believe it"),
        ([row(99, "local")], [], Status.FAIL, "the GPU itself is at fault"),
        ([row(101)], [], Status.FAIL, "something else writes"),
        ([row(99, gpus=1)], [], Status.FAIL, "one thread counted alone"),
        ([row(100, gpus=1)], [], Status.INFO, "not native"),
        ([row(51), row(99, operation="slots")], [], Status.FAIL, "stores are lost on the way"),
        ([row(51)], [FAILED], Status.FAIL, "no count of this run can be trusted"),
        ([row(51, operation="xor")], [], Status.INFO, "49.0 % of 100 bits lost"),
        ([row(100, "full", operation="min"), row(100, "full")], [], Status.PASS, "lost in 200 operations"),
        ([row(100), undone(69)], [], Status.INFO, "undo stores: 31.0 % of 100 (GPU 0, CPU stores; no-op cas)"),
        ([row(51), undone(69)], [], Status.INFO, "increments lost"),
        ([row(100, "full"), undone(100, "full")], [], Status.PASS, "none seen lost in 100 increments"),
        ([row(100, "full"), undone(99, "full")], [], Status.FAIL, "native atomics (full): do not believe it"),
        ([row(51), undone(99, kind="control")], [], Status.FAIL, "nobody else writes to that word"),
        ([row(None), undone(69)], [], Status.ERROR, "nobody counted"),
        ([row(None)], [], Status.ERROR, "nobody counted"),
        ([row(None), row(51)], [], Status.INFO, "increments lost"),
    ],
)
def test_what_a_loss_means_depends_on_what_was_promised(
    rows: list[Row], checks: list[Row], status: Status, words: str
) -> None:
    judged, verdict, reason = judge(rows, checks, "host memory")
    assert judged is status
    assert words in f"{verdict} ({reason})"


class Promises:
    """A machine of which only the driver's words exist."""

    devices = (Device(0, "", "", "", (9, 0), 1, 1), Device(1, "", "", "", (9, 0), 1, 1))

    def __init__(self, native: Any, table: dict[str, str]) -> None:
        self.native, self.table = native, table

    def host_link(self, device: int) -> HostLink:
        return HostLink(device, self.native, self.table)


@pytest.mark.parametrize(
    ("native", "table", "operation", "promised"),
    [
        ("full", {}, "cas", True),
        ("none", {"add": "u32"}, "add", False),
        ("partial", {}, "add", False),
        ("partial", {"add": "s32 u32", "increment": "none"}, "add", True),
        ("partial", {"add": "s32 u32", "increment": "none"}, "inc", False),
        ("partial", {"exchange": "b32 b64"}, "exch", True),
        ("unknown", {}, "add", False),
        ("unknown", {"cas": "u64"}, "cas", False),
        ("partial", {"add": "u32", "min": "none"}, "min", False),
        *(("partial", {name: "u32"}, name, True) for name in ("min", "max", "and", "or", "xor")),
    ],
)
def test_a_partial_promise_holds_for_what_the_table_lists(
    native: Any, table: dict[str, str], operation: Any, promised: bool
) -> None:
    home = Home(Promises(native, table), HOST)  # type: ignore[arg-type]
    assert home.is_native(Requesters((0,)), Form(operation, "atom", "sys")) is promised


def one_native_pair() -> EmulatedMachine:
    """GPUs 0 and 1 have native atomics on each other's memory, and GPU 2 with nobody."""
    spec = load_fabric("h200-nvlink2")
    keys = spec.model_dump(by_alias=True) | {"roots": [[0, 1], [2]], "cross": load_fabric("pcie5-switch4").peer}
    keys["gpu"]["count"] = 3
    return EmulatedMachine(FabricSpec.model_validate(keys), range(3), 0)


def test_what_the_driver_says_is_that_of_the_weakest_way() -> None:
    home = Home(one_native_pair(), on_device(0))
    said = {gpus: home.driver_says(Requesters(gpus)) for gpus in [(0,), (1,), (0, 1), (2,), (1, 2), (0, 1, 2)]}
    assert said == {(0,): "local", (1,): "full", (0, 1): "full", (2,): "none", (1, 2): "none", (0, 1, 2): "none"}
    native = {gpus: home.is_native(Requesters(gpus), Form("add", "atom", "sys")) for gpus in said}
    assert native == {gpus: 2 not in gpus for gpus in said}


def test_three_gpus_of_which_one_has_no_native_atomics_lose_without_a_failure() -> None:
    with one_native_pair() as machine:
        config = AtomicsConfig(transport="peer", iterations=16, kinds=("atom",), scopes=("sys",), concurrency=("1x1",))
        (result,) = run(machine, config, Listener())
    lost = {
        row["requesters_text"]: (row["native_atomics"], row["lost"] > 0)
        for row in result.rows
        if row["operation"] == "add"
    }
    assert result.status is Status.INFO
    assert lost["GPUs 1,2"] == ("none", True)
    assert lost["GPU 1"] == ("full", False)
    assert lost["GPUs 0-2"] == ("none", True)


def test_who_counts_on_which_word() -> None:
    pcie = EmulatedMachine.open("pcie5-switch4")
    peers = [str(requesters) for requesters in Home(pcie, on_device(2)).requesters("peer")]
    assert peers == ["GPU 2", "GPU 0", "GPU 1", "GPU 3", "GPUs 0,1,3", "GPUs 0-3"]
    assert [str(r) for r in Home(pcie, HOST).requesters("host")][-2:] == ["GPUs 0-3", "GPU 0 + CPU"]
    assert [str(r) for r in Home(pcie, on_device(0)).requesters("self")] == ["GPU 0"]
