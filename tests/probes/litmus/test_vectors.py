"""Up to how many bytes vectors are whole, as trials find it on each path, and what that makes of a test."""

from dataclasses import replace
from typing import Any

import pytest

from pcietool.contract.results import ProbeResult
from pcietool.emulator.fabric.fabric import FabricSpec, load_fabric
from pcietool.errors import NothingToRunError
from pcietool.litmus.text.library import find, load
from pcietool.machines import open_machine
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.litmus.config import PLACEMENTS, TrialsConfig
from pcietool.probes.litmus.trials import run
from pcietool.probes.litmus.vectors import FEWEST_TRIALS, LOOKS, Wholeness, measure, torn_there, wholeness_check
from tests.listening import Listener

OWN, STORED, READ, HOST = (
    "own memory",
    "another GPU's memory, stored to over the link",
    "another GPU's memory, read over the link",
    "host memory",
)


def tearing(nbytes: int) -> FabricSpec:
    """In host memory vectors of more than so many bytes are torn; elsewhere none are."""
    spec = load_fabric("h200-nvlink2")
    figure = spec.host.vector_bytes_whole.model_copy(update={"value": nbytes})
    return spec.model_copy(update={"host": spec.host.model_copy(update={"vector_bytes_whole": figure})})


def config(**options: Any) -> TrialsConfig:
    return TrialsConfig(**{"tests": ("coww",), "trials": 32, **options})


def trials_on(spec: FabricSpec, test: str, **options: Any) -> ProbeResult:
    with EmulatedMachine(spec, range(2), 0) as machine:
        (result,) = run(machine, config(tests=(test,), trials=256, place="host", **options), Listener())
    return result


@pytest.mark.parametrize(
    ("place", "gpus", "paths"),
    [
        ("peer", 2, [OWN, STORED]),
        ("writer", 2, [OWN, READ]),
        ("host", 2, [HOST]),
        ("peer", 1, [OWN]),
        ("host", 1, [HOST]),
    ],
)
@pytest.mark.parametrize(("tear", "whole"), [(False, 16), (True, 4)])
def test_every_path_is_looked_at_and_torn_where_that_is_asked_for(
    place: Any, gpus: int, paths: list[str], tear: bool, whole: int
) -> None:
    with EmulatedMachine.open("h200-nvlink2", range(gpus)) as machine:
        found = measure(machine, place, config(tear=tear))
    assert [one.path for one in found] == paths
    for one in found:
        assert one.looks == one.trials * LOOKS
        assert one.overlapped > 3
        assert one.vector_bytes_whole == whole
        assert (one.torn_8 > 0) == (one.torn_16 > 0) == tear
        assert max(one.torn_8, one.torn_16) < one.looks
    assert wholeness_check(found, config(tear=tear))["passed"]


@pytest.mark.parametrize("whole", [4, 8, 16])
def test_a_fabric_that_tears_is_found_to(whole: int) -> None:
    with EmulatedMachine(tearing(whole), range(2), 0) as machine:
        (host,) = measure(machine, "host", config())
        peer = measure(machine, "peer", config())
    assert host.vector_bytes_whole == whole
    assert [one.vector_bytes_whole for one in peer] == [16, 16]
    check = wholeness_check([host, *peer], config())
    assert check["passed"] == (whole == 16)
    assert check["severity"] == "warn"
    assert check["reason"] == f"vectors of more than {whole} bytes are torn there: --tear takes them for their scalars"
    assert [path["vector_bytes_whole"] for path in check["paths"]] == [whole, 16, 16]
    assert check["text"].startswith(f"{whole} in host memory ({host.torn_8 + host.torn_16} torn of {2 * host.looks:,})")


@pytest.mark.gpu
def test_real_gpus_are_looked_at_while_something_changes() -> None:
    try:
        machine = open_machine("cuda")
    except NothingToRunError as error:
        pytest.skip(str(error))
    with machine:
        found = [one for place in PLACEMENTS for one in measure(machine, place, config())]
    assert {one.path for one in found} >= {OWN, HOST}
    for one in found:
        assert one.trials == FEWEST_TRIALS
        assert one.overlapped > one.trials / 100


def test_a_reader_that_sees_nothing_change_proves_nothing() -> None:
    found = [Wholeness("own memory", 10, 60, 0, 0, 1), Wholeness("host memory", 10, 60, 0, 0, 0)]
    check = wholeness_check(found, config())
    assert not check["passed"]
    assert check["reason"] == "in host memory nothing changed while it was looked at, which proves nothing"
    assert wholeness_check([replace(one, overlapped=1) for one in found], config())["passed"]


def test_torn_vectors_make_no_failure_of_a_test_that_takes_them_for_whole() -> None:
    result = trials_on(tearing(8), "vector-data-and-flag-gpus")
    (row,) = result.rows
    assert row["seen"] > 0
    assert (row["status"], row["failed"]) == ("info", None)
    assert row["reason"].startswith("vectors of more than 8 bytes are torn here, and the model takes them for whole")
    assert "; vector bytes whole: 8 in host memory (" in result.verdict
    assert not next(check for check in result.checks if check["name"] == "vector bytes whole")["passed"]


def test_whole_vectors_are_said_to_be() -> None:
    result = trials_on(tearing(16), "vector-data-and-flag-gpus")
    assert (result.rows[0]["status"], result.rows[0]["reason"]) == ("pass", None)
    assert result.verdict.endswith("; vector bytes whole: 16 in host memory (0 torn of 1,536)")


@pytest.mark.parametrize(
    ("test", "whole", "is_doubtful"),
    [
        ("vector-data-and-flag-gpus", 8, True),
        ("vector-data-and-flag-gpus", 16, False),
        ("vector-flag-alone-gpus", 8, False),
        ("vector-flag-alone-gpus", 4, True),
        ("size-u64-whole-gpus", 4, False),
    ],
)
def test_only_tests_with_vectors_as_long_are_doubtful(test: str, whole: int, is_doubtful: bool) -> None:
    (path,) = find([test])
    found = [Wholeness("own memory", 1, 6, 0, 0, 1), Wholeness("host memory", 1, 6, whole < 8, whole < 16, 1)]
    assert (torn_there(load(path), found) is not None) == is_doubtful
