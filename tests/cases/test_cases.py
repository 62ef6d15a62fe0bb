"""Every case, in every engine that applies: the bug is noticed as the case says, and its fixed twin is clean."""

from __future__ import annotations

import re
from typing import cast

import pytest

from pcietool.contract.outcomes import UnorderedAccess
from pcietool.emulator.engine.variants import OrderName
from pcietool.errors import PcietoolError
from tests.cases.case import Case, cases, explored, ran

CASES = cases()
ALL = [(case, engine) for case in CASES for engine in case.engines]


def _names(value: object) -> str | None:
    return value.name if isinstance(value, Case) else None


@pytest.mark.parametrize(("case", "engine"), ALL, ids=_names)
def test_the_fixed_kernel_is_clean(case: Case, engine: str) -> None:
    assert _seen(case, "fix", engine) == set(case.fix.get(engine, ()))


@pytest.mark.parametrize(("case", "engine"), [one for one in ALL if one[1] in one[0].bug], ids=_names)
def test_the_bug_is_noticed(case: Case, engine: str) -> None:
    seen = _seen(case, "bug", engine)
    for expected in case.bug[engine]:
        kind, _, text = expected.partition(" ")
        assert any(one.startswith(kind) and text in one for one in seen), f"{expected}: {sorted(seen)}"


def test_a_case_says_of_its_bug_where_it_is_noticed() -> None:
    assert all(case.bug and all(case.bug.values()) and set(case.bug) <= set(case.engines) for case in CASES)


def _seen(case: Case, variant: str, engine: str) -> set[str]:
    """What an engine says of a kernel; nothing if it is clean: "hang", "wrong", "undecided", "unordered LINE | LINE",
    "refused MESSAGE"."""
    try:
        if engine == "explore":
            return _seen_exploring(case, variant)
        return _seen_running(case, variant, cast(OrderName, engine))
    except PcietoolError as error:
        return {f"refused {error}"}


def _seen_running(case: Case, variant: str, order: OrderName) -> set[str]:
    seen = set()
    for one in ran(case, variant, order):
        if not one.outcome.finished:
            seen.add("hang")
        elif one.memory not in case.right:
            seen.add("wrong")
        seen |= {f"unordered {_lines(case, variant, pair)}" for pair in one.outcome.unordered}
    return seen


def _seen_exploring(case: Case, variant: str) -> set[str]:
    found, outcomes = explored(case, variant)
    wrong = found.verdict(lambda outcome: outcomes[outcome] not in case.right)
    names = {"hang": found.hangs, "wrong": wrong}
    seen = {name for name, verdict in names.items() if verdict == "allowed"}
    return seen | {"undecided" for verdict in names.values() if verdict == "undecided"}


def _lines(case: Case, variant: str, pair: UnorderedAccess) -> str:
    """The pair, with the text of its source lines."""
    lines = case.source(variant).splitlines()
    places = (pair.source, pair.by_source)
    found = [re.match(rf"{variant}\.cu:(\d+)", place) for place in places]
    return " | ".join(lines[int(at[1]) - 1].strip() if at else place for at, place in zip(found, places, strict=True))
