"""The examples are what they say: those called bug_... are found, all others pass."""

from pathlib import Path

import pytest

from pcietool.check import Scenario, load_scenarios
from pcietool.contract.results import Status
from tests.check.checking import checked, word

EXAMPLES = Path(__file__).parents[2] / "examples" / "check"
SCENARIOS = [scenario for path in sorted(EXAMPLES.glob("check_*.py")) for scenario in load_scenarios(path)]
MENDED = {
    "bug_fifo_tail_relaxed": {"messages.cuh:67": "st.release.sys"},
    "bug_mailbox_device_fence": {"messages.cuh:87": "__threadfence_system()"},
    "bug_last_block_without_fence": {"grid.cuh:12": "atom.acq_rel.gpu"},
    "bug_ranks_count_on_one_word": {},
}
"""Those that lack order, or a path with atomics, and nothing else: where, and what."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_an_example_is_judged_as_its_name_says(scenario: Scenario) -> None:
    result = checked(scenario, seeds=40, quick=True)
    if scenario.name.startswith("bug_"):
        assert result.status in (Status.FAIL, Status.HANG), result.verdict
    else:
        assert word(result) == "PASS", result.verdict


def test_there_are_bugs_and_mended_ones() -> None:
    bugs = [scenario.name for scenario in SCENARIOS if scenario.name.startswith("bug_")]
    assert len(bugs) >= 8
    assert len(SCENARIOS) - len(bugs) >= 8


@pytest.mark.parametrize("name", MENDED)
def test_what_mends_an_example_is_named(name: str) -> None:
    (scenario,) = [scenario for scenario in SCENARIOS if scenario.name == name]
    repair = checked(scenario, seeds=40).details["repair"]
    assert {edit["at"] for edit in repair["edits"]} == set(MENDED[name])
    assert all(MENDED[name][edit["at"]] in edit["change"] for edit in repair["edits"])
    assert bool(repair["advice"]) == (not MENDED[name])
