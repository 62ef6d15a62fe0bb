from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pcietool.cli import backends
from pcietool.cli.backends import choose_backend
from pcietool.cli.options import BackendChoice, Common
from pcietool.cli.recorder import Recorder
from pcietool.contract.config import Config
from pcietool.errors import DriverError, NothingToRunError, PcietoolError, UsageError
from pcietool.machines import presence
from pcietool.report.tables import make_console
from pcietool.supervision import child


@pytest.mark.parametrize("driver", [True, False])
def test_auto_takes_gpus_where_there_is_a_driver(driver: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "driver_present", lambda: driver)
    assert choose_backend(Common())[0] == ("cuda" if driver else "emulated")


@pytest.mark.parametrize(
    ("common", "backend"),
    [
        (Common(fabric="pcie5-switch4"), "emulated"),
        (Common(backend=BackendChoice.emulated), "emulated"),
        (Common(backend=BackendChoice.cuda), "cuda"),
    ],
)
def test_what_the_user_asks_for_needs_no_look_at_the_machine(
    common: Common, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(presence, "driver_present")
    assert choose_backend(common)[0] == backend


def test_gpus_keep_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "driver_present", lambda: True)
    trace = tmp_path / "trace.json"
    for backend in (BackendChoice.cuda, BackendChoice.auto):
        with pytest.raises(UsageError, match=r"keeps no record .* choose --backend emulated"):
            choose_backend(Common(backend=backend, trace=trace))
    assert choose_backend(Common(backend=BackendChoice.emulated, trace=trace))[0] == "emulated"


def child_that_raises(error: PcietoolError) -> Callable[..., None]:
    def run_in_child(*_: Any, **__: Any) -> None:
        raise error

    return run_in_child


def run_with_child_error(error: PcietoolError, backend: BackendChoice, monkeypatch: pytest.MonkeyPatch) -> str:
    """What stderr says once the emulator took over."""
    monkeypatch.setattr(child, "run_in_child", child_that_raises(error))
    monkeypatch.setattr(backends, "run_emulated", lambda *arguments: arguments[-1].describe({}))
    stderr = StringIO()
    backends.run_on_gpus("fake", Config(), Common(backend=backend), Recorder(make_console(stderr)))
    return stderr.getvalue()


def test_a_driver_without_gpus_leaves_auto_to_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = run_with_child_error(NothingToRunError("no GPU"), BackendChoice.auto, monkeypatch)
    assert stderr == "pcietool: emulated backend (no GPU)\n"


def test_a_user_who_asked_for_gpus_never_gets_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NothingToRunError):
        run_with_child_error(NothingToRunError("no GPU"), BackendChoice.cuda, monkeypatch)


def test_a_broken_driver_is_not_emulated_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DriverError):
        run_with_child_error(DriverError("dead"), BackendChoice.auto, monkeypatch)
