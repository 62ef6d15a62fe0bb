from pathlib import Path

import pytest

from pcietool import data
from pcietool.errors import ConfigError


def test_finds_the_kernels_from_any_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert "barrier_rounds" in data.kernel_source("barrier.cu")
    assert "slots.cuh" in data.kernel_headers()
    assert data.configs_dir().is_dir()


@pytest.mark.parametrize("name", ["nothing.cu", "../pyproject.toml", "../kernels/barrier.cu", "", ".", "/etc/passwd"])
def test_only_files_of_the_kernel_folder_are_sources(name: str) -> None:
    with pytest.raises(ConfigError, match=r"there are: .*barrier\.cu"):
        data.kernel_source(name)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An installed package of two kernel files."""
    package = tmp_path / "pcietool"
    kernels = package / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "a.cu").write_text("a")
    (kernels / "b.cuh").write_text("b")
    monkeypatch.setattr(data, "files", lambda _: package)
    return kernels


def test_an_installed_package_carries_its_own_files(kernels: Path) -> None:
    (kernels.parent.parent / "kernels").mkdir()
    assert data.kernels_dir() == kernels
    assert data.kernel_headers() == {"b.cuh": "b"}


def test_a_broken_installation_says_so(kernels: Path) -> None:
    with pytest.raises(ConfigError, match=r"^configs/ is neither in .* install pcietool again$"):
        data.configs_dir()
