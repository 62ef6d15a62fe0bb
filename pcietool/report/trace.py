"""Writes the memory events of an emulated run as Chrome's trace event JSON, which https://ui.perfetto.dev opens.

One process a GPU, one track a thread; what lands has a track of its own at its new home. Must not decide what is
recorded (`emulator.engine.trace`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from pcietool.emulator.engine.trace import EventTrace, TraceEvent
from pcietool.emulator.memory import HOST

SCHEMA = "pcietool.trace/1"
LANDINGS = 0
"""The track of what lands, beside those of threads."""
MOST_THREADS = 1024
"""Of a block."""


def trace_lines(trace: EventTrace, run: Mapping[str, Any]) -> Iterator[str]:
    """The document in pieces, one event a line; `run` says what was run."""
    header = {
        "schema": SCHEMA,
        **run,
        "events": len(trace.events),
        "events_left_out": trace.left_out,
        "complete": not trace.left_out,
    }
    yield f'{{"displayTimeUnit": "ns",\n"otherData": {json.dumps(header)},\n"traceEvents": [\n'
    separator = ""
    in_time = map(_event, sorted(trace.events, key=lambda event: event.time_ns))
    for event in chain(_names(trace.events), in_time):
        yield separator + json.dumps(event)
        separator = ",\n"
    yield "\n]}\n"


def _event(event: TraceEvent) -> dict[str, Any]:
    args = {
        "time_ns": round(event.time_ns, 3),
        "address": event.address,
        "value": event.value,
        "source": event.source,
        "kernel": event.kernel,
    }
    process, track = _track(event)
    if event.place is not None:
        args["writer"] = "GPU {} block {} thread {}".format(*event.thread)
    shape: dict[str, Any] = {"ph": "i", "s": "t"}
    if event.duration_ns is None:
        shape = {"ph": "B"}  # begun, and never ended
    elif event.duration_ns:
        shape = {"ph": "X", "dur": round(event.duration_ns, 3) / 1e3}
    return {
        "name": event.what,
        **shape,
        "ts": round(event.time_ns, 3) / 1e3,
        "pid": process,
        "tid": track,
        "args": {key: value for key, value in args.items() if value is not None},
    }


def _track(event: TraceEvent) -> tuple[int, int]:
    """(process, track). Perfetto keeps process 0 for itself."""
    gpu, block, thread = event.thread
    if event.place is not None:
        return event.place + 2, LANDINGS
    return gpu + 2, block * MOST_THREADS + thread + 1


def _names(events: Iterable[TraceEvent]) -> Iterator[dict[str, Any]]:
    """What processes and tracks are called."""
    tracks = {}
    for event in events:
        _, block, thread = event.thread
        tracks[_track(event)] = "stores that land here" if event.place is not None else f"block {block} thread {thread}"
    for process in sorted({process for process, _ in tracks}):
        name = "host memory" if process - 2 == HOST else f"GPU {process - 2}"
        yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}}
    for (process, track), name in sorted(tracks.items()):
        yield {"name": "thread_name", "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
