"""Every command on every faulty fabric: what it says, and how it ends. The healthy fabric is the negative control."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from pcietool.contract.results import ProbeResult, Status
from pcietool.emulator.fabric.fabric import packaged_fabrics
from pcietool.errors import ExitCode
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes import PROBES
from pcietool.report.result import exit_code
from tests.cli.program import pcietool, words
from tests.listening import Listener

HEALTHY = "pcie5-switch4"
SMALL: dict[str, dict[str, Any]] = {
    "barrier-latency": {"orders": ("publishing", "floor"), "modes": ("in-kernel",), "launches": 30, "iterations": 5},
    "signal-latency": {"waits": ("acquire",), "nanosleeps_ns": (0,), "pairings": (), "launches": 2, "iterations": 12},
    "atomic-loss": {},
    "watermark": {"chunks": "1,all"},
    "verify": {"entries": ("dispatch",), "distributions": ("chunk-edges",), "iterations": 2},
}
HOLDS = {
    "barrier-latency": "barrier in",
    "signal-latency": "one way",
    "atomic-loss": "lost",
    "watermark": "GB/s",
    "verify": "nothing wrong",
}
"""What the verdict of each says where nothing is wrong with the machine."""


def results_on(fabric: str, command: str, transport: str, **options: Any) -> list[ProbeResult]:
    model, run = PROBES[command]
    with EmulatedMachine.open(fabric, [0, 1]) as machine:
        results: list[ProbeResult] = run(machine, model(transport=transport, **SMALL[command] | options), Listener())
        return results


def said(results: Sequence[ProbeResult]) -> str:
    return " ".join(f"{result.verdict} {result.reason or ''}" for result in results)


class Case(NamedTuple):
    fault: str
    command: str
    transport: str
    status: Status
    words: str


EVERY = tuple(HOLDS)
LOST = "its writes to rank 1 are lost"
STUCK = "the link between GPU 0 and GPU 1, stuck since 100 µs"
ONES = "a slot read as 0xffffffff"
TABLE = [
    Case("dropped-writes", "barrier-latency", "peer", Status.HANG, "writes .* are lost"),
    Case("dropped-writes", "signal-latency", "peer", Status.HANG, "writes .* are lost"),
    Case("dropped-writes", "atomic-loss", "peer", Status.HANG, "writes are lost"),
    Case("dropped-writes", "watermark", "peer", Status.HANG, "was never published"),
    Case("dropped-writes", "verify", "peer", Status.HANG, "its writes are lost"),
    *(Case("private-mirror", command, "peer", Status.HANG, "got 0") for command in EVERY),
    Case("dead-direction", "barrier-latency", "peer", Status.HANG, f"first signal that is missing.*{LOST}"),
    Case("dead-direction", "signal-latency", "peer", Status.HANG, "writes in one direction between them are lost"),
    Case("dead-direction", "atomic-loss", "peer", Status.HANG, "for rank 0: .*its writes are lost"),
    Case("dead-direction", "watermark", "peer", Status.HANG, "chunk 0 .* from rank 0 was never published"),
    Case("dead-direction", "verify", "peer", Status.HANG, "for rank 0: .*its writes are lost"),
    Case("corrupt-beyond", "verify", "peer", Status.FAIL, r"byte 0 is 0x\w+, expected 0x\w+"),
    Case("corrupt-beyond", "signal-latency", "peer", Status.HANG, "during payload 512 B"),
    Case("corrupt-beyond", "watermark", "peer", Status.FAIL, "is wrong at rank 1"),
    Case("stuck-link", "barrier-latency", "peer", Status.HANG, f"thread 1: its store to .* never lands over {STUCK}"),
    Case("stuck-link", "signal-latency", "peer", Status.HANG, f"thread 0: its store to .* never lands over {STUCK}"),
    Case("stuck-link", "atomic-loss", "peer", Status.HANG, f"thread 0: waits for an answer over {STUCK}"),
    Case("stuck-link", "watermark", "peer", Status.HANG, "from rank 0 was never published"),
    Case("stuck-link", "verify", "peer", Status.HANG, f"over {STUCK}"),
    Case("slow-link", "barrier-latency", "peer", Status.PASS, r"barrier in 1\d\d µs"),
    Case("slow-link", "signal-latency", "peer", Status.WARN, "not plausible .* a slow link"),
    Case("slow-link", "atomic-loss", "peer", Status.WARN, "proves nothing here"),
    Case("slow-link", "watermark", "peer", Status.PASS, r": 0\.1\d+ GB/s"),
    *(
        Case("relaxed-ordering", command, "peer", Status.PASS, HOLDS[command])
        for command in EVERY
        if "loss" not in command
    ),
    Case("all-ones-reads", "barrier-latency", "host", Status.HANG, ONES),
    Case("all-ones-reads", "signal-latency", "peer", Status.HANG, ONES),
    Case("all-ones-reads", "atomic-loss", "peer", Status.FAIL, "comes back wrong"),
    Case("all-ones-reads", "watermark", "host", Status.HANG, ONES),
    Case("all-ones-reads", "verify", "host", Status.HANG, ONES),
]
CODES = {
    Status.HANG: ExitCode.HANG,
    Status.FAIL: ExitCode.WRONG_DATA,
    Status.WARN: ExitCode.PASS,
    Status.PASS: ExitCode.PASS,
}


@pytest.mark.parametrize("case", TABLE, ids=lambda case: f"{case.fault}-{case.command}")
def test_a_fault_is_noticed(case: Case) -> None:
    results = results_on(f"faulty/{case.fault}", case.command, case.transport)
    assert [result.status for result in results] == [case.status], said(results)
    assert exit_code(results) == CODES[case.status]
    assert re.search(case.words, said(results))


@pytest.mark.parametrize("command", EVERY)
def test_the_healthy_machine_passes(command: str) -> None:
    """Negative control of every fault."""
    results = results_on(HEALTHY, command, "peer")
    assert exit_code(results) == ExitCode.PASS
    assert not {result.status for result in results} & {Status.WARN, Status.FAIL, Status.HANG}
    assert HOLDS[command] in said(results)


def test_every_packaged_fault_is_in_the_table() -> None:
    assert {name for name in packaged_fabrics() if "/" in name} == {f"faulty/{case.fault}" for case in TABLE}


def test_a_peer_fault_leaves_host_memory_alone() -> None:
    [result] = results_on("faulty/private-mirror", "barrier-latency", "host")
    assert result.status is Status.PASS


def test_the_command_says_what_hangs_and_exits_with_it() -> None:
    done = pcietool("barrier-latency", "--fabric", "faulty/stuck-link", "-g", "2", "-q", "--transport", "peer")
    assert done.returncode == ExitCode.HANG, done.stderr
    assert "fabric faulty/stuck-link" in done.stdout
    assert STUCK in words(done.stdout)
    assert "Traceback" not in done.stderr
