"""CUDA C++ to cubin and PTX, both of one compile, through NVRTC; needs no driver and no GPU."""

from pcietool.compiler.compile import Compiled, compile_source
from pcietool.compiler.fingerprint import source_sha256
from pcietool.compiler.library import NvrtcInfo, nvrtc_info, prefer_major, supported_architectures
from pcietool.compiler.unit import Unit, unit_of_file
from pcietool.compiler.units import compile_unit

__all__ = [
    "Compiled",
    "NvrtcInfo",
    "Unit",
    "compile_source",
    "compile_unit",
    "nvrtc_info",
    "prefer_major",
    "source_sha256",
    "supported_architectures",
    "unit_of_file",
]
