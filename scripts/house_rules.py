"""The house's rules that no linter knows: module, function and folder size, who may import CUDA, and that nothing
imports upwards or in a circle.

Arrows are computed from imports, hidden ones too: those inside functions, those for type checkers only, and modules
that are named in a string ("pcietool.probes:PROBES"). Prints one line a broken rule and exits 1. Must need nothing but
the standard library.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_FILES = 15
CUDA_IMPORTERS = {"machines", "compiler"}
STAIRCASE = (
    {"cli", "__main__", "pytest_plugin"},
    {"report"},
    {"probes"},
    {"check", "contenders"},
    {"supervision"},
    {"machines"},
    {"emulator"},
    {"litmus"},
    {"ptx", "compiler", "protocol"},
    {"data"},
    {"contract", "errors", "units", "stats", ""},
)
"""Top first; a part may import what stands on its own step or further down. "" is the package itself."""
NAMED_MODULE = re.compile(r"pcietool(\.\w+)+(?=:|$)")
"""A module in a string: "pcietool.probes:PROBES", or what `python -m` runs."""
SOURCES = (".py", ".cu", ".cuh")


@dataclass(frozen=True)
class Import:
    """`module` is absolute; `name` what is taken from it, if anything is."""

    line: int
    module: str
    name: str | None = None
    hidden: bool = False
    """It is named in a string only, and imported while the program runs."""


def imports(tree: ast.Module) -> Iterator[Import]:
    """Every import of a module, those inside functions and strings too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (Import(node.lineno, node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = NAMED_MODULE.match(node.value)
            if named:
                yield Import(node.lineno, named.group(), hidden=True)


def step(part: str) -> int | None:
    """On which step a part of the package stands; None for a part that no step names."""
    return next((index for index, parts in enumerate(STAIRCASE) if part in parts), None)


def part_of(module: str) -> str:
    """pcietool.report.files -> report. A name that is not one of the house's parts is a member of the package."""
    part = f"{module}.".split(".")[1]
    return "" if part.startswith("__") and part != "__main__" else part


def module_name(path: Path, package: Path) -> str:
    """The dotted name of the module at `path`; a folder's __init__ is the folder."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def broken_rules(path: Path, package: Path) -> Iterator[str]:
    """Every rule that the module at `path` breaks by itself, as one line each."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    parts = path.relative_to(package).with_suffix("").parts
    part = "" if parts[0] == "__init__" else parts[0]
    yield from _sizes(path, text, tree)
    own_step = step(part)
    if own_step is None:
        yield f"{path}: part {part!r} stands on no step of the staircase; add it to scripts/house_rules.py"
        return
    for one in imports(tree):
        if one.module.split(".")[0] == "cuda" and part not in CUDA_IMPORTERS:
            yield f"{path}:{one.line}: imports {one.module}; only {', '.join(sorted(CUDA_IMPORTERS))} may know CUDA"
        if one.module == "pcietool" and one.name is not None:
            other = step(part_of(f"pcietool.{one.name}"))
        elif one.module.startswith("pcietool."):
            other = step(part_of(one.module))
        else:
            continue
        if other is not None and other < own_step:
            what = one.module if one.module != "pcietool" else f"pcietool.{one.name}"
            yield f"{path}:{one.line}: imports {what}, which stands above {part or 'the package'}"


def _sizes(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield f"{path}: {lines} lines, more than {MAX_LINES}: make it two modules"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, more than {MAX_FUNCTION_LINES}"


def full_folders(root: Path) -> Iterator[str]:
    """Folders below `root` with more source files than a reader can keep in mind; data files do not count."""
    for folder in sorted({path.parent for path in root.rglob("*") if path.suffix in SOURCES}):
        count = sum(1 for path in folder.iterdir() if path.suffix in SOURCES)
        if count > MAX_FILES:
            yield f"{folder}: {count} source files, more than {MAX_FILES}: give some a room of their own"


def circles(package: Path) -> Iterator[str]:
    """Modules that import each other, however long the way round. A folder's __init__ only shows what is inside."""
    arrows = {module_name(path, package): _arrows(path, package) for path in sorted(package.rglob("*.py"))}
    arrows = {name: {other for other in others if other in arrows} for name, others in arrows.items()}
    for circle in _strongly_connected(arrows):
        if len(circle) > 1:
            yield f"modules import each other in a circle: {', '.join(sorted(circle))}"


def _arrows(path: Path, package: Path) -> set[str]:
    """What the module at `path` imports, hidden imports left out: a program that is started is no circle."""
    found = set()
    for one in imports(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if not one.hidden and one.module.split(".")[0] == package.name:
            inner = f"{one.module}.{one.name}"
            location = package.parent.joinpath(*inner.split("."))
            is_module = one.name is not None and (location.with_suffix(".py").exists() or location.is_dir())
            found.add(inner if is_module else one.module)
    return found - {module_name(path, package)}


def _strongly_connected(arrows: Mapping[str, set[str]]) -> Sequence[set[str]]:
    """Groups of names each of which reaches all the others."""
    reach = {name: _reachable(name, arrows) for name in arrows}
    groups = {frozenset({name} | {other for other in reach[name] if name in reach[other]}) for name in arrows}
    return [set(group) for group in sorted(groups, key=sorted)]


def _reachable(start: str, arrows: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        new = arrows[left.pop()] - found
        found |= new
        left += new
    return found


def main(root: Path) -> int:
    package = root / "pcietool"
    broken = [line for path in sorted(package.rglob("*.py")) for line in broken_rules(path, package)]
    broken += circles(package)
    broken += (line for name in ("pcietool", "kernels", "tests", "scripts") for line in full_folders(root / name))
    print("\n".join(broken) if broken else "house rules: kept")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
