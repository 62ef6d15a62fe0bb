"""Random memory order held against every execution of the same program: it shows nothing else, and weak outcomes too.

PCIETOOL_RANDOM_ORDER_PROGRAMS sets how many random programs of each kind run.
"""

import os
from pathlib import Path

import pytest

from pcietool.litmus.explore import explore
from pcietool.litmus.text.library import load, packaged
from pcietool.litmus.text.parse import parse_litmus
from tests.emulator.order.random_order_kernels import is_straight, run_once
from tests.litmus.random_programs import random_program

PROGRAMS = int(os.environ.get("PCIETOOL_RANDOM_ORDER_PROGRAMS", "40"))
SEEDS = 6
MANY_SEEDS = 500
STRAIGHT = [path for path in packaged() if is_straight(load(path))]


@pytest.mark.parametrize("with_rmws", [False, True], ids=["loads-stores-fences", "rmws"])
def test_random_programs_show_only_what_the_model_allows(with_rmws: bool) -> None:
    for number in range(PROGRAMS):
        text = random_program(number, with_rmws, longest=4)
        test = parse_litmus(text)
        allowed = explore(test).outcomes
        for seed in range(SEEDS):
            outcome = run_once(test, seed)
            assert outcome in allowed, f"program {number}, seed {seed} shows {outcome}\n{text}"


@pytest.mark.parametrize("path", STRAIGHT, ids=lambda path: path.stem)
def test_packaged_tests_show_only_what_the_model_allows(path: Path) -> None:
    test = load(path)
    allowed = explore(test).outcomes
    assert {run_once(test, seed) for seed in range(SEEDS)} <= set(allowed)


@pytest.mark.parametrize(
    "name",
    [
        "mp-weak-gpus",
        "mp-relaxed.sys-gpus",
        "mp-release.gpu-acquire.sys-gpus",
        "sb-weak-gpus",
        "sb-release.sys-acquire.sys-gpus",
        "sb-fence.acq_rel.sys-gpus",
        "wrc-no-release-gpus",
    ],
)
def test_some_seed_shows_the_weak_outcome(name: str) -> None:
    test = next(load(path) for path in packaged() if path.stem == name)
    items = test.question.items
    assert any(
        test.question.proposition(dict(zip(items, run_once(test, seed), strict=True))) for seed in range(MANY_SEEDS)
    )
