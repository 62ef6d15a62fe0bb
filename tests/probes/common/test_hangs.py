"""What a hang advises, from what the waits saw."""

import pytest

from pcietool.contract.outcomes import Hang, WaitRecord
from pcietool.probes.common.hangs import advice


def hang(waited_ms: float, *columns: int) -> Hang:
    waits = (WaitRecord("deadline", 0, 1, col, 4, 3, 4, 0, col, int(waited_ms * 1e6)) for col in columns)
    return Hang("device deadline", tuple(waits))


@pytest.mark.parametrize(
    ("waited_ms", "columns", "words"),
    [
        (2000, (1,), "for rank 1: it is dead"),
        (2000, (1, 2), "the links between those GPUs"),
        (0.2, (1, 2), "--timeout may be too short"),
        (0.2, (1,), "the longest wait lasted 0.2 ms"),
        (10, (1,), "for rank 1"),
    ],
)
def test_a_short_deadline_is_not_blamed_on_the_machine(waited_ms: float, columns: tuple[int, ...], words: str) -> None:
    text = advice(hang(waited_ms, *columns))
    assert words in text
    assert ("--timeout" in text) == (waited_ms < 10)


def test_without_records_the_kernel_is_at_fault() -> None:
    assert "nvidia-smi" in advice(Hang("host join timeout", ()))
