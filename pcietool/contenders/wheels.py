"""Finds what contenders bring along (NVIDIA's wheels) and builds against it with nvcc. Must not load anything."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from pcietool.compiler.wheels import nvidia_folders
from pcietool.contenders.player import AbsentError
from pcietool.data import contender_source


def folders_of(name: str) -> Iterator[Path]:
    """Folders such as site-packages/nvidia/nccl, where a wheel put its lib/ and include/."""
    return (folder for root in nvidia_folders() if (folder := root / name).is_dir())


def build(source: str, output: Path, compute_capability: tuple[int, int], options: Sequence[str]) -> Path:
    """A shared library of one file of kernels/contenders, for GPUs like (9, 0).

    Raises AbsentError where there is no nvcc, or nvcc refuses the source.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise AbsentError("its device side must be compiled and there is no nvcc on PATH: install the CUDA toolkit")
    command = [nvcc, "-std=c++17", "-O3", "-arch=sm_{}{}".format(*compute_capability), "-shared", "-Xcompiler", "-fPIC"]
    command += [str(contender_source(source)), "-o", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        raise AbsentError(f"nvcc refused {source}: {lines[0].strip() if lines else f'exit code {done.returncode}'}")
    return output
