"""Finds litmus tests by what a user writes: a file, a directory, or a name of the packaged set. Reads, never judges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pcietool.contract.text_files import read_text
from pcietool.data import configs_dir
from pcietool.errors import ConfigError
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import LitmusTest

SUFFIX = ".litmus"
ALL = "all"


def packaged() -> list[Path]:
    """The tests that ship with pcietool, by name."""
    return _tests_in(configs_dir() / "litmus")


def find(names: Sequence[str]) -> list[Path]:
    """The files that these names mean, each once. Packaged tests go by their name, else by their family (the part
    before the first dash), else by how their name starts; `all` are all.

    Raises ConfigError for a name that means nothing."""
    return list(dict.fromkeys(path for name in names for path in _find_one(name)))


def load(path: Path) -> LitmusTest:
    """Raises ConfigError, with the file's name, line and column for what cannot be read as a litmus test."""
    return parse_litmus(read_text(path), str(path))


def _find_one(name: str) -> list[Path]:
    path = Path(name)
    try:
        is_file, is_directory = path.is_file(), bool(name) and path.is_dir()  # Path("") is the current one
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}; name a litmus file") from error
    if is_file:
        return [path]
    if is_directory:
        tests = _tests_in(path)
        if not tests:
            raise ConfigError(f"there is no *{SUFFIX} in {path}; name another directory, or a file")
        return tests
    found = _find_packaged(name.lower()) if name else []
    if not found:
        raise ConfigError(
            f"{name!r} is no file, no directory and not how a packaged test's name starts;"
            f" there are: {ALL}, {', '.join(sorted({_family(test) for test in packaged()}))}"
        )
    return found


def _find_packaged(name: str) -> list[Path]:
    tests = packaged()
    if name == ALL:
        return tests
    named = [test for test in tests if test.stem == name]
    family = [test for test in tests if _family(test) == name]
    return named or family or [test for test in tests if test.stem.startswith(name)]


def _family(test: Path) -> str:
    return test.stem.split("-")[0]


def _tests_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob(f"*{SUFFIX}") if path.is_file())
