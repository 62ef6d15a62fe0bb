"""Changes of PTX text, instruction by instruction, grouped by the line of CUDA that they come from.

An edit changes all copies that inlining and unrolling made of one place. Must not know what a change means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pcietool.check.changing.widths import parts
from pcietool.errors import PtxError
from pcietool.ptx.model import BasicBlock, Instruction, Module, SourceLine

_OPCODE = re.compile(r"(@!?%?[\w$]+\s+)?[\w.:]+(?:\s+\.[\w.:]+)*")
Copy = tuple[int, str]
"""An instruction in the text: its line, from 1, and itself as `Instruction.text` has it."""


@dataclass(frozen=True)
class Site:
    """One instruction as it is written in one place of the source. `callers`: the calls that were inlined, innermost
    first."""

    function: str
    instruction: Instruction
    copies: tuple[Copy, ...]

    @property
    def source(self) -> SourceLine | None:
        return self.instruction.source

    @property
    def place(self) -> str:
        """Such as "slots.cuh:24, called at mine.cu:12", or the line of PTX where the source has none."""
        if self.source is None:
            return f"PTX line {self.instruction.line}"
        called = self.instruction.callers
        return f"{self.source}" + (f", called at {called[-1]}" if called else "")

    @property
    def own_place(self) -> str:
        """The line that the kernel's author wrote: the outermost."""
        outermost = self.instruction.callers[-1:] or ((self.source,) if self.source else ())
        return str(outermost[0]) if outermost else f"PTX line {self.instruction.line}"


@dataclass(frozen=True)
class Edit:
    """What becomes of a site's instruction: another `form` (opcode and modifiers; the same if None, gone if empty), and
    instructions `before` and `after` it."""

    site: Site
    about: str
    """What is different then, in words."""
    form: str | None = None
    before: str = ""
    after: str = ""
    cost: int = 1
    """How large a change it is, for those that strengthen."""
    in_parts: bool = False
    """Each half of it, or each element of its vector, by an instruction of its own."""

    def of(self, text: str, line: int) -> str:
        """What stands there instead of one copy, without the last semicolon. `line`: of the copy, which names what is
        its own."""
        if self.in_parts:
            return parts(self.site.instruction, text, line)
        form = self.form
        if form is not None:
            text = _OPCODE.sub(lambda found: (found[1] or "") + form, text, count=1) if form else ""
        return "; ".join(filter(None, (self.before, text, self.after)))


def sites(module: Module) -> list[Site]:
    """Every instruction of every function, copies together, in order of the text."""
    found: dict[tuple[object, ...], list[tuple[str, Instruction]]] = {}
    for name, function in module.functions.items():
        for instruction in _instructions(function.blocks):
            place = instruction.source or instruction.line
            key = (name, instruction.form, place, instruction.callers)
            found.setdefault(key, []).append((name, instruction))
    return [
        Site(same[0][0], same[0][1], tuple(dict.fromkeys((one.line, one.text) for _, one in same)))
        for same in found.values()
    ]


def _instructions(blocks: Iterable[BasicBlock]) -> Iterator[Instruction]:
    for block in blocks:
        yield from block.instructions


def edited(ptx: str, edits: Iterable[Edit]) -> str:
    """The text with all of these, which are of different sites."""
    lines = ptx.split("\n")
    for edit in edits:
        for number, text in edit.site.copies:
            written = re.compile(r"\s+".join(map(re.escape, text.removesuffix(";").split())) + r"\s*;")
            old = written.search(lines[number - 1])
            if old is None:
                raise PtxError(f"PTX line {number}: {text} stands on several lines; write it on one")
            new = edit.of(text.removesuffix(";").rstrip(), number)
            lines[number - 1] = lines[number - 1][: old.start()] + (new and f"{new};") + lines[number - 1][old.end() :]
    return "\n".join(lines)
