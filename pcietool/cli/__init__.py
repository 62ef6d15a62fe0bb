"""The command line. `main` is the one place where an error becomes a line on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
from io import TextIOWrapper
from typing import Any, NoReturn, TextIO

from pcietool.errors import CompileError, ExitCode, PcietoolError

LONGEST_LINE = 2000
"""Characters of a complaint."""


def main() -> NoReturn:
    """Runs the command that sys.argv names, and exits."""
    from pcietool.cli.app import app

    _mend_streams()
    try:
        code = app(prog_name="pcietool", standalone_mode=False)
        _flush()
        sys.exit(code)
    except CompileError as error:
        _complain(str(error), kept="\n")  # a compiler's log points below its lines
        sys.exit(error.exit_code)
    except PcietoolError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except Exception as bug:
        if hasattr(bug, "format_message"):  # the parser's; a class of Click, which Typer has in it or beside it
            _complain_of_words(bug)
            sys.exit(ExitCode.USAGE)
        if isinstance(bug, OSError) and bug.errno == errno.ENOSPC and bug.filename is None:  # of printing
            _give_up(sys.stdout)
            _complain("standard output cannot be written: no space left on device; print it somewhere else")
            sys.exit(ExitCode.USAGE)
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


def _flush() -> None:
    """While an error can still be told. A reader that left is nobody's error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up(sys.stdout)


def _complain_of_words(error: Any) -> None:
    """What the parser of the command line did not understand."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = error.ctx.command_path if getattr(error, "ctx", None) else "pcietool"
    said = re.sub(r"is not a valid (int|float)( range)?", "is not a number such as it takes", error.format_message())
    _complain(f"{said.rstrip('.')}; {command} --help lists what there is")


def _complain(message: str, kept: str = "") -> None:
    """One line, but for characters that are `kept`; cannot move the cursor or fill the screen, whatever it quotes."""
    line = "".join(one if one.isprintable() or one in kept else repr(one)[1:-1] for one in message)
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    try:
        print(f"pcietool: error: {line}", file=sys.stderr, flush=True)
    except OSError:  # the exit code still says it
        _give_up(sys.stderr)


def _give_up(stream: TextIO) -> None:
    """Nothing more reaches what it wrote to: else Python complains at its end, and changes the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
