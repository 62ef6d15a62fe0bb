"""What counts mean: the verdict of atomic-loss, and what drivers promise. No machine counts here."""

from typing import Any

import pytest

from pcietool.contract.results import Row, Status
from pcietool.machines.base import HOST, on_device
from pcietool.machines.devices import Device, HostLink
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics.counting import Form, Requesters
from pcietool.probes.atomics.probe import judge
from pcietool.probes.atomics.word_home import Home


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
        "blocks": 1,
        "threads": 1,
        "operation": operation,
        "form": operation,
        "concurrency": "1x1",
        "native_atomics": native_atomics,
        "native": native_atomics in ("full", "local"),
        "wanted": wanted or expected,
        "expected": expected,
        "seen": seen,
        "lost": None if seen is None else expected - seen,
        "lost_fraction": None if seen is None else (expected - seen) / expected,
        "reason": "nobody counted" if seen is None else None,
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
    ],
)
def test_a_partial_promise_holds_for_what_the_table_lists(
    native: Any, table: dict[str, str], operation: Any, promised: bool
) -> None:
    home = Home(Promises(native, table), HOST)  # type: ignore[arg-type]
    assert home.is_native(Requesters((0,)), Form(operation, "atom", "sys")) is promised


def test_who_counts_on_which_word() -> None:
    pcie = EmulatedMachine.open("pcie5-switch4")
    peers = [str(requesters) for requesters in Home(pcie, on_device(2)).requesters("peer")]
    assert peers == ["GPU 2", "GPU 0", "GPU 1", "GPU 3", "GPUs 0,1,3", "GPUs 0-3"]
    assert [str(r) for r in Home(pcie, HOST).requesters("host")][-2:] == ["GPUs 0-3", "GPU 0 + CPU"]
    assert [str(r) for r in Home(pcie, on_device(0)).requesters("self")] == ["GPU 0"]
