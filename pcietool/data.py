"""Finds the data files that ship with pcietool: kernel sources and configurations.

A wheel carries them inside the package; a checkout (an editable install too) has them beside it. Must not read
anything from the current directory: which kernel runs never depends on where the tool is called.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pcietool.errors import ConfigError


def kernels_dir() -> Path:
    """Where the CUDA sources (*.cu) and their headers (*.cuh) are. Raises ConfigError if they are missing."""
    return _data_dir("kernels")


def configs_dir() -> Path:
    """Where fabrics/ and litmus/ are. Raises ConfigError if they are missing."""
    return _data_dir("configs")


def kernel_source(name: str) -> str:
    """The text of one file of kernels/ or a room in it, such as "barrier.cu". Raises ConfigError, naming those there
    are."""
    sources = _kernel_files()
    if name not in sources:  # also whatever has a directory part
        raise ConfigError(f"there is no kernel source {name!r}; there are: {', '.join(sources)}")
    return sources[name].read_text(encoding="utf-8")


def contender_source(name: str) -> Path:
    """A CUDA source that only nvcc can compile, against another library's headers. Raises ConfigError."""
    path = kernels_dir() / "contenders" / name
    if not path.is_file():
        raise ConfigError(f"there is no {path}: the installation is broken, install pcietool again")
    return path


def kernel_headers() -> dict[str, str]:
    """The text of every header that a kernel can include, by name."""
    return {name: path.read_text(encoding="utf-8") for name, path in _kernel_files().items() if path.suffix == ".cuh"}


def _kernel_files() -> dict[str, Path]:
    """What NVRTC can compile or include, by file name, which no two rooms share; sorted."""
    paths = [path for path in kernels_dir().rglob("*.cu*") if path.suffix in (".cu", ".cuh")]
    return {path.name: path for path in sorted(paths) if path.parent.name != "contenders"}


def _data_dir(name: str) -> Path:
    package = Path(str(files("pcietool")))
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise ConfigError(
        f"{name}/ is neither in {package} nor beside it: the installation is broken, install pcietool again"
    )
