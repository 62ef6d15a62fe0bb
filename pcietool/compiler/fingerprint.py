"""Hashes that say whether two kernels are the same code: of PTX, and of CUDA C++ with the headers it includes.

Equal PTX of one NVRTC is equal code, whatever became of the source. Another NVRTC writes the same code in other ways;
then equal source, comments and layout aside, is all that can be told. Must not compile anything.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

_PTX_COMMENT = re.compile(r"//.*")
_DEBUG_SECTION = re.compile(r"\.section\s+\.debug\w*\s*\{[^}]*\}")
_LINE_DIRECTIVES = (".loc ", ".file ")
_NAME = re.compile(r"[\w$]+")
_MODULE_CONSTANT = re.compile(r"\.(?:global|const) (?:\.\w+ (?:\d+ )?)*(?P<name>[\w$]+)\b.*;")
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|\S')
_INCLUDE = re.compile(r'# include "(?P<name>[^"]+)"')


def ptx_sha256(ptx: str) -> str:
    """Of what a GPU does with it: line information, comments and constants that no instruction names are left out."""
    ptx = _DEBUG_SECTION.sub("", _PTX_COMMENT.sub("", ptx))
    uses = Counter(_NAME.findall(ptx))
    lines = (" ".join(line.split()) for line in ptx.splitlines())
    return _sha256(line for line in lines if line and not line.startswith(_LINE_DIRECTIVES) and not _idle(line, uses))


def _idle(line: str, uses: Mapping[str, int]) -> bool:
    """A constant of a header, which every module that includes it declares."""
    declared = _MODULE_CONSTANT.fullmatch(line)
    return declared is not None and uses[declared["name"]] == 1


def source_sha256(source: str, headers: Mapping[str, str]) -> str:
    """Of the tokens of a CUDA source and of all it includes, in order; `headers` are texts by name."""
    return _sha256(_tokens(source, headers, set()))


def _tokens(source: str, headers: Mapping[str, str], seen: set[str]) -> Iterator[str]:
    """Line by line where a line is a directive, whose end means something; each header where it is first included."""
    for line in _STRING_OR_COMMENT.sub(lambda found: found[1] or " ", source).replace("\\\n", " ").splitlines():
        tokens = " ".join(_TOKEN.findall(line))
        included = _INCLUDE.fullmatch(tokens)
        if included is not None and included["name"] in headers:
            if included["name"] not in seen:
                seen.add(included["name"])
                yield from _tokens(headers[included["name"]], headers, seen)
        elif tokens.startswith("#"):
            yield f"\n{tokens}\n"
        elif tokens:
            yield tokens


def _sha256(parts: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()
