"""The house's rules that no linter knows: module size, who may import CUDA, and that nothing imports upwards.

Prints one line a broken rule and exits 1. Must need nothing but the standard library.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 400
CUDA_IMPORTERS = {"machines", "compiler", "doctor"}
STAIRCASE = (
    {"cli", "__main__"},
    {"suite"},
    {"report"},
    {"probes", "doctor"},
    {"audit", "contenders"},
    {"supervision"},
    {"machines"},
    {"emulator"},
    {"litmus"},
    {"ptx", "compiler", "protocol"},
    {"data"},
    {"contract", "errors", "units", "stats", ""},
)
"""Top first; a part may import what stands on its own step or further down. "" is the package itself."""


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, absolute module name) of every import, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (f"pcietool.{alias.name}" for alias in node.names)
            yield from ((node.lineno, name) for name in (names if node.module == "pcietool" else [node.module]))


def step(part: str) -> int | None:
    """On which step a part of the package stands; None for a part that no step names."""
    return next((index for index, parts in enumerate(STAIRCASE) if part in parts), None)


def part_of(module: str) -> str:
    """pcietool.report.files -> report. A name that is not one of the house's parts is a member of the package."""
    part = f"{module}.".split(".")[1]
    return "" if part.startswith("__") and part != "__main__" else part


def broken_rules(path: Path, package: Path) -> Iterator[str]:
    """Every rule that the module at `path` breaks, as one line each."""
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(package).with_suffix("").parts
    part = "" if parts[0] == "__init__" else parts[0]
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield f"{path}: {lines} lines, more than {MAX_LINES}: make it two modules"
    own_step = step(part)
    if own_step is None:
        yield f"{path}: part {part!r} stands on no step of the staircase; add it to scripts/house_rules.py"
        return
    for line, module in imports(ast.parse(text, str(path))):
        if module.split(".")[0] == "cuda" and part not in CUDA_IMPORTERS:
            yield f"{path}:{line}: imports {module}; only {', '.join(sorted(CUDA_IMPORTERS))} may know CUDA"
        if not module.startswith("pcietool."):
            continue
        other = step(part_of(module))
        if other is not None and other < own_step:
            yield f"{path}:{line}: imports {module}, which stands above {part or 'the package'}"


def main(root: Path) -> int:
    package = root / "pcietool"
    broken = [line for path in sorted(package.rglob("*.py")) for line in broken_rules(path, package)]
    print("\n".join(broken) if broken else "house rules: kept")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
