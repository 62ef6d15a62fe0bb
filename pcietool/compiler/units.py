"""Compiles what people bring: CUDA C++ with its own includes, macros and template entries; PTX is taken as it is.

Once for the same unit and architecture in this process. Must not load or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from pcietool.compiler.binaries import ptx_of_binary
from pcietool.compiler.compile import Compiled, compiled, real_architecture
from pcietool.compiler.headers import PACKAGES, header_folders, stubs
from pcietool.compiler.library import nvrtc_info
from pcietool.compiler.unit import Unit
from pcietool.errors import CompileError

_NOT_FOUND = re.compile(r'(?:cannot|could not) open source file "([^"]+)"')
_ENTRY = re.compile(r"\.entry\s+([\w$.]+)")
_known: dict[tuple[object, ...], Compiled] = {}


def compile_unit(unit: Unit, architecture: str | tuple[int, int]) -> Compiled:
    """Raises CompileError: what `compile_source` raises, and an entry that is not there, with those that are."""
    target = real_architecture(architecture)
    key = (*unit.key(), target)
    if key not in _known:
        _known[key] = _compiled(unit, target)
    return _known[key]


def _compiled(unit: Unit, target: str) -> Compiled:
    if unit.language == "cuda":
        found = _of_cuda(unit, target)
    else:
        found = Compiled(_ready(unit, target), b"", target, "", nvrtc_info())
    names = _ENTRY.findall(found.ptx)
    entries = {entry: found.entries.get(entry) or _entry(unit, entry, names) for entry in unit.entries}
    return Compiled(found.ptx, found.cubin, target, found.log, found.nvrtc, entries)


def _ready(unit: Unit, target: str) -> str:
    """PTX that is there already; of a binary made of several sources, that of the one which has the kernels."""
    if unit.path is None or unit.language != "binary":
        return unit.text
    texts = ptx_of_binary(unit.path, target)
    meant = [text for text in texts if all(_named(entry, _ENTRY.findall(text)) for entry in unit.entries)]
    if len(meant) > 1:
        wanted = " and ".join(unit.entries)
        raise CompileError(
            f"{unit.name}: several sources in it have {wanted}; take them apart by cuobjdump -xptx all {unit.path}"
        )
    return meant[0] if meant else "\n".join(texts)


def _of_cuda(unit: Unit, target: str) -> Compiled:
    folders = [*([unit.folder] if unit.folder else []), *unit.include, *(one.path for one in header_folders())]
    options = [f"--std={unit.std}", "-default-device", "-lineinfo", *(f"-I{folder}" for folder in folders)]
    options += [f"-D{name}={value}" for name, value in unit.define.items()]
    expressions = [entry for entry in unit.entries if not _is_plain(entry)]
    has_cccl = any((folder / "cuda" / "std").is_dir() for folder in folders)
    try:
        return compiled(unit.text, unit.name, target, options, expressions, stubs(has_cccl))
    except CompileError as error:
        raise _explained(error, unit, folders) from None


def _explained(error: CompileError, unit: Unit, folders: Sequence[Path]) -> CompileError:
    """In the words of who wrote the source: what NVRTC, which compiles for the device alone, cannot know."""
    first, _, log = str(error).partition("\n")
    if missing := _NOT_FOUND.search(str(error)):
        where = ", ".join(map(str, folders)) or "nowhere"
        advice = f"add its folder with include=[...], or {PACKAGES} if it is CUDA's"
        return CompileError(f"{unit.name}: there is no {missing[1]} to include; searched: {where}; {advice}\n{log}")
    for entry in unit.entries:
        if not _is_plain(entry) and "__nv_" in first + log and entry in log:
            return CompileError(
                f"{unit.name} has no kernel {entry!r}, or it cannot be made: {_first_error(log)}\n{log}"
            )
    if launch := next((n for n, line in enumerate(unit.text.splitlines(), 1) if "<<<" in line), None):
        advice = "put `#ifndef __CUDACC_RTC__` around host code, or the kernels into a .cuh of their own"
        return CompileError(f"{first}; line {launch} launches a kernel, which NVRTC cannot compile: {advice}\n{log}")
    return error


def _first_error(log: str) -> str:
    lines = [line for line in log.splitlines() if ": error: " in line]
    return lines[0].partition(": error: ")[2] if lines else "see the log"


def _is_plain(entry: str) -> bool:
    """Without namespace or template arguments: found by its name in the PTX, extern "C" or not."""
    return entry.isidentifier()


def _entry(unit: Unit, entry: str, names: Collection[str]) -> str:
    """The kernel's name in the PTX. Raises CompileError, naming those that there are."""
    found = _named(entry, names)
    if len(found) == 1:
        return found[0]
    there = ", ".join(sorted({plain_name(name) for name in names})) or "none"
    if found:
        raise CompileError(
            f"{unit.name} has {len(found)} kernels called {entry}; name one by its PTX name: {', '.join(found)}"
        )
    hint = "" if names else ' (a template needs its arguments: entry="name<float>")'
    raise CompileError(f"{unit.name} has no kernel {entry!r}; it has {there}{hint}")


def _named(entry: str, names: Collection[str]) -> list[str]:
    return [name for name in names if entry in (name, plain_name(name))]


def plain_name(name: str) -> str:
    """ "_ZN2ns4pushIfEEvPT_" -> "ns::push"; anything else as it is."""
    found = re.match(r"_ZN?K?(?=\d)", name)
    if found is None:
        return name
    parts, rest = [], name[found.end() :]
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        parts.append(rest[length.end() : end])
        rest = rest[end:] if found[0].startswith("_ZN") else ""
    return "::".join(parts)
