"""The figures that README.md, docs/ and results/ quote are those of the recordings."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import figures
from scripts.figures import corrected, put

NO_MEASUREMENTS = {"3.11", "5.0", "580.159", "13.0"}
"""Versions, and the generation of PCIe."""
CODE_AND_LINKS = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL)
LOOKS_MEASURED = re.compile(r"(?<![\w.,])(?:\d+(?:,\d{3})+|\d+\.\d+)(?![\w.])|\d+(?= (?:%|µs|GB/s|cycles))")


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: str(page.relative_to(figures.ROOT)))
def test_every_figure_is_as_recorded(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    right, problems = corrected(text)
    assert problems == [], "python -m scripts.figures --write puts the recorded ones there"
    assert right == text


@pytest.mark.parametrize(
    "page",
    [page for page in figures.PAGES if page.name == "README.md"],
    ids=lambda page: str(page.relative_to(figures.ROOT)),
)
def test_every_figure_of_a_readme_says_where_it_comes_from(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crossed_out(text: str, values: Sequence[float]) -> tuple[str, list[str]]:
        return put(text, [math.nan] * len(values))

    monkeypatch.setattr(figures, "put", crossed_out)
    unmarked, _ = corrected(page.read_text(encoding="utf-8"))
    assert set(LOOKS_MEASURED.findall(CODE_AND_LINKS.sub("", unmarked))) <= NO_MEASUREMENTS


def test_another_figure_is_named_and_put_right() -> None:
    mark = '<!--= seen("peer", "mp-relaxed.sys-gpus") -->'
    right = f"It was seen\n6,779 times{mark}."
    assert corrected(right) == (right, [])
    wrong = right.replace("6,779", "6,780")
    assert corrected(wrong) == (right, ['2: 6,780 is 6,779: seen("peer", "mp-relaxed.sys-gpus")'])


def test_a_figure_has_the_decimals_that_it_is_printed_with() -> None:
    for printed in ("62", "62.3", "62.35", "62.346"):
        assert corrected(f"{printed} %<!--= 62.3456 -->")[1] == []
    assert corrected("62.34 %<!--= 62.3456 -->")[0] == "62.35 %<!--= 62.3456 -->"


def test_several_values_stand_behind_the_last_of_their_figures() -> None:
    text = "| row of 4 | 1.1 | 2.0 | 3 [2, 4]<!--= [1.1, 2, 3, 2, 4] --> |"
    assert corrected(text) == (text, [])
    assert corrected(text.replace("2.0", "2.1"))[0] == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 of 2<!--= [1, 2, 3] -->", "3 values, but 2 figures"),
        ("never<!--? 1 == 2 -->", "holds no longer"),
        ('1<!--= seen("peer", "no-such-test") -->', "LookupError: 0 entries fit"),
        ('1<!--= barrier("peer") -->', "TypeError"),
    ],
)
def test_what_does_not_fit_is_a_problem_and_leaves_the_page_alone(text: str, problem: str) -> None:
    page, (found,) = corrected(text)
    assert page == text
    assert problem in found
