"""What checks make of a result."""

import pytest

from pcietool.contract.results import Status
from pcietool.probes.common.checks import check, control, judge

FINE = check("a", True, "right")
DOUBT = check("b", False, "odd", severity="warn")
FAILURE = check("c", False, "wrong")


@pytest.mark.parametrize(
    ("checks", "judged"),
    [
        ([], (Status.PASS, None)),
        ([FINE], (Status.PASS, None)),
        ([FINE, DOUBT], (Status.WARN, "b: odd")),
        ([DOUBT, FAILURE, DOUBT], (Status.FAIL, "c: wrong")),
    ],
)
def test_a_failure_counts_more_than_a_doubt(checks: list[dict[str, object]], judged: tuple[Status, str | None]) -> None:
    assert judge(checks) == judged


@pytest.mark.parametrize(
    ("found", "passed", "text"), [("row 3 is wrong", True, "row 3 is wrong"), (None, False, "nobody noticed")]
)
def test_a_control_passes_if_what_was_broken_is_found(found: str | None, passed: bool, text: str) -> None:
    assert control("a wrong word", found, "nobody noticed") == check("control: a wrong word", passed, text)
