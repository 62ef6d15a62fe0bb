"""Every pair of tests/cases by check: the bug is found, its mended twin is not accused, and what mends a lack of order
is named."""

import pytest

from pcietool.contract.results import Status
from tests.cases.case import Case, cases
from tests.check.checking import checked, word
from tests.check.corpus import scenario_of

CASES = {case.name: case for case in cases()}
MENDED = {
    "acknowledged-relaxed": {"bug.cu:12": "st.release.sys"},
    "block-sync-missing": {"bug.cu:3": "__syncthreads()"},
    "count-of-cta-scope": {"bug.cu:2": "thread_scope_device"},
    "fence-missing": {"bug.cu:3": "st.release.sys"},
    "fence-of-cta-scope": {"bug.cu:4": "__threadfence()"},
    "fence-of-gpu-scope": {"bug.cu:3": "__threadfence_system()"},
    "grid-barrier-arrives-relaxed": {"bug.cu:3": "atom.acq_rel.gpu"},
    "grid-barrier-leaves-relaxed": {"bug.cu:4": "ld.acquire.gpu"},
    "handed-on-relaxed": {"bug.cu:6": "ld.acquire.sys"},
    "last-block-relaxed": {"bug.cu:3": "atom.acq_rel.gpu"},
    "lock-freed-relaxed": {"bug.cu:4": "st.release.gpu"},
    "lock-taken-relaxed": {"bug.cu:2": "atom.acq_rel.gpu"},
    "one-thread-waits": {"bug.cu:9": "__syncthreads()"},
    "or-in-host-memory": {},
    "read-then-bulk-loaded": {"bug.cu:32": "fence.proxy.async"},
    "read-through-restrict": {"bug.cu:7": "no const __restrict__"},
    "ticket-served-relaxed": {"bug.cu:5": "st.release.gpu"},
    "wait-of-gpu-scope": {"bug.cu:6": "thread_scope_system"},
    "wait-relaxed": {"bug.cu:6": "ld.acquire.sys"},
    "written-then-bulk-stored": {"bug.cu:13": "fence.proxy.async"},
}
"""Of each kind of order one or two: where it is missing, and what. Nothing: the path has no atomics."""


@pytest.mark.parametrize("name", CASES)
def test_a_bug_is_found_and_its_mended_twin_is_not_accused(name: str) -> None:
    case = CASES[name]
    seeds = 20 if "explore" in case.engines else 200
    found = checked(scenario_of(case, "bug"), case.fabric, seeds=seeds, quick=True, max_seconds=5.0)
    assert found.status in (Status.FAIL, Status.HANG), found.verdict
    mended = checked(scenario_of(case, "fix"), case.fabric, seeds=20, quick=True)
    assert word(mended) in ("PASS", "NOT PROVED"), mended.verdict


@pytest.mark.parametrize("name", MENDED)
def test_what_mends_it_is_named(name: str) -> None:
    case: Case = CASES[name]
    repair = checked(scenario_of(case, "bug"), case.fabric, seeds=40).details["repair"]
    assert {edit["at"] for edit in repair["edits"]} == set(MENDED[name])
    assert all(MENDED[name][edit["at"]] in edit["change"] for edit in repair["edits"])
    assert bool(repair["advice"]) == (not MENDED[name])
