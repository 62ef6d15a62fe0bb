import pytest

from pcietool.errors import UsageError
from pcietool.probes.common.checks import survived
from pcietool.probes.common.injections import amount, checked

KNOWN = ("dead-rank", "stall=US")


@pytest.mark.parametrize("injection", [None, "dead-rank", "stall=0", "stall=999999999"])
def test_what_is_known_is_taken(injection: str | None) -> None:
    assert checked(injection, KNOWN) == injection


@pytest.mark.parametrize("injection", ["", "dead", "dead-rank=3", "stall", "stall=", "stall=-1", "stall=1234567890"])
def test_what_is_not_known_is_answered_with_what_is(injection: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked(injection, KNOWN, " (and no more)")
    assert str(refused.value) == f"--inject {injection}: this command knows dead-rank, stall=US (and no more)"


def test_only_a_stall_says_how_long_it_was() -> None:
    assert (amount("stall=50"), amount("dead-rank")) == (50, 0)
    assert survived("stall=50")["text"] == "one rank stalled 50 µs: survived"
    assert "stalled" not in survived("early-signal")["text"]
