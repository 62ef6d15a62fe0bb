"""Each house rule, on a module that keeps it and on one that does not."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def rules() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house_rules", ROOT / "scripts" / "house_rules.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    ],
)
def test_a_rule_is_broken_or_kept(
    rules: ModuleType, tmp_path: Path, module: str, text: str, complaint: str | None
) -> None:
    path = tmp_path / module
    path.parent.mkdir(parents=True)
    path.write_text(text)
    broken = list(rules.broken_rules(path, tmp_path))
    if complaint is None:
        assert broken == []
    else:
        assert broken
        assert complaint in broken[0]
