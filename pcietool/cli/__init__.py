"""The command line. `main` is the one place where an error becomes a line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import NoReturn

from pcietool.errors import ExitCode, PcietoolError


def main() -> NoReturn:
    """Runs the command that sys.argv names, and exits."""
    from pcietool.cli.app import app

    _mend_streams()
    try:
        app(prog_name="pcietool")
    except PcietoolError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except Exception as bug:
        if "--verbose" in sys.argv:
            raise
        _complain(f"{type(bug).__name__}: {bug} (this is a bug in pcietool; --verbose shows where)")
    sys.exit(ExitCode.TOOL_ERROR)


def _mend_streams() -> None:
    """A closed stream swallows what is printed; one that knows no µ gets a question mark."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _complain(message: str) -> None:
    print(f"pcietool: error: {message}", file=sys.stderr)
