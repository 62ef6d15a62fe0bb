"""Finds, loads and describes libnvrtc.

cuda-bindings are imported inside the functions, so that importing this module costs nothing and never fails.
Must not compile anything.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from pcietool.compiler.wheels import nvidia_folders
from pcietool.errors import CompileError

_DEFAULT_PACKAGE = "pip install nvidia-cuda-nvrtc"
_PACKAGES = {12: "pip install 'pcietool[cu12]'"}
"""What brings libnvrtc, by CUDA major where it is not the default package."""


@dataclass(frozen=True)
class NvrtcInfo:
    """The libnvrtc that this process uses: the file that was loaded, and its (major, minor)."""

    path: str
    version: tuple[int, int]

    def __str__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"


@cache
def nvrtc_info() -> NvrtcInfo:
    """Loads libnvrtc if nobody has. Raises CompileError, naming the package to install, if there is none."""
    return _load(_DEFAULT_PACKAGE)


@cache
def supported_architectures() -> tuple[int, ...]:
    """What NVRTC compiles for, ascending, such as (75, 80, 90). Raises CompileError as nvrtc_info does."""
    nvrtc_info()
    from cuda.bindings import nvrtc

    return tuple(sorted(checked(nvrtc.nvrtcGetSupportedArchs())))


def prefer_major(major: int) -> None:
    """Makes this process use the NVRTC of one CUDA major: a cubin loads only into a driver of the same major.

    To be called before anything else here, since cuda-pathfinder takes the newest libnvrtc unless one is loaded
    already. Raises CompileError, naming the package to install, if that major is not there or comes too late.
    """
    _preload(f"libnvrtc.so.{major}")
    package = _PACKAGES.get(major, f"{_DEFAULT_PACKAGE}=={major}.*")
    info = _load(package)
    if info.version[0] != major:
        raise CompileError(f"the driver needs NVRTC {major}, but this is {info} ({info.path}): {package}")


def checked(answer: tuple[Any, ...]) -> Any:
    """The value in an NVRTC call's answer. Raises CompileError if the call failed."""
    from cuda.bindings import nvrtc

    result, *values = answer
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"an NVRTC call failed: {result.name}; is {nvrtc_info().path} intact?")
    return values[0] if values else None


def _load(package: str) -> NvrtcInfo:
    try:
        from cuda.bindings import nvrtc
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError as error:
        raise CompileError(f"NVRTC cannot be called ({error}): pip install 'cuda-bindings>=13,<14'") from error
    try:
        path = load_nvidia_dynamic_lib("nvrtc").abs_path
        result, major, minor = nvrtc.nvrtcVersion()
    except DynamicLibNotFoundError as error:
        raise CompileError(f"there is no libnvrtc on this machine: {package}") from error
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"{path} does not tell its version ({result.name}): {package}")
    return NvrtcInfo(str(path), (major, minor))


def _preload(soname: str) -> None:
    """Loads the library from the wheels (nvidia/cuda_nvrtc/lib, nvidia/cu13/lib) or the loader's path, if there."""
    wheels = [str(path) for root in nvidia_folders() for path in root.glob(f"*/lib/{soname}")]
    for candidate in (*wheels, soname):
        try:
            ctypes.CDLL(candidate, os.RTLD_NOW | os.RTLD_GLOBAL)
        except OSError:
            continue
        return
