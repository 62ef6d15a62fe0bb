"""Holds the figures in README.md, docs/ and results/ against the recordings: `python -m scripts.figures [--write]`.

Behind a figure stands where it comes from, in Python with the words of scripts/recorded.py:
`1.25 µs<!--= barrier("peer", "publishing") -->`. It is compared as it is printed, with its decimals. An expression of
several values is about as many figures before it, and `<!--? ... -->` is a statement that must hold. `--write` puts the
figures of the recordings in their places. Exits 1 if one differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts import recorded

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/**/*.md")])
WORDS = {name: word for name, word in vars(recorded).items() if not name.startswith("_")}

_MARK = re.compile(r"<!--(?P<kind>[=?]) (?P<expression>.*?) -->", re.DOTALL)


def corrected(text: str) -> tuple[str, list[str]]:
    """(the page with every figure as the recordings have it, "LINE: what differs" for each that was not so)."""
    done = []
    problems: list[str] = []
    end = 0
    for mark in _MARK.finditer(text):
        before, end = text[end : mark.start()], mark.end()
        expression = " ".join(mark["expression"].split())
        try:
            value = eval(expression, dict(WORDS))  # of our own pages
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        else:
            if mark["kind"] == "=":
                before, found = put(before, value if isinstance(value, list | tuple) else [value])
            else:
                found = [] if value else ["holds no longer"]
        line = text.count("\n", 0, mark.start()) + 1
        problems += (f"{line}: {one}: {expression}" for one in found)
        done += [before, mark[0]]
    return "".join(done) + text[end:], problems


def put(text: str, values: Sequence[float]) -> tuple[str, list[str]]:
    """The last figures of `text` replaced by `values`, with the decimals that each had; and what changed."""
    places = list(recorded.NUMBER.finditer(text))
    if len(places) < len(values):
        return text, [f"{len(values)} values, but {len(places)} figures"]
    changed = []
    for place, value in zip(reversed(places), reversed(values), strict=False):
        now = f"{value:,.{len(place[0].partition('.')[2])}f}"
        if now != place[0]:
            changed.append(f"{place[0]} is {now}")
            text = text[: place.start()] + now + text[place.end() :]
    return text, changed[::-1]


def main() -> int:
    write = "--write" in sys.argv[1:]
    problems = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        right, wrong = corrected(text)
        if write and right != text:
            page.write_text(right, encoding="utf-8")
        for one in wrong:
            print(f"{page.relative_to(ROOT)}:{one}")
        problems += len(wrong)
    print(f"figures: {problems} differ from results/" if problems else "figures: as in results/")
    return bool(problems) and not write


if __name__ == "__main__":
    sys.exit(main())
