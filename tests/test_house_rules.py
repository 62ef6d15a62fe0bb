"""Each house rule, on a module that keeps it and on one that does not."""

from pathlib import Path

import pytest

from scripts import house_rules


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        ("report/tables.py", "import numpy\n", None),
        ("report/tables.py", "x = 1\n" * 401, "401 lines"),
        ("machines/cuda/driver.py", "from cuda.bindings import driver\n", None),
        ("probes/barrier.py", "def f():\n    from cuda.bindings import driver\n", "may know CUDA"),
        ("cli/app.py", "from pcietool.report import tables\n", None),
        ("report/tables.py", "from pcietool.cli import app\n", "stands above report"),
        ("emulator/engine.py", "from pcietool import machines\n", "stands above emulator"),
        ("emulator/engine.py", "from pcietool.machines.base import Launch\n", "stands above emulator"),
        ("emulator/engine.py", "from pcietool.contract.outcomes import Outcome\n", None),
        ("attic/old.py", "", "no step"),
        ("report/tables.py", "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
        ("report/tables.py", "def f():\n" + "    x = 1\n" * 59, None),
        ("supervision/child.py", "REGISTRY = 'pcietool.probes:PROBES'\n", "stands above supervision"),
        ("supervision/child.py", "MODULE = 'pcietool.machines.presence'\n", None),
        ("emulator/order.py", "if TYPE_CHECKING:\n    from pcietool.machines.base import Launch\n", "stands above"),
    ],
)
def test_a_rule_is_broken_or_kept(tmp_path: Path, module: str, text: str, complaint: str | None) -> None:
    path = tmp_path / module
    path.parent.mkdir(parents=True)
    path.write_text(text)
    broken = list(house_rules.broken_rules(path, tmp_path))
    if complaint is None:
        assert broken == []
    else:
        assert broken
        assert complaint in broken[0]


def package_of(folder: Path, modules: dict[str, str]) -> Path:
    """A package of these modules, each with what it imports."""
    package = folder / "pcietool"
    for name, text in modules.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


def test_a_circle_is_found_however_long_the_way_round(tmp_path: Path) -> None:
    modules = {
        "a.py": "from pcietool.b import f\n",
        "b.py": "from pcietool.room import c\n",
        "room/__init__.py": "",
        "room/c.py": "def g():\n    from pcietool.a import f\n",
        "d.py": "from pcietool.a import f\n",
    }
    assert list(house_rules.circles(package_of(tmp_path, modules))) == [
        "modules import each other in a circle: pcietool.a, pcietool.b, pcietool.room.c"
    ]


def test_a_program_that_is_started_by_name_is_no_circle(tmp_path: Path) -> None:
    modules = {"a.py": "from pcietool.b import f\n", "b.py": "COMMAND = ['-m', 'pcietool.a']\n"}
    assert list(house_rules.circles(package_of(tmp_path, modules))) == []


def test_a_folder_is_full_at_sixteen_source_files(tmp_path: Path) -> None:
    for number in range(15):
        (tmp_path / f"{number}.py").touch()
    (tmp_path / "data.txt").touch()
    assert list(house_rules.full_folders(tmp_path)) == []
    (tmp_path / "kernel.cu").touch()
    assert list(house_rules.full_folders(tmp_path)) == [
        f"{tmp_path}: 16 source files, more than 15: give some a room of their own"
    ]
