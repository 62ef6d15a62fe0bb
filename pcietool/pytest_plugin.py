"""`pytest --pcietool`: every scenario of the collected files (check_*.py, or --pcietool-files) is a test.

Fails for CRASH, HANG, WRONG DATA and RACE with the same report as the command; NOT PROVED is a warning. Must import
nothing of the tool before it is asked for: the plugin is loaded in every pytest run of whoever has pcietool installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pcietool.check.scenario import Scenario
    from pcietool.contract.results import ProbeResult


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pcietool", "kernels of your own, without a GPU")
    group.addoption("--pcietool", action="store_true", help="Collect the scenarios of check_*.py as tests.")
    group.addoption("--pcietool-fabric", default="pcie5-switch4", metavar="NAME|FILE", help="The modelled machine.")
    group.addoption("--pcietool-seeds", type=int, default=200, metavar="N", help="Runs in random order a scenario.")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not parent.config.getoption("--pcietool") or not file_path.match("check_*.py"):
        return None
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


class ScenarioFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        from pcietool.check.scenario import load_scenarios

        for scenario in load_scenarios(self.path):
            item: ScenarioTest = ScenarioTest.from_parent(self, name=scenario.name, scenario=scenario)
            yield item


class ScenarioFailed(Exception):
    """A scenario whose verdict is no pass."""


class ScenarioTest(pytest.Item):
    def __init__(self, *, scenario: Scenario, **rest: Any) -> None:
        super().__init__(**rest)
        self.scenario = scenario

    def runtest(self) -> None:
        from pcietool.contract.results import Status
        from pcietool.machines.emulated.machine import EmulatedMachine
        from pcietool.probes.check.config import CheckConfig
        from pcietool.probes.check.probe import of_scenario

        seeds = self.config.getoption("--pcietool-seeds")
        config = CheckConfig(file=str(self.path), seeds=seeds, quick=True, jobs=1)  # pytest-xdist takes the cores
        with EmulatedMachine.open(self.config.getoption("--pcietool-fabric")) as machine:
            result = of_scenario(machine, self.scenario, config, _Silent())
        if result.status in (Status.FAIL, Status.HANG):
            raise ScenarioFailed(_report(result))
        if result.status is not Status.PASS:
            self.warn(pytest.PytestWarning(result.verdict))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from pcietool.errors import PcietoolError

        if isinstance(excinfo.value, ScenarioFailed | PcietoolError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.scenario.function.__code__.co_firstlineno - 1, f"scenario {self.name}"


class _Silent:
    """An observer that nobody listens to."""

    def progress(self, text: str) -> None: ...

    def begin(self, result: ProbeResult) -> None: ...

    def result(self, result: ProbeResult) -> None: ...


def _report(result: ProbeResult) -> str:
    from pcietool.report.check import print_scenarios
    from pcietool.report.tables import make_console

    text = StringIO()
    print_scenarios(make_console(text, color=False), [result])
    return f"{result.verdict}\n{text.getvalue()}\npcietool check {result.transport} looks for what mends it"
