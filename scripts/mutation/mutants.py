"""The single changes that cosmic-ray's operators make of a Python file, and which of them are none of behaviour.

Must not run tests.
"""

from __future__ import annotations

import ast
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

IDENTITY = re.compile(r"Comparison\w+_(?:Is|IsNot)_(?!Is)|Comparison\w+_(?!Is)\w+_(?:Is|IsNot)$")
"""`==` for `is` and back: what comes of it depends on which objects Python happens to share."""
OPERATORS = [
    name
    for name in operator_names()
    if not name.endswith(("NoOp", "VariableReplacer", "VariableInserter")) and not IDENTITY.search(name)
]
FOR_READERS = {"overload", "abstractmethod", "override", "final", "runtime_checkable"}
"""Decorators that change nothing at run time, or nothing that a class which is complete could show."""
LOGS = {"log", "logger", "logging"}
NO_CHILDREN_TO_CHANGE = {"name", "string", "newline", "endmarker", "fstring_string", "fstring_start", "fstring_end"}

Position = tuple[int, int]
"""Line from 1, column in characters from 0."""


@dataclass(frozen=True)
class Mutant:
    """One change of `file`, within `function` (dotted, "" for the module itself)."""

    file: str
    line: int
    function: str
    was: str
    became: str
    """The changed lines without their indentation."""
    text: str
    """The whole file, changed."""
    statement: range
    """The lines that are executed where the change is; empty where that is on import."""
    diff: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """By which it is known again when lines have moved."""
        return self.file, self.function, self.was, self.became


@dataclass(frozen=True)
class Site:
    """A place that can be changed, and in which ways: operators with the number of the place among their own."""

    path: Path
    start: Position
    ways: Sequence[tuple[str, int]]


def sites(path: Path) -> list[Site]:
    """Those of one file, in its order."""
    text = path.read_text(encoding="utf-8")
    nodes = [node for node in ast_nodes(get_ast(text)) if node.type not in NO_CHILDREN_TO_CHANGE]
    ways: dict[tuple[Position, Position], list[tuple[str, int]]] = defaultdict(list)
    for name in OPERATORS:
        operator = get_operator(name)()
        places = (place for node in nodes for place in operator.mutation_positions(node))
        for occurrence, place in enumerate(places):
            ways[place].append((name, occurrence))
    unseen = Unseen(text)
    return [Site(path, start, made) for (start, end), made in sorted(ways.items()) if (start, end) not in unseen]


def sample(found: Sequence[Site], count: int, seed: int, root: Path) -> Iterator[Mutant]:
    """So many, one at most of each site: each site is as likely as any other, however many operators fit it."""
    choice = random.Random(seed)
    for site in choice.sample(found, len(found)):
        ways = choice.sample(site.ways, len(site.ways))
        made = next((one for way in ways if (one := mutant(site, *way, root))), None)
        if made and count > 0:
            count -= 1
            yield made
        if not count:
            return


def mutant(site: Site, operator: str, occurrence: int, root: Path) -> Mutant | None:
    """None where what comes of it is no Python, or the same."""
    text = site.path.read_text(encoding="utf-8")
    changed = mutate_code(text, get_operator(operator)(), occurrence)
    try:
        if not changed or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text)):
            return None
    except SyntaxError:
        return None
    name = site.path.relative_to(root).as_posix()
    before, after = text.splitlines(), changed.splitlines()
    diff = list(unified_diff(before, after, name, name, n=2, lineterm=""))
    function, statement = surroundings(text, site.start[0])
    was, became = ("\n".join(line[1:].strip() for line in diff[2:] if line[0] == sign) for sign in "-+")
    return Mutant(name, site.start[0], function, was, became, changed, statement, "\n".join(diff))


def surroundings(text: str, line: int) -> tuple[str, range]:
    """The dotted name of the innermost function or class with that line, and the lines of the innermost statement
    (of a compound one its head, or what else of it is no statement: that line); none where they run on import."""
    around = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt) and line in span(node)]
    named = [one for one in around if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    function = ".".join(one.name for one in named)
    if not any(line >= one.body[0].lineno for one in named if not isinstance(one, ast.ClassDef)):
        return function, range(0)
    whole = span(around[-1])
    body: list[ast.stmt] | None = getattr(around[-1], "body", None)
    if not body:
        return function, whole
    head = range(whole.start, body[0].lineno)
    return function, head if line in head else range(line, line + 1)


def span(node: ast.stmt) -> range:
    """Its lines, decorators included."""
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    return range(first, (node.end_lineno or first) + 1)


class Unseen:
    """Where a change is none of behaviour: annotations, aliases of types, what only a type checker reads, `__repr__`,
    and what is logged."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.ranges = [self._range(node) for one in ast.walk(ast.parse(text)) for node in unseen_parts(one)]

    def __contains__(self, place: tuple[Position, Position]) -> bool:
        return any(start <= place[0] and place[1] <= end for start, end in self.ranges)

    def _range(self, node: ast.expr | ast.stmt) -> tuple[Position, Position]:
        end_line = node.end_lineno or node.lineno
        end = end_line, self._column(end_line, node.end_col_offset or 0)
        before = isinstance(node, ast.expr) and self.lines[node.lineno - 1][: node.col_offset].endswith("@")
        return (node.lineno, self._column(node.lineno, node.col_offset) - before), end_or_next(end, before)

    def _column(self, line: int, nbytes: int) -> int:
        """ast counts bytes, parso characters."""
        return len(self.lines[line - 1].encode()[:nbytes].decode())


def end_or_next(end: Position, decorator: bool) -> Position:
    """parso's decorator ends where the next line begins."""
    return (end[0] + 1, 0) if decorator else end


def unseen_parts(node: ast.AST) -> Iterable[ast.expr | ast.stmt]:
    match node:
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return [node]
        case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation):
            return [annotation]
        case ast.FunctionDef(name="__repr__"):
            return [node]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            returns = getattr(node, "returns", None)
            typed = [one for one in node.decorator_list if ast.unparse(one).rpartition(".")[2] in FOR_READERS]
            return [*typed, *([returns] if returns else [])]
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return [node]
        case ast.Call(func=ast.Name(id="cast")) if node.args:
            return [node.args[0]]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in LOGS:
            return [node]
    return []


def equivalents(path: Path) -> Mapping[tuple[str, str, str, str], str]:
    """Why a mutant, by its key, changes nothing that anybody could notice."""
    listed: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    return {(one["file"], one["in"], one["was"], one["became"]): one["why"] for one in listed}
