"""What gets installed: a wheel is complete, an editable install has no copies, and neither needs the checkout's
directory to be the current one."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = ("kernels", "configs")
LOOK_UP = "import pcietool.data as d; print(d.kernels_dir(), d.kernel_source('barrier.cu') == open(0).read())"


def data_files() -> list[Path]:
    return [path.relative_to(ROOT) for name in DATA for path in sorted((ROOT / name).rglob("*")) if path.is_file()]


def build(hook: str, into: Path, source: Path = ROOT) -> Path:
    """Calls hatchling as pip would, in a process of its own since it works in the current directory."""
    program = f"import hatchling.build as b; print(b.{hook}({str(into)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return into / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("build_wheel", tmp_path_factory.mktemp("wheel"))


def found_from(directory: Path, import_path: Path) -> list[str]:
    """[where the kernels are, whether barrier.cu is the checkout's] for a process in `directory`."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOOK_UP],
        cwd=directory,
        env={"PYTHONPATH": str(import_path)},
        input=(ROOT / "kernels" / "barrier.cu").read_text(encoding="utf-8"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_wheel_carries_code_data_and_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for path in data_files():
            assert archive.read(f"pcietool/{path.as_posix()}") == (ROOT / path).read_bytes()
    assert {"pcietool/py.typed", "pcietool/cli/app.py"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"pcietool"}


def test_a_wheel_finds_its_kernels_from_any_directory(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    assert found_from(tmp_path, installed) == [str(installed / "pcietool" / "kernels"), "True"]


def test_a_checkout_finds_its_kernels_from_any_directory(tmp_path: Path) -> None:
    assert found_from(tmp_path, ROOT) == [str(ROOT / "kernels"), "True"]


def test_an_editable_install_points_at_the_checkout_and_copies_nothing(tmp_path: Path) -> None:
    editable = build("build_editable", tmp_path)
    with zipfile.ZipFile(editable) as archive:
        payload = [name for name in archive.namelist() if ".dist-info" not in name]
        assert payload == ["_pcietool.pth"]
        assert archive.read("_pcietool.pth").decode().split() == [str(ROOT)]


def test_a_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    archive = build("build_sdist", tmp_path)
    shutil.unpack_archive(archive, tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    rebuilt = build("build_wheel", tmp_path, source)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(rebuilt) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
