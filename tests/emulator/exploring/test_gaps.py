"""What stands between two accesses, as the search for gaps of the model asks it."""

from types import SimpleNamespace

import pytest

from pcietool.emulator.exploring.gaps import _fences, _is_in_another_phase
from pcietool.litmus.model.requests import Fence
from pcietool.litmus.text.program import Scope


@pytest.mark.parametrize(
    ("scope", "releases", "hands_on"),
    [(Scope.CTA, True, False), (Scope.GPU, True, True), (Scope.SYS, True, True), (Scope.SYS, False, False)],
)
def test_a_fence_hands_on_what_its_scope_reaches(scope: Scope, releases: bool, hands_on: bool) -> None:
    fence = Fence("fence", sequential=False, scope=scope, releases=releases)
    assert _fences(Scope.GPU)(SimpleNamespace(request=fence)) is hands_on
    assert not _fences(Scope.GPU)(SimpleNamespace(request=None))


def test_any_other_phase_is_another() -> None:
    """They wrap: a later one may have a smaller number."""
    assert [_is_in_another_phase(3)(SimpleNamespace(phase=phase)) for phase in (2, 3, 4)] == [True, False, True]
