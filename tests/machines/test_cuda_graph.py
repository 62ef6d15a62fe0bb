"""What a capture asks of the driver, against a driver that only writes down its calls."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cuda.bindings import driver

from pcietool.errors import DriverError
from pcietool.machines.cuda.gpu import Gpu
from pcietool.machines.cuda.graph import Graphs, capture

Log = list[tuple[str, object]]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    calls: Log = []

    def written(name: str, answer: object) -> Callable[..., tuple[object, ...]]:
        def call(first: object, *_: object) -> tuple[object, ...]:
            calls.append((name, first))
            return (0,) if answer is None else (0, f"{answer} of {first}")

        return call

    for name, answer in [
        ("cuStreamBeginCapture", None),
        ("cuStreamEndCapture", "graph"),
        ("cuGraphInstantiate", "executable"),
        ("cuGraphDestroy", None),
        ("cuGraphUpload", None),
        ("cuGraphLaunch", None),
    ]:
        monkeypatch.setattr(driver, name, written(name, answer))
    return calls


@pytest.fixture
def gpus(log: Log) -> list[Gpu]:
    def gpu(stream: str) -> Any:
        return SimpleNamespace(
            stream=stream, make_current=lambda: None, synchronise=lambda: log.append(("synchronise", stream))
        )

    return [cast(Gpu, gpu(stream)) for stream in ("stream 0", "stream 1")]


def test_all_gpus_record_at_once_and_nothing_runs_before_all_are_uploaded(gpus: list[Gpu], log: Log) -> None:
    graphs = Graphs(gpus, capture(gpus, [lambda: log.append(("submit", "both"))]))
    streams = [gpu.stream for gpu in gpus]
    ended = [
        (name, what)
        for stream in streams
        for name, what in (
            ("cuStreamEndCapture", stream),
            ("cuGraphInstantiate", f"graph of {stream}"),
            ("cuGraphDestroy", f"graph of {stream}"),
        )
    ]
    executables = [f"executable of graph of {stream}" for stream in streams]
    assert log == [
        *(("cuStreamBeginCapture", stream) for stream in streams),
        ("submit", "both"),
        *ended,
        *(("cuGraphUpload", executable) for executable in executables),
        *(("synchronise", stream) for stream in streams),
    ]
    log.clear()
    graphs.launch()
    assert log == [("cuGraphLaunch", executable) for executable in executables]


def test_a_refused_launch_leaves_no_stream_recording(gpus: list[Gpu], log: Log) -> None:
    def refuse() -> None:
        raise DriverError("refused")

    with pytest.raises(DriverError, match="refused"):
        capture(gpus, [refuse])
    assert log[2:] == [("cuStreamEndCapture", gpu.stream) for gpu in gpus]
