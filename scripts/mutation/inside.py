"""The pytest plugin of scripts/mutate, loaded into the processes that it starts (`-p scripts.mutation.inside`).

With $MUTATE_MAP it writes which test executes which line of pcietool/, and what each costs; with $MUTATE_TESTS it runs
only the tests named there, in that order, each with a limit of CPU time. Must not know what a mutant is.
"""

from __future__ import annotations

import ast
import json
import os
import resource
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CPU_FACTOR = 2
"""So many times what a test needed when it was watched (which takes twice as long as without), and `CPU_EXTRA_S`:
whoever needs more never ends."""
CPU_EXTRA_S = 10
SHARED = "_programs_are_made_once"
"""The fixture that lets only the first of all tests translate a kernel: the others would seem not to depend on it."""


def cpu_s() -> float:
    """Of this process and of those it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Watch:
    """Writes {"tests": {id: CPU seconds}, "lines": {file: {line: [index of a test]}}, "on_import": {file: [line]}} of
    the tests that passed, and of the lines in functions. What a fixture of a module or a session executes belongs to
    all of them."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.cpu: dict[str, float] = {}
        self.failed: set[str] = set()
        self.running = ""
        self.coverage = coverage.Coverage(data_file=None, config_file=False, source=[str(ROOT / "pcietool")])
        self.coverage.start()
        self.coverage.switch_context("import")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before = cpu_s()
        self.running = item.nodeid
        self.coverage.switch_context(self.running)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("import")
            self.cpu[item.nodeid] = round(cpu_s() - before, 4)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope != "function":
            self.coverage.switch_context("all")
        try:
            return (yield)
        finally:
            self.coverage.switch_context(self.running)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        tests = [test for test in self.cpu if test not in self.failed]
        index = {test: [n] for n, test in enumerate(tests)} | {"all": list(range(len(tests)))}
        lines: dict[str, dict[int, list[int]]] = {}
        on_import: dict[str, list[int]] = {}
        for file in data.measured_files():
            name = str(Path(file).relative_to(ROOT))
            in_functions = lines_of_functions(Path(file).read_text(encoding="utf-8"))
            found: dict[int, set[int]] = defaultdict(set)
            for line, contexts in data.contexts_by_lineno(file).items():
                found[line].update(*(index.get(context, []) for context in contexts))
                if "import" in contexts and line in in_functions:
                    on_import.setdefault(name, []).append(line)
            lines[name] = {line: sorted(who) for line, who in found.items() if who}
        written = {"tests": {test: self.cpu[test] for test in tests}, "lines": lines, "on_import": on_import}
        self.target.write_text(json.dumps(written), encoding="utf-8")


def lines_of_functions(text: str) -> set[int]:
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return {line for one in functions for line in range(one.body[0].lineno, (one.end_lineno or 0) + 1)}


class TranslatesAgain:
    """The shared programs are not: see SHARED."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> object:
        if fixturedef.argname != SHARED:
            return None
        fixturedef.cached_result = (None, fixturedef.cache_key(request), None)
        return True


class Chosen:
    """Runs only the tests of a file {id: CPU seconds}, in its order. One that fails is written to $MUTATE_NOTICED."""

    def __init__(self, tests: dict[str, float]) -> None:
        self.tests = tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {test: n for n, test in enumerate(self.tests)}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        limit(CPU_FACTOR * self.tests[item.nodeid] + CPU_EXTRA_S)
        Path(os.environ["MUTATE_NOTICED"]).write_text(item.nodeid, encoding="utf-8")  # in case it never ends

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            Path(os.environ["MUTATE_NOTICED"]).write_text(report.nodeid, encoding="utf-8")


def limit(seconds: float) -> None:
    """This process ends when it has used so much CPU time from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, hard))


def plugins() -> Iterable[object]:
    if target := os.environ.get("MUTATE_MAP"):
        return [TranslatesAgain(), Watch(Path(target))]
    if tests := os.environ.get("MUTATE_TESTS"):
        return [Chosen(json.loads(Path(tests).read_text(encoding="utf-8")))]
    return []


PLUGINS = plugins()


def pytest_configure(config: pytest.Config) -> None:
    for plugin in PLUGINS:
        config.pluginmanager.register(plugin)
