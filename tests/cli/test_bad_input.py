"""Whatever is wrong with what pcietool is given, it says so in one line and exits with 2, soon."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest

from pcietool import cli
from pcietool.probes import PROBES
from tests.cli import bad_inputs
from tests.cli.bad_inputs import Arguments

pytestmark = pytest.mark.usefixtures("elsewhere")
MOST_CPU_S = 2.0
SEED = 12


@contextmanager
def little_work() -> Iterator[None]:
    """Ends what takes this process more time than a refusal may, however busy the machine is."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(f"over {MOST_CPU_S} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(arguments: Sequence[str]) -> tuple[object, str, str]:
    """(exit code, standard output, standard error)."""
    out, err = StringIO(), StringIO()
    with (
        patch.object(sys, "argv", ["pcietool", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
        little_work(),
    ):
        cli.main()
    return ended.value.code, out.getvalue(), err.getvalue()


def complaint_about(arguments: Sequence[str], accepted: Sequence[int] = ()) -> str | None:
    """What is wrong with how it was refused; None: nothing, or it was accepted with one of these exit codes."""
    code, out, err = outcome(arguments)
    if code in accepted:
        return None
    line = err.removesuffix("\n")
    right = (
        code == 2
        and not out
        and line.startswith("pcietool: error: ")
        and line.isprintable()
        and "this is a bug" not in line
        and "Value error" not in line
        and len(line) <= 2100
    )
    shown = [word if len(word) < 80 else word[:80] + "..." for word in arguments]
    return None if right else f"{shown}: exit {code}, {out[-200:]!r}, {err[-600:]!r}"


def refused(inputs: Iterator[Arguments], accepted: Sequence[int] = ()) -> int:
    """How many there were."""
    complaints = [complaint_about(one, accepted) for one in inputs]
    wrong = [complaint for complaint in complaints if complaint]
    assert not wrong, f"{len(wrong)} of {len(complaints)}:\n" + "\n".join(wrong[:20])
    return len(complaints)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is written in spite of all does not lie in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that passes at once: what comes so far was accepted."""
    from pcietool.contract.results import ProbeResult, Status

    def run(machine: Any, config: Any, observer: Any) -> None:
        observer.result(ProbeResult("none", Status.PASS, "accepted", "peer", ""))

    real = type(PROBES).__getitem__
    monkeypatch.setattr(type(PROBES), "__getitem__", lambda self, name: (real(self, name)[0], run))


def test_values_that_options_cannot_take() -> None:
    assert refused(bad_inputs.of_values()) > 400


def test_options_given_twice() -> None:
    assert refused(bad_inputs.of_repeats()) > 100


def test_words_that_mean_nothing() -> None:
    assert refused(bad_inputs.of_words()) > 40


def test_combinations_of_options() -> None:
    assert refused(bad_inputs.of_combinations()) > 50


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    assert refused(bad_inputs.of_targets(tmp_path)) > 40


@pytest.mark.usefixtures("no_measuring")
def test_broken_fabrics(tmp_path: Path) -> None:
    paths = bad_inputs.files(tmp_path, SEED, 150, ".toml", "fabrics")
    assert refused((["barrier-latency", "--fabric", str(path)] for path in paths), accepted=(0,)) == 150


def test_broken_litmus_tests(tmp_path: Path) -> None:
    paths = bad_inputs.files(tmp_path, SEED, 150, ".litmus", "litmus")
    assert refused((["litmus", str(path), "--max-states", "50"] for path in paths), accepted=(0, 3)) == 150
