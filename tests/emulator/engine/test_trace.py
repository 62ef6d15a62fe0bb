"""The memory events of small kernels: what is noted, in which order, and that noting changes nothing."""

import json
from typing import Any

import numpy as np
import pytest

from pcietool.contract.outcomes import Outcome
from pcietool.emulator.engine.trace import EventTrace, TraceEvent
from pcietool.emulator.memory import HOST
from pcietool.machines import base
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.report.trace import trace_lines
from tests.emulator.emulated_programs import ptx_program

SEND = "st.global.u32 [%b+4], 3; st.release.sys.global.u32 [%a], 7; ret;"
WAIT = "A: ld.acquire.sys.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; st.global.u32 [%b], %r1; ret;"
STAY = "st.relaxed.sys.global.u32 [%b], 7; ret;"


def run(
    sender: str,
    trace: EventTrace | None = None,
    fabric: str = "pcie5-switch4",
    waiter: str | None = None,
    block: int = 1,
    deadline_s: float = 0.01,
) -> Outcome:
    """Runs `sender` on GPU 0, and `waiter`, if there is one, on GPU 1: %a is a slot on GPU 1, %b two words of the GPU
    itself. Returns the outcome."""
    with EmulatedMachine.open(fabric, [0, 1], trace=trace) as machine:
        slot = machine.alloc(on_device(1), 4, "slot")
        launches = []
        for device, body in enumerate(filter(None, (sender, waiter))):
            own = machine.alloc(on_device(device), 8, f"own words of GPU {device}")
            launches.append(Launch(device, ptx_program(body).kernel("k"), 1, block, (slot, own)))
        return machine.run(launches, deadline_s)


def traced(sender: str, limit: int = 1000, **options: Any) -> EventTrace:
    trace = EventTrace(limit)
    run(sender, trace, **options)
    return trace


def only(trace: EventTrace, what: str) -> TraceEvent:
    [event] = [event for event in trace.events if event.what == what]
    return event


def duration_of(event: TraceEvent) -> float:
    assert event.duration_ns is not None
    return event.duration_ns


def test_a_signal_is_issued_and_lands_before_its_waiter_wakes() -> None:
    trace = traced(SEND, waiter=WAIT)
    issued, landed, woken = (only(trace, what) for what in ("store issued", "store landed", "poll woken"))
    parked = only(trace, "poll parked")
    assert issued.time_ns + duration_of(issued) < landed.time_ns <= woken.time_ns
    assert parked.time_ns < landed.time_ns
    assert parked.time_ns + duration_of(parked) == woken.time_ns
    assert [event.value for event in (issued, landed, woken)] == [7, 7, 7]
    assert {event.address for event in (issued, landed, parked, woken)} == {"'slot'+0 on GPU 1"}
    assert issued.thread == landed.thread == (0, 0, 0)
    assert parked.thread == woken.thread == (1, 0, 0)
    assert (issued.place, landed.place) == (None, 1)
    assert "st.release.sys.global.u32 [%a], 7" in issued.source
    assert "ld.acquire" in woken.source
    assert duration_of(issued) >= 630, "a release waits for its fence"


def test_without_a_remote_store_nothing_lands() -> None:
    """Negative control of the test above."""
    names = [event.what for event in traced(STAY).events]
    assert names == ["store issued"]


EVENTS = {
    "fence": ("fence.acq_rel.sys; ret;", None),
    "atomic": ("atom.sys.global.add.u32 %r1, [%a], 1; st.global.u32 [%b], %r1; ret;", 0),
    "load": ("ld.relaxed.sys.global.u32 %r1, [%a]; st.global.u32 [%b], %r1; ret;", 0),
    "store issued": ("st.global.v2.u32 [%b], {1, 2}; st.relaxed.sys.global.u32 [%a], 9; ret;", 9),
}


@pytest.mark.parametrize("what", EVENTS)
def test_each_kind_has_its_value_and_takes_time(what: str) -> None:
    body, value = EVENTS[what]
    event = only(traced(body), what)
    assert event.value == value
    assert duration_of(event) > 0
    assert event.kernel == "k"


def test_every_thread_passes_a_barrier() -> None:
    events = traced("bar.sync 0; ret;", block=64).events
    assert {event.what for event in events} == {"barrier passed"}
    assert {event.thread[2] for event in events} == set(range(64))
    assert len({event.time_ns for event in events}) == 1


def test_noting_changes_no_time() -> None:
    for fabric in ("pcie5-switch4", "faulty/relaxed-ordering"):
        assert run(SEND, fabric=fabric, waiter=WAIT) == run(SEND, EventTrace(), fabric, WAIT)


def test_events_beyond_the_limit_are_counted() -> None:
    whole = traced(SEND, waiter=WAIT)
    part = traced(SEND, waiter=WAIT, limit=2)
    assert part.events == whole.events[:2]
    assert part.left_out == len(whole.events) - 2
    assert whole.left_out == 0


def test_what_never_ends_has_no_duration() -> None:
    later = "nanosleep.u32 200000;"
    read = f"{later} ld.relaxed.sys.global.u32 %r1, [%a]; st.global.u32 [%b], %r1; ret;"
    assert only(traced(read, fabric="faulty/stuck-link"), "load").duration_ns is None
    assert only(traced(read), "load").duration_ns is not None


def test_a_lost_store_lands_elsewhere() -> None:
    event = only(traced(SEND, fabric="faulty/dead-direction"), "store landed")
    assert "lost on the way" in (event.address or "")


# -- as a file --------------------------------------------------------------------------------------------------------


def document(trace: EventTrace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("".join(trace_lines(trace, {"command": "test"})))
    return found


def test_the_file_is_json_with_a_process_a_gpu_and_a_track_a_thread() -> None:
    found = document(traced(SEND, waiter=WAIT))
    names = {event["pid"]: event["args"]["name"] for event in found["traceEvents"] if event["name"] == "process_name"}
    assert list(names.values()) == ["GPU 0", "GPU 1"]
    events = [event for event in found["traceEvents"] if event["ph"] != "M"]
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    [landed] = [event for event in events if event["name"] == "store landed"]
    assert names[landed["pid"]] == "GPU 1"
    assert landed["args"]["writer"] == "GPU 0 block 0 thread 0"
    assert landed["args"]["value"] == 7
    assert landed["args"]["time_ns"] == pytest.approx(landed["ts"] * 1e3)
    [issued] = [event for event in events if event["name"] == "store issued"]
    assert (issued["ph"], names[issued["pid"]]) == ("X", "GPU 0")
    assert found["otherData"] == {
        "schema": "pcietool.trace/1",
        "command": "test",
        "events": len(events),
        "events_left_out": 0,
        "complete": True,
    }


def test_a_file_without_events_or_with_a_part_of_them_is_json_too() -> None:
    assert document(EventTrace())["traceEvents"] == []
    assert document(traced(SEND, waiter=WAIT, limit=1))["otherData"]["complete"] is False


def test_host_memory_is_a_process_of_its_own() -> None:
    trace = EventTrace()
    with EmulatedMachine.open("pcie5-switch4", [0], trace=trace) as machine:
        there = machine.alloc(base.HOST, 8, "mapped")
        kernel = ptx_program("st.relaxed.sys.global.v2.u32 [%a], {1, 2}; ret;").kernel("k")
        machine.run([Launch(0, kernel, 1, 1, (there, there))], 0.01)
        assert there.read(np.uint32).tolist() == [1, 2]
    landed = only(trace, "store landed")
    assert landed.place == HOST
    events = document(trace)["traceEvents"]
    assert {"host memory", "GPU 0"} == {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [event["args"]["value"] for event in events if event["name"] == "store landed"] == [[1, 2]]
