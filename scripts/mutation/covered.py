"""Which tests execute a line, and what they cost: one run of each test file under coverage, kept in .cache/mutate.

A test file is run again when it has changed. Where a file of pcietool/ has, its lines are found by their text, so that
an edit does not cost a run of everything; `rm -r .cache/mutate` does. Must not know what a mutant is.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from scripts.mutation.copied import environment

CACHE = Path(".cache") / "mutate"
PYTEST = ("-m", "pytest", "-q", "-p", "scripts.mutation.inside", "-p", "no:cacheprovider", "--hypothesis-seed=0")
NOT_BEHAVIOUR = ("tests/test_packaging.py", "tests/test_contributing.py", "tests/test_docs_figures.py")
"""Tests of the project's files, which take long and execute nothing that others do not."""


def test_files(root: Path, paths: Iterable[Path]) -> Iterator[Path]:
    """Those of behaviour, relative to the root as the paths are."""
    for path in paths:
        for file in [root / path] if (root / path).is_file() else sorted((root / path).rglob("test_*.py")):
            if file.relative_to(root).as_posix() not in NOT_BEHAVIOUR:
                yield file.relative_to(root)


class Covered:
    """Answers `of`, `anywhere` once `watch` has run what is new."""

    def __init__(self, root: Path, files: Iterable[Path]) -> None:
        self.root = root
        self.cache = root / CACHE
        self.files = list(dict.fromkeys(files))
        self.cpu_s: dict[str, float] = {}
        self.sound: dict[str, bool] = {}
        """Does a test pass without any change? Of those that have failed with one."""
        self._broken: set[str] = set()
        self._now: dict[tuple[str, str], dict[int, int]] = {}
        self._on_import: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        """Of file and line."""

    def watch(self, copy: Path, jobs: int) -> None:
        """Runs what is not known yet in the copy of the checkout, and reads everything."""
        new = [file for file in self.files if not self._kept(file).exists()]
        with ThreadPoolExecutor(jobs) as pool:
            for n, file in enumerate(pool.map(lambda one: self._run(copy, one), new), 1):
                print(f"watched {n} of {len(new)} test files: {file}", flush=True)
        for file in self.files:
            self._read(json.loads(self._kept(file).read_text(encoding="utf-8")))

    def of(self, file: str, lines: Iterable[int]) -> set[str]:
        """Where no test does, but what imports a file of tests, all of those."""
        during = self._tests[file], self._on_import[file]
        found = (set().union(*(tests.get(line, ()) for line in lines)) - self._broken for tests in during)
        return next(filter(None, found), set())

    def anywhere(self, file: str) -> set[str]:
        """The tests that execute any line of it."""
        return set().union(*self._tests[file].values()) - self._broken

    def forget(self, test: str) -> None:
        """It fails without any change. Raises SystemExit for what is no test, but on the way to all of a file."""
        if test not in self.cpu_s:
            raise SystemExit(f"tests that passed when they were watched fail {test} now, without any change")
        print(f"{test} fails without any change, and is not asked", flush=True)
        self._broken.add(test)

    def _kept(self, file: Path) -> Path:
        digest = hashlib.sha256((self.root / file).read_bytes()).hexdigest()[:12]
        return self.cache / "tests" / f"{file.as_posix().replace('/', '~')}~{digest}.json"

    def _run(self, copy: Path, file: Path) -> Path:
        kept = self._kept(file)
        kept.parent.mkdir(parents=True, exist_ok=True)
        found = kept.with_suffix(".new")
        command = [sys.executable, *PYTEST, str(file)]
        subprocess.run(
            command, cwd=copy, env=environment(copy, MUTATE_MAP=str(found.resolve())), stdout=subprocess.DEVNULL
        )
        known = json.loads(found.read_text(encoding="utf-8"))
        known["texts"] = {name: self._keep_text((copy / name).read_text(encoding="utf-8")) for name in known["lines"]}
        found.write_text(json.dumps(known), encoding="utf-8")
        found.rename(kept)
        return file

    def _keep_text(self, text: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        path = self.cache / "texts" / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return digest

    def _read(self, known: Mapping[str, Any]) -> None:
        self.cpu_s.update(known["tests"])
        names = list(known["tests"])
        for file, lines in known["lines"].items():
            text = file, known["texts"][file]
            moved = self._now[text] = self._now.get(text) or self._moved(*text)
            for line, tests in lines.items():
                if now := moved.get(int(line)):
                    self._tests[file][now].update(names[n] for n in tests)
            for line in known["on_import"].get(file, ()):
                if now := moved.get(line):
                    self._on_import[file][now].update(names)

    def _moved(self, file: str, digest: str) -> dict[int, int]:
        """Where the lines of a file are now, which was a text of that name when it was watched."""
        if not (self.root / file).exists():
            return {}
        was = (self.cache / "texts" / digest).read_text(encoding="utf-8").splitlines()
        now = (self.root / file).read_text(encoding="utf-8").splitlines()
        if was == now:
            return {line: line for line in range(1, len(now) + 1)}
        same = SequenceMatcher(None, was, now, autojunk=False).get_matching_blocks()
        return {one.a + n + 1: one.b + n + 1 for one in same for n in range(one.size)}
