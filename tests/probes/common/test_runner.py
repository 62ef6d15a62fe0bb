"""One result a transport, whatever happens in it."""

from typing import Any

import pytest

from pcietool.contract.outcomes import Hang
from pcietool.contract.results import ProbeResult, Status
from pcietool.probes.common.hangs import Hung
from pcietool.probes.common.options import Transport
from pcietool.probes.common.runner import run_each
from pcietool.probes.common.world import Waived


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def progress(self, text: str) -> None: ...

    def begin(self, result: ProbeResult) -> None:
        self.heard.append(("begin", result.transport))

    def result(self, result: ProbeResult) -> None:
        self.heard.append(("result", result.transport))


def parts(limit: Any = None) -> tuple[list[ProbeResult], Listener]:
    """Peer is waived, host measures a row and then hangs if there is a `limit`, self measures a row."""

    def measure(transport: Transport, result: ProbeResult) -> None:
        result.rows.append({"transport": transport})
        if transport == "host" and limit:
            raise Hung(Hang(limit, ()), "round 3")

    listener = Listener()
    transports: list[Transport | Waived] = [Waived("peer", "one GPU"), "host", "self"]
    return run_each("fake", transports, lambda transport: f"by {transport}", measure, listener), listener


def test_each_part_begins_and_ends_and_a_waived_one_only_ends() -> None:
    results, listener = parts()
    assert [(r.transport, r.status, r.method) for r in results] == [
        ("peer", Status.WAIVED, "by peer"),
        ("host", Status.PASS, "by host"),
        ("self", Status.PASS, "by self"),
    ]
    parts_heard = [("result", "peer")] + [(what, part) for part in ("host", "self") for what in ("begin", "result")]
    assert listener.heard == parts_heard
    assert results[0].reason == "one GPU"


@pytest.mark.parametrize(("limit", "count"), [("device deadline", 3), ("host join timeout", 2)])
def test_a_hang_keeps_its_rows_and_stops_the_rest_if_the_gpus_are_lost(limit: str, count: int) -> None:
    results, _ = parts(limit)
    assert len(results) == count
    hung = results[1]
    assert (hung.status, hung.rows, hung.transport) == (Status.HANG, [{"transport": "host"}], "host")
    assert "during round 3" in hung.verdict
    assert hung.hang is not None
