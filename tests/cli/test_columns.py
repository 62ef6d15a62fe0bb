"""Every column of every command is a key of its probe's rows: a wrong one would leave its column out, and nobody would
notice."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

from pcietool.cli import commands
from pcietool.contenders.catalog import Contender
from pcietool.contract.results import ProbeResult, Row
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes import PROBES
from pcietool.probes.common.world import World
from pcietool.probes.compare import comparison
from pcietool.probes.compare.config import CompareConfig
from pcietool.probes.compare.crossover import crossovers
from pcietool.probes.compare.effort import Effort
from pcietool.probes.litmus import probe as litmus
from pcietool.probes.litmus.config import LitmusConfig
from pcietool.report.columns import Column
from pcietool.report.tables import rows_table
from tests.listening import Listener

SIGNAL: dict[str, Any] = {
    "iterations": 4,
    "waits": ("acquire",),
    "nanosleeps_ns": (0,),
    "pairings": ("isolated",),
    "max_bytes": 8,
}


def rows_of(probe: str, **options: Any) -> list[list[Row]]:
    """Of each part that ran."""
    config, run = PROBES[probe]
    with EmulatedMachine.open("h200-nvlink2") as machine:
        results: list[ProbeResult] = run(machine, config(**options), Listener())
    return [[row for row in result.rows if not row.get("in_matrix")] for result in results if result.rows]


def rows_of_the_model() -> list[list[Row]]:
    return [litmus.run(LitmusConfig(tests=("coww",)), Listener()).rows]


def rows_of_a_comparison() -> list[list[Row]]:
    """Of ours alone, of a contender, and where the two cross."""
    alone = rows_of("compare-nccl", transport="peer", sizes=(4,), modes=("graph",))
    config = CompareConfig(sizes=(4, 16), modes=("eager",))
    with EmulatedMachine.open("h200-nvlink2") as machine:
        contender = Contender("fake", "A fake", "tests.contenders.fake_players:Honest")
        effort = Effort(pairs=7, rounds=5, nodes=20, replays=1)
        world = World.build(machine, "peer", 2, rows=2)
        compared = comparison.Comparison(contender, world, config, effort, Listener(), {}).run().rows
    return [*alone, compared, crossovers(compared)]


TABLES: dict[str, Callable[[], list[list[Row]]]] = {
    "signal_latency.COLUMNS": lambda: rows_of("signal-latency", transport="peer", **SIGNAL),
    "barrier_latency.COLUMNS": lambda: rows_of("barrier-latency", transport="peer", iterations=2),
    "atomic_loss.COLUMNS": lambda: rows_of("atomic-loss", transport="host", iterations=2, concurrency=("1x2",)),
    "watermark.COLUMNS": lambda: rows_of("watermark", transport="peer", rows=8, columns=64, threads=128, chunks="all"),
    "compare_nccl.COLUMNS": rows_of_a_comparison,
    "check.COLUMNS": lambda: rows_of("check", file="tests/check/one_word.py", seeds=2),
    "verify.COLUMNS": lambda: rows_of("verify", transport="peer", entries=("signal", "dispatch"), iterations=2),
    "verify.MUTANT_COLUMNS": lambda: rows_of("verify", transport="peer", entries=("signal",), mutants=True),
    "litmus.MODEL_COLUMNS": rows_of_the_model,
    "litmus.TRIAL_COLUMNS": lambda: rows_of("litmus", tests=("coww", "bar-sync-mp"), trials=2, place="peer"),
}
"""A small run that has all kinds of rows, by the columns that show them."""


def tables() -> dict[str, tuple[Column, ...]]:
    """All that commands have."""
    modules = [
        importlib.import_module(f"{commands.__name__}.{one.name}") for one in pkgutil.iter_modules(commands.__path__)
    ]
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if name.endswith("COLUMNS")
    }


@pytest.mark.parametrize("name", tables())
def test_every_column_is_a_key_of_the_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "gpus_answer", lambda count, environment: ("the GPUs answer", True))
    columns = tables()[name]
    parts = TABLES[name]()
    for rows in parts:
        rows_table(rows, columns)  # raises KeyError for a column that should be in each
    present = {key for rows in parts for row in rows for key in row}
    assert [column.key for column in columns if column.key not in present] == []
    always = [column.key for column in columns if all(column.key in row for rows in parts for row in rows)]
    assert [column.key for column in columns if column.optional and column.key in always] == []


def test_a_wrong_key_is_an_error_where_the_column_is_not_optional() -> None:
    rows: list[Row] = [{"us": 1.0}, {"us": None}]
    assert len(rows_table(rows, [Column("us", "µs"), Column("typo", "µs", optional=True)]).columns) == 1
    with pytest.raises(KeyError, match="typo"):
        rows_table(rows, [Column("typo", "µs")])
