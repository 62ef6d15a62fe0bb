"""CUDA C++ to cubin and PTX, both of one compile, through NVRTC; needs no driver and no GPU."""

from pcietool.compiler.compile import Compiled, compile_source
from pcietool.compiler.fingerprint import source_sha256
from pcietool.compiler.library import NvrtcInfo, nvrtc_info, prefer_major, supported_architectures

__all__ = [
    "Compiled",
    "NvrtcInfo",
    "compile_source",
    "nvrtc_info",
    "prefer_major",
    "source_sha256",
    "supported_architectures",
]
