"""What people bring to be compiled: a source with the options that it needs. Must not compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pcietool.compiler.binaries import is_binary
from pcietool.contract.text_files import read_text
from pcietool.errors import UsageError

Language = Literal["cuda", "ptx", "binary"]
MOST_BYTES = 16 * 1024 * 1024
"""Of a source: PTX of many kernels is long."""
SUFFIXES: Mapping[str, Language] = {
    ".cu": "cuda",
    ".cuh": "cuda",
    ".h": "cuda",
    ".hpp": "cuda",
    ".ptx": "ptx",
}


@dataclass(frozen=True)
class Unit:
    """`text` is CUDA C++ or PTX, of a binary nothing; `entries` are kernels by their C++ names, templates with their
    arguments. `folder`: where its own includes are looked for first."""

    name: str
    text: str
    language: Language = "cuda"
    include: tuple[Path, ...] = ()
    define: Mapping[str, str | int] = field(default_factory=dict)
    std: str = "c++17"
    entries: tuple[str, ...] = ()
    folder: Path | None = None
    path: Path | None = None
    """The file, if it is one."""

    def key(self) -> tuple[object, ...]:
        """Equal units compile to the same code, as long as what they include stays as it is."""
        defines = tuple(sorted(self.define.items()))
        return (
            self.name,
            self.text,
            self.language,
            self.include,
            defines,
            self.std,
            self.entries,
            self.folder,
            self.path,
        )


def unit_of_file(path: Path) -> Unit:
    """Without options. Raises UsageError for a file that cannot be read, or is none of these kinds."""
    if is_binary(path):
        return Unit(path.name, "", "binary", folder=path.parent, path=path)
    language = SUFFIXES.get(path.suffix)
    if language is None:
        kind = path.suffix or "file without suffix"
        raise UsageError(
            f"{path}: cannot compile a {kind}; it takes binaries with PTX inside, and {', '.join(SUFFIXES)}"
        )
    return Unit(path.name, read_text(path, MOST_BYTES), language, folder=path.parent, path=path)
