"""Which kernels of a source take the Watch: those whose first parameter says so.

PTX only has 64-bit numbers, and `extern "C"` leaves no types in names: what counts is the declaration as it is written.
Must not judge anything else of a source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pcietool.errors import CompileError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\\\n", re.DOTALL)
_DECLARATION = re.compile(r"__global__\b(?:[^;{}()]|\([^()]*\))*?\b((?!__)\w+)\s*\(([^(),]*)")
_MACRO = re.compile(r"[A-Z_0-9]+")
_WATCH = re.compile(r"(struct\s+)?(::)?\s*Watch\s*\*.*|void\s*\*\s*(watch)?", re.DOTALL)
"""A pointer to Watch; or a void* that has no name, or that of a watch."""


def takes_watch(kernel: str, texts: Sequence[str]) -> bool:
    """Is the first parameter of `kernel`, which one of these texts declares, the Watch? Where only a macro declares it,
    what all kernels say that can be seen. Raises CompileError if they disagree, or none can be seen."""
    plain = [_COMMENT.sub(" ", text) for text in texts]
    declared = [(name, first.strip()) for text in plain for name, first in _DECLARATION.findall(text)]
    found = [first for name, first in declared if name == kernel] or [first for _, first in declared]
    answers = {_WATCH.fullmatch(_expanded(first, plain)) is not None for first in found}
    if len(answers) != 1:
        raise CompileError(
            f"kernel {kernel}: cannot see whether its first parameter is the Watch; write its declaration out"
        )
    return answers.pop()


def _expanded(first: str, texts: Sequence[str]) -> str:
    """A parameter, or what begins the list that a macro stands for."""
    if not _MACRO.fullmatch(first):
        return first
    definition = re.compile(rf"#\s*define\s+{first}\s+([^,\n]*)")
    return next((found[1].strip() for text in texts if (found := definition.search(text))), first)


def declares_watch(kernel: str, ptx_name: str, text: str) -> bool:
    """Of a kernel that somebody brought: is its first parameter a `Watch*` by type, mangled or as it is written? His
    void pointers are his own."""
    if ptx_name != kernel.rpartition("::")[2]:
        return re.search(r"P5Watch", ptx_name) is not None
    first = next((first for name, first in _DECLARATION.findall(_COMMENT.sub(" ", text)) if name == kernel), "")
    return re.fullmatch(r"\s*(struct\s+)?(::)?\s*Watch\s*\*.*", first, re.DOTALL) is not None
