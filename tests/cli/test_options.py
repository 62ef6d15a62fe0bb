from pathlib import Path
from typing import Any

import pytest

from pcietool.cli.options import BackendChoice, Common
from pcietool.errors import UsageError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": "0,0"}, "names a GPU twice"),
        ({"gpus": "0,,1"}, "empty name"),
        ({"gpus": ""}, "empty name"),
        ({"gpus": "0", "num_gpus": 1}, "give one of them"),
        ({"gpus": "0-3,2"}, "names a GPU twice"),
        ({"gpus": "3-0"}, "a range goes up"),
        ({"gpus": "0-999999999"}, "64 GPUs at most"),
        ({"gpus": ",".join(map(str, range(65)))}, "lists 65 names"),
        ({"fabric": "pair", "backend": BackendChoice.cuda}, "emulated machine"),
        ({"timeout": 0.0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"timeout": float("inf")}, "above 0"),
        ({"timeout": 3600.1}, "3600 at most"),
        ({"fabric": ""}, "--fabric is empty"),
        ({"fabric": "/tmp"}, "/tmp is a directory"),
        ({"fabric": "/dev/null"}, "no regular file"),
        ({"fabric": "x" * 300}, "File name too long"),
        ({"raw": True}, "--raw"),
        ({"raw": True, "json": Path("-")}, "--raw"),
        ({"csv": Path("-")}, "--csv needs a file"),
        ({"quiet": True, "verbose": True}, "contradict"),
    ],
)
def test_what_makes_no_sense_is_refused_with_usage(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Common(**options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gpus": "0, 1"},
        {"gpus": "0-63"},
        {"num_gpus": 1},
        {"timeout": 3600.0},
        {"raw": True, "json": Path("a.json")},
    ],
)
def test_what_makes_sense_is_taken(options: dict[str, Any]) -> None:
    Common(**options)


@pytest.mark.parametrize(
    ("gpus", "names"),
    [
        ("0-3,5", ("0", "1", "2", "3", "5")),
        ("2-2", ("2",)),
        ("GPU-ab-01,01:00.0", ("GPU-ab-01", "01:00.0")),
        (None, None),
    ],
)
def test_ranges_of_gpus_are_written_out(gpus: str | None, names: tuple[str, ...] | None) -> None:
    assert Common(gpus=gpus).gpu_names == names
