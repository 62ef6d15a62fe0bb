"""The program as a user calls it: in a process of its own, or in this one where it only has to refuse what it reads."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any
from unittest.mock import patch

import pytest

from pcietool import cli


def python(*arguments: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    environment = {"COLUMNS": str(columns), "PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


def pcietool(*arguments: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    return python("-m", "pcietool", *arguments, columns=columns)


def document(*arguments: str, exit_code: int = 0) -> dict[str, Any]:
    """What `--json -` prints, without what no two runs share."""
    done = pcietool(*arguments, "--json", "-")
    assert done.returncode == exit_code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    del found["run"]
    return found


def refusal(*arguments: str) -> str:
    """What it says on stderr. It must exit with 2, and print nothing else."""
    out, err = StringIO(), StringIO()
    with (
        patch.object(sys, "argv", ["pcietool", *arguments]),
        patch.dict(os.environ, COLUMNS="80"),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main()
    assert (ended.value.code, out.getvalue()) == (2, ""), err.getvalue()
    return err.getvalue()


def one_line_of(refusal: str) -> str:
    (line,) = refusal.splitlines()
    assert line.startswith("pcietool: error: ")
    return line


def words(text: str) -> str:
    """As one line, however it was wrapped."""
    return " ".join(text.split())
