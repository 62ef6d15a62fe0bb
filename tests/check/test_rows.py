"""What a result's rows say of an engine, and which file is asked about."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from pcietool.check.running.findings import Said
from pcietool.errors import UsageError
from pcietool.probes.check.config import CheckConfig
from pcietool.probes.check.on_gpus import _Turns
from pcietool.probes.check.probe import _row


@pytest.mark.parametrize(("elapsed_ns", "elapsed_us"), [(5000.0, 5.0), (250.0, 0.25), (None, None)])
def test_a_row_has_the_gpus_time_in_us(elapsed_ns: float | None, elapsed_us: float | None) -> None:
    row = _row(Said("timing", "2 ranks", tries=3, elapsed_ns=elapsed_ns))
    assert (row["elapsed_us"], row["tries"], row["findings"]) == (elapsed_us, 3, 0)


def test_only_python_is_a_file_of_scenarios(tmp_path: Path) -> None:
    kernel, scenario = tmp_path / "kernel.cu", tmp_path / "check_kernel.py"
    for path in (kernel, scenario):
        path.write_text("")
    assert CheckConfig(file=str(scenario)).file == str(scenario)
    with pytest.raises(UsageError, match="a scenario file is Python"):
        CheckConfig(file=str(kernel))


@pytest.mark.parametrize(
    ("stuck", "wrong", "answer", "by"),
    [
        (False, 0, "not seen to be needed", "never wrong in 7 runs here; 0.500 of the time (0.500 to 0.500)"),
        (False, 2, "needed", "wrong in 2 of 7 runs; 0.500 of the time (0.500 to 0.500)"),
        (True, 1, "needed", "it hangs; no further one was tried; 0.500 of the time (0.500 to 0.500)"),
    ],
)
def test_a_change_on_gpus_is_needed_where_it_is_wrong_or_hangs(
    monkeypatch: pytest.MonkeyPatch, stuck: bool, wrong: int, answer: str, by: str
) -> None:
    monkeypatch.setattr(_Turns, "_run", lambda *_: (wrong, [0.5] * 3))
    row = _Turns(Mock(stuck=stuck), Mock(), Mock(), Mock(edits=[Mock()])).row(Mock(runs=7))
    assert (row["is"], row["by"], row["time_ratio"]) == (answer, by, 0.5)
