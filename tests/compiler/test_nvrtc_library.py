import subprocess
import sys
from collections.abc import Iterator

import pytest

from pcietool.compiler import library
from pcietool.errors import CompileError


@pytest.fixture
def forgotten() -> Iterator[None]:
    """No answer about libnvrtc is remembered, before or after."""
    for cached in (library.nvrtc_info, library.supported_architectures):
        cached.cache_clear()
    yield
    for cached in (library.nvrtc_info, library.supported_architectures):
        cached.cache_clear()


def test_tells_which_library_is_loaded() -> None:
    info = library.nvrtc_info()
    assert "libnvrtc" in info.path
    assert str(info) == f"NVRTC {info.version[0]}.{info.version[1]}"
    assert {80, 90, 100, 120} <= set(library.supported_architectures())


@pytest.mark.usefixtures("forgotten")
def test_a_missing_library_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    def refuse(name: str) -> None:
        raise pathfinder.DynamicLibNotFoundError(name)

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", refuse)
    with pytest.raises(CompileError, match=r"no libnvrtc on this machine: pip install nvidia-cuda-nvrtc$"):
        library.nvrtc_info()
    with pytest.raises(CompileError, match=r"pip install 'pcietool\[cu12\]'$"):
        library.prefer_major(12)


@pytest.mark.usefixtures("forgotten")
def test_missing_bindings_name_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CompileError, match="pip install 'cuda-bindings"):
        library.nvrtc_info()


def test_the_major_that_is_loaded_is_preferred_without_complaint() -> None:
    library.prefer_major(library.nvrtc_info().version[0])


def test_another_major_is_refused_with_its_package() -> None:
    with pytest.raises(
        CompileError, match=r"^the driver needs NVRTC 99, but this is NVRTC .*nvidia-cuda-nvrtc==99\.\*$"
    ):
        library.prefer_major(99)


def test_importing_the_compiler_imports_no_cuda() -> None:
    program = (
        "import sys, pcietool.compiler; sys.exit(any(name.split('.')[0] in ('cuda', 'numpy') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
