"""One NVRTC compile of one kernel source for one real architecture.

Always for sm_XX, never compute_XX: that gives PTX and cubin of the same compile, and lets ptxas check inline
assembly. Must not look for sources or cache anything: a compile takes some 30 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Any

from pcietool.compiler.fingerprint import ptx_sha256
from pcietool.compiler.library import NvrtcInfo, checked, nvrtc_info, supported_architectures
from pcietool.data import kernel_headers
from pcietool.errors import CompileError

LIMIT_S = 300.0
_ENDLESS = "look for templates that instantiate each other without end, or bring its PTX, made by nvcc"
_OPTIONS = ("--std=c++17", "-default-device", "-lineinfo")
_REAL_ARCHITECTURE = re.compile(r"sm_(\d+)[af]?")
_FRONT_END_ERROR = re.compile(r"^.+\(\d+\): (?:catastrophic )?error: .+$", re.MULTILINE)
_PTXAS_ERROR = re.compile(r"^ptxas .*, line (?P<line>\d+); error\s*: (?P<what>.+)$", re.MULTILINE)
_FILE_DIRECTIVE = re.compile(r'(?P<head>\.file\s+(?P<number>\d+)\s+)"(?:[^"]*/)?(?P<name>[^"/]+)"')
_LOC_DIRECTIVE = re.compile(r"\s*\.loc\s+(?P<file>\d+)\s+(?P<line>[1-9]\d*)\s")


@dataclass(frozen=True)
class Compiled:
    """PTX and cubin of one compile; `architecture` such as "sm_90"; `log` is empty unless NVRTC warned."""

    ptx: str
    cubin: bytes
    architecture: str
    log: str
    nvrtc: NvrtcInfo
    entries: Mapping[str, str] = field(default_factory=dict)
    """The name in the PTX of kernels that were asked for by their C++ names."""

    @property
    def ptx_sha256(self) -> str:
        return ptx_sha256(self.ptx)


def compile_source(
    source: str, *, name: str, architecture: str | tuple[int, int], defines: Mapping[str, int]
) -> Compiled:
    """Compiles CUDA C++ text that includes nothing but the headers of kernels/.

    `name` is what messages and line information call the source; `architecture` is "sm_90" or a compute capability
    (9, 0). Raises CompileError: NVRTC missing, not knowing the architecture, or refusing the source; then the first
    line says where, and NVRTC's log follows.
    """
    options = [*_OPTIONS, *(f"-D{key}={value}" for key, value in defines.items())]
    return compiled(source, name, real_architecture(architecture), options)


def compiled(
    source: str,
    name: str,
    target: str,
    options: Sequence[str],
    expressions: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Compiled:
    """The same with NVRTC's own options; `expressions` are C++ names of kernels, which templates only then become;
    `headers` can be included beside those of kernels/. Raises CompileError also for what takes LIMIT_S."""
    work = partial(_compiled, source, name, target, options, expressions, headers)
    return ended(work, f"NVRTC had not compiled {name} after {{limit}}; it may never: {_ENDLESS}")


def ended(work: Callable[[], Compiled], complaint: str, limit_s: float = LIMIT_S) -> Compiled:
    """What `work` returns or raises. NVRTC hears no Ctrl-C and knows no limit, so this thread waits for another one.

    Raises CompileError with the complaint, in which {limit} is filled in."""
    came: list[Compiled | BaseException] = []

    def run() -> None:
        try:
            came.append(work())
        except BaseException as error:
            came.append(error)

    thread = Thread(target=run, daemon=True)  # which no end of the process waits for
    thread.start()
    thread.join(limit_s)
    if not came:
        raise CompileError(complaint.format(limit=f"{limit_s:g} s"))
    if isinstance(came[0], BaseException):
        raise came[0]
    return came[0]


def _compiled(
    source: str,
    name: str,
    target: str,
    options: Sequence[str],
    expressions: Sequence[str],
    headers: Mapping[str, str] | None,
) -> Compiled:
    with _program(source, name, headers) as program:
        for expression in expressions:
            checked(nvrtc().nvrtcAddNameExpression(program, expression.encode()))
        succeeded = _compile(program, [f"--gpu-architecture={target}", *options])
        log = _read(program, "ProgramLog").decode(errors="replace").strip("\0\n ")
        if succeeded:
            ptx = _plain_file_names(_read(program, "PTX").decode().rstrip("\0"))
            entries = {one: checked(nvrtc().nvrtcGetLoweredName(program, one.encode())).decode() for one in expressions}
            return Compiled(ptx, _read(program, "CUBIN"), target, log, nvrtc_info(), entries)
    where = _front_end_error(log) or _assembler_error(log, source, name, target, options) or "see the log"
    raise CompileError(f"NVRTC refused {name} for {target}: {where}\n{log}")


def real_architecture(architecture: str | tuple[int, int]) -> str:
    """Such as "sm_90". Raises CompileError for what this NVRTC does not know."""
    target = architecture if isinstance(architecture, str) else f"sm_{architecture[0]}{architecture[1]}"
    match = _REAL_ARCHITECTURE.fullmatch(target)
    if match is None:
        raise CompileError(f"{target!r} is no GPU architecture to compile for; write it as sm_90")
    number = int(match[1])
    known = supported_architectures()
    if number > known[-1]:
        raise CompileError(
            f"{nvrtc_info()} supports up to sm_{known[-1]}, GPU is {target}: pip install -U nvidia-cuda-nvrtc"
        )
    if number < known[0]:
        raise CompileError(f"{nvrtc_info()} supports sm_{known[0]} and newer, GPU is {target}: it needs an older NVRTC")
    if number not in known:
        names = ", ".join(f"sm_{other}" for other in known)
        raise CompileError(f"{nvrtc_info()} does not know {target}; it knows {names}")
    return target


def nvrtc() -> Any:
    """The bindings, which cost time to import."""
    from cuda.bindings import nvrtc

    return nvrtc


@contextmanager
def _program(source: str, name: str, more_headers: Mapping[str, str] | None = None) -> Iterator[Any]:
    headers = {**kernel_headers(), **(more_headers or {})}
    texts = [text.encode() for text in headers.values()]
    names = [header.encode() for header in headers]
    program = checked(nvrtc().nvrtcCreateProgram(source.encode(), name.encode(), len(names), texts, names))
    try:
        yield program
    finally:
        nvrtc().nvrtcDestroyProgram(program)


def _compile(program: Any, options: Sequence[str]) -> bool:
    """False if the source is refused: the log says why."""
    answer = nvrtc().nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if answer[0] == nvrtc().nvrtcResult.NVRTC_ERROR_COMPILATION:
        return False
    checked(answer)
    return True


def _read(program: Any, what: str) -> bytes:
    """One of the outputs that NVRTC hands over by a pair of calls, nvrtcGetXSize and nvrtcGetX."""
    content = bytes(checked(getattr(nvrtc(), f"nvrtcGet{what}Size")(program)))
    checked(getattr(nvrtc(), f"nvrtcGet{what}")(program, content))
    return content


def _plain_file_names(ptx: str) -> str:
    """NVRTC puts the current directory before the names it was given; without it PTX is the same everywhere."""
    return _FILE_DIRECTIVE.sub(r'\g<head>"\g<name>"', ptx)


def _front_end_error(log: str) -> str | None:
    match = _FRONT_END_ERROR.search(log)
    return match[0] if match else None


def _assembler_error(log: str, source: str, name: str, target: str, options: Sequence[str]) -> str | None:
    """ptxas names a line of PTX that nobody has seen: the same compile without ptxas leads back to the CUDA line."""
    match = _PTXAS_ERROR.search(log)
    if match is None:
        return None
    with _program(source, name) as program:
        _compile(program, [f"--gpu-architecture={target.replace('sm_', 'compute_')}", *options])
        ptx = _read(program, "PTX").decode().rstrip("\0")
    lines = ptx.splitlines()[: int(match["line"])]
    files = {directive["number"]: directive["name"] for directive in _FILE_DIRECTIVE.finditer(ptx)}
    location = next((found for line in reversed(lines) if (found := _LOC_DIRECTIVE.match(line))), None)
    where = f"{files[location['file']]}({location['line']}): " if location else ""
    return f"{where}error: {match['what']} in `{lines[-1].strip()}`"
