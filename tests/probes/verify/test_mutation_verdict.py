"""What the mutants of verify come to: who is killed, who survives, and what is not sensitive."""

import pytest

from pcietool.contract.results import Row, Status
from pcietool.probes.verify.mutation import NOT_SENSITIVE, judge

MUTANT: Row = {
    "mutant": "a", "entry": "signal", "expected": "killed", "outcome": "killed", "tries": 3, "found": "x", "reason": "y"
}  # fmt: skip
EQUIVALENT = MUTANT | {"expected": "survives", "outcome": "survived"}


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        (["killed", "survived"], "1 of 2 mutants killed, 0 of 0 equivalents survive"),
        (
            ["killed", NOT_SENSITIVE, "waived"],
            "1 of 2 mutants killed, 0 of 0 equivalents survive, 1 not sensitive here",
        ),
    ],
)
def test_the_verdict_counts_what_was_run(outcomes: list[str], said: str) -> None:
    assert judge([MUTANT | {"outcome": outcome} for outcome in outcomes])[1] == said


@pytest.mark.parametrize(
    ("rows", "status", "reason"),
    [
        ([MUTANT, EQUIVALENT], Status.PASS, None),
        ([MUTANT | {"outcome": "survived"}, EQUIVALENT], Status.FAIL, "signal: a: not found in 3 tries"),
        ([MUTANT, EQUIVALENT | {"outcome": "killed"}], Status.FAIL, "signal: a: false alarm: x"),
        ([MUTANT | {"outcome": "not sensitive here"}, EQUIVALENT], Status.WARN, None),
        ([MUTANT | {"outcome": "waived"}], Status.WAIVED, "y"),
    ],
)
def test_a_survivor_is_as_bad_as_wrong_data(rows: list[Row], status: Status, reason: str | None) -> None:
    judged, _, why = judge(rows)
    assert (judged, why) == (status, reason)
