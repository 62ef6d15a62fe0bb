"""Changes of a scenario's kernels that can be made at any size: by what they do where, whatever PTX it compiles to.

Must not run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pcietool.check.changing.edits import Edit, edited
from pcietool.check.running.sources import Built, Sources
from pcietool.ptx.model import Module
from pcietool.ptx.parser import parse

Key = tuple[str, str, str]
"""Place, form, and what is different."""


@dataclass(frozen=True)
class Change:
    """Some edits of one source. `find` lists all edits of its kind."""

    source: str
    edits: tuple[Edit, ...]
    """At the size at which they were found."""
    find: Callable[[Module], list[Edit]]

    @property
    def about(self) -> str:
        """Such as "mine.cu:12: release -> relaxed"."""
        return "; ".join(f"{edit.site.place}: {edit.about}" for edit in self.edits)

    @property
    def cost(self) -> int:
        """Of each line that is changed once, however often it was inlined."""
        return sum({(edit.site.source, edit.about): edit.cost for edit in self.edits}.values())

    def made_in(self, sources: Sources) -> dict[Built, str]:
        """The changed PTX of that source, compiled at any size."""
        keys = {_key(edit) for edit in self.edits}
        return {
            built: edited(
                built.compiled.ptx,
                [one for key, same in _edits(built, self.find).items() if key in keys for one in same],
            )
            for built in sources.all_built
            if built.unit.name == self.source
        }

    def __and__(self, other: Change) -> Change:
        return Change(self.source, (*self.edits, *other.edits), self.find)


def changes(sources: Sources, find: Callable[[Module], list[Edit]]) -> list[Change]:
    """One change an edit; functions that a template made of one place are changed together."""
    return [
        Change(built.unit.name, (same[0],), find)
        for built in sources.all_built
        for same in _edits(built, find).values()
    ]


def in_helpers(singles: Sequence[Change]) -> list[Change]:
    """The same edit in all calls of a function that was inlined several times: as if it was made in the function."""
    together: dict[tuple[object, ...], list[Change]] = {}
    for one in singles:
        (edit,) = one.edits
        if edit.site.instruction.callers:
            key = (one.source, edit.site.source, edit.site.instruction.form, edit.about)
            together.setdefault(key, []).append(one)
    return [
        Change(same[0].source, tuple(one.edits[0] for one in same), same[0].find)
        for same in together.values()
        if len(same) > 1
    ]


def _edits(built: Built, find: Callable[[Module], list[Edit]]) -> Mapping[Key, Sequence[Edit]]:
    return _edits_of(built.compiled.ptx, frozenset(built.compiled.entries.values()), find)


@cache
def _edits_of(ptx: str, launched: frozenset[str], find: Callable[[Module], list[Edit]]) -> Mapping[Key, Sequence[Edit]]:
    """In the kernels that are launched, and in functions that they may call."""
    module = parse(ptx)
    found: dict[Key, list[Edit]] = {}
    for edit in find(module):
        if edit.site.function in launched or edit.site.function not in module.entries:
            found.setdefault(_key(edit), []).append(edit)
    return found


def _key(edit: Edit) -> Key:
    return edit.site.place, edit.site.instruction.form, edit.about
