"""The command line. `main` is the one place where an error becomes a line on stderr and an exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

from pcietool.errors import ExitCode, PcietoolError


def main() -> NoReturn:
    """Runs the command that sys.argv names, and exits."""
    from pcietool.cli.app import app

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


def _complain(message: str) -> None:
    print(f"pcietool: error: {message}", file=sys.stderr)
