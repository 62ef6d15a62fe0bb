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
    "options", [{}, {"gpus": "0, 1"}, {"num_gpus": 1}, {"timeout": 3600.0}, {"raw": True, "json": Path("a.json")}]
)
def test_what_makes_sense_is_taken(options: dict[str, Any]) -> None:
    Common(**options)
