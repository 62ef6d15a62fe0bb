"""Where headers come from that a kernel of somebody's own includes: CUDA's and CCCL's, wherever they are installed, and
stubs for the host's, which NVRTC does not have.

Must not compile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pcietool.compiler.wheels import nvidia_folders

PACKAGES = "pip install 'pcietool[headers]'"
"""What brings CUDA's and CCCL's headers."""
_NEEDS_CCCL = (
    "type_traits", "limits", "utility", "tuple", "array", "algorithm", "cmath", "cstddef", "climits", "cfloat",
)  # fmt: skip
"""C++ headers that device code uses: CCCL has them for NVRTC, in a namespace of its own."""
_HOST_ONLY = (
    "iostream", "fstream", "sstream", "ostream", "istream", "iomanip", "vector", "string", "map", "set", "list",
    "deque", "queue", "stack", "unordered_map", "unordered_set", "memory", "thread", "mutex",
    "condition_variable", "chrono", "random", "stdexcept", "exception", "functional", "numeric", "optional",
    "variant", "string_view", "initializer_list", "cstdio", "stdio.h", "cstdlib", "stdlib.h", "cstring",
    "string.h", "ctime", "time.h", "cerrno", "errno.h", "csignal", "unistd.h", "sys/types.h", "sys/mman.h",
    "cuda_runtime.h", "cuda_runtime_api.h", "cuda.h", "device_launch_parameters.h",
)  # fmt: skip
"""Headers of whose contents no kernel has use: printf and the like NVRTC knows by itself."""
_FIXED_WIDTH = "\n".join(
    f"typedef {kind} int{bits}_t; typedef unsigned {kind} uint{bits}_t;"
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
).replace("typedef char int8_t", "typedef signed char int8_t")
_STDINT = (
    "#pragma once\n" + _FIXED_WIDTH + "\ntypedef long long intptr_t; typedef unsigned long long uintptr_t;\n"
    "namespace std { using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::uint8_t;"
    " using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::intptr_t; using ::uintptr_t; }\n"
)
_ASSERT = (
    "#pragma once\n#undef assert\n#ifdef NDEBUG\n#define assert(e) ((void)0)\n#else\n"
    "#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, sizeof(char)))\n"
    "#endif\n"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


@dataclass(frozen=True)
class Folder:
    """Headers of CUDA's or CCCL's. `source`: the package or variable that names it."""

    path: Path
    source: str


def header_folders() -> list[Folder]:
    """Those that exist, to be searched in this order."""
    return [one for one in _candidates() if one.path.is_dir()]


def _candidates() -> Iterator[Folder]:
    for root in nvidia_folders():
        for include in sorted(root.glob("*/include")):
            yield from _with_cccl(include, f"package nvidia/{include.parent.name}")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield from _with_cccl(Path(os.environ[variable]) / "include", variable)
    yield from _with_cccl(Path("/usr/local/cuda/include"), "/usr/local/cuda")


def _with_cccl(include: Path, source: str) -> Iterator[Folder]:
    yield Folder(include, source)
    yield Folder(include / "cccl", source)


def stubs(has_cccl: bool) -> dict[str, str]:
    """By name as it is included. With CCCL, C++ headers that device code uses are its own under their usual names."""
    found = dict.fromkeys(_HOST_ONLY, "#pragma once\n")
    found |= {"cstdint": _STDINT, "stdint.h": _STDINT, "cassert": _ASSERT, "assert.h": _ASSERT}
    for name in _NEEDS_CCCL:
        found[name] = "#pragma once\n"
        if has_cccl:
            found[name] += f"#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
    return found


def included(text: str) -> list[str]:
    """What a source includes by itself, as it is written."""
    return list(dict.fromkeys(_INCLUDE.findall(text)))
