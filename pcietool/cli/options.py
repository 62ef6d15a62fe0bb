"""The options that every command has: the machine to run on, and where the result goes.

Checks what can be checked from the words alone; must not look at the machine, and imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pcietool.contract.text_files import unseen
from pcietool.errors import UsageError

STDOUT = Path("-")

LONGEST_TIMEOUT_S = 3600.0
MOST_GPUS = 64
"""Of one machine, as in a fabric's file."""

_MACHINE = "Machine"
_OUTPUT = "Output"


def _output_path(text: str) -> Path:
    if not text:
        raise typer.BadParameter("the name is empty")
    return Path(text)


class BackendChoice(StrEnum):
    auto = "auto"
    cuda = "cuda"
    emulated = "emulated"


@dataclass(frozen=True)
class Common:
    """What every command takes: the machine to run on, and where the result goes.

    Raises UsageError, when made, for combinations that make no sense.
    """

    backend: Annotated[
        BackendChoice, typer.Option(help="Real GPUs, the emulator, or GPUs if there are any.", rich_help_panel=_MACHINE)
    ] = BackendChoice.auto
    gpus: Annotated[
        str | None,
        typer.Option(help="These GPUs: index, UUID or PCI address, such as 0,1 or 0-3.", rich_help_panel=_MACHINE),
    ] = None
    num_gpus: Annotated[
        int | None, typer.Option("--num-gpus", "-g", min=1, help="The first N GPUs.", rich_help_panel=_MACHINE)
    ] = None
    fabric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Emulate this machine, such as pcie5-switch4 (pcietool --list has all); implies --backend emulated.",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    timeout: Annotated[
        float, typer.Option("--timeout", "-T", help="Seconds a launch may take.", rich_help_panel=_MACHINE)
    ] = 2.0
    seed: Annotated[int, typer.Option(min=0, help="Decides what the machine does not.", rich_help_panel=_MACHINE)] = 0
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|-", parser=_output_path, help="Write the result; - prints it alone.", rich_help_panel=_OUTPUT
        ),
    ] = None
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=_output_path, help="Write the rows as a tidy table.", rich_help_panel=_OUTPUT
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=_output_path,
            help="Write JSON and CSV there, named after the command.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=_output_path, help="Write JUnit XML, for CI to show.", rich_help_panel=_OUTPUT
        ),
    ] = None
    sarif: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=_output_path,
            help="Write findings as SARIF, for annotations on a pull request.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    raw: Annotated[
        bool, typer.Option("--raw", help="Write every sample as .npz beside the JSON file.", rich_help_panel=_OUTPUT)
    ] = False
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=_output_path,
            help="Write each memory event of an emulated run, for https://ui.perfetto.dev.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.", rich_help_panel=_OUTPUT)
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the verdict and nothing else.", rich_help_panel=_OUTPUT)
    ] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Print each step and check, and where an error came from.", rich_help_panel=_OUTPUT
        ),
    ] = False
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour.", rich_help_panel=_OUTPUT)] = False

    def __post_init__(self) -> None:
        self._check_characters()
        self._check_machine()
        self._check_output()

    @property
    def gpu_names(self) -> tuple[str, ...] | None:
        """What `--gpus` lists, ranges written out, or None if it was not given. Raises UsageError."""
        if self.gpus is None:
            return None
        return tuple(name for word in self.gpus.split(",") for name in _of_range(word.strip()))

    def _check_characters(self) -> None:
        """Names are printed, on terminals too."""
        for option in ("gpus", "fabric", "json", "csv", "junit", "sarif", "out", "trace"):
            if complaint := unseen(str(getattr(self, option) or "")):
                raise UsageError(f"--{option} {getattr(self, option)} has {complaint}; use another name")

    def _check_machine(self) -> None:
        if self.gpus is not None and self.gpus.count(",") >= MOST_GPUS:
            raise UsageError(
                f"--gpus lists {self.gpus.count(',') + 1} names; no machine has more than {MOST_GPUS} GPUs"
            )
        names = self.gpu_names or ()
        if "" in names:
            raise UsageError(f"--gpus {self.gpus!r} has an empty name in it; write it as 0,1")
        if len(set(names)) < len(names):
            raise UsageError(f"--gpus {self.gpus} names a GPU twice; name each once")
        if names and self.num_gpus is not None:
            raise UsageError("--gpus and --num-gpus both say which GPUs to use; give one of them")
        if self.fabric is not None and self.backend is BackendChoice.cuda:
            raise UsageError("--fabric describes an emulated machine; leave it out, or --backend cuda")
        if self.fabric is not None:
            _check_fabric(self.fabric)
        if not 0 < self.timeout <= LONGEST_TIMEOUT_S:  # no comparison with NaN holds
            most = f"{LONGEST_TIMEOUT_S:g}"
            raise UsageError(f"--timeout {self.timeout:g} is no deadline; give seconds above 0, {most} at most")

    def _check_output(self) -> None:
        if self.csv == STDOUT:
            raise UsageError("--csv needs a file; only --json writes to standard output")
        for option in ("trace", "junit", "sarif"):
            if getattr(self, option) == STDOUT:
                raise UsageError(f"--{option} needs a file; only --json writes to standard output")
        if self.raw and self.out is None and self.json in (None, STDOUT):
            raise UsageError("--raw writes beside the JSON file; name one with --json FILE or --out DIR")
        if self.quiet and self.verbose:
            raise UsageError("--quiet and --verbose contradict each other; give one of them")


def _of_range(word: str) -> Iterable[str]:
    """Of "2-4" 2, 3 and 4; of anything else itself."""
    ends = re.fullmatch(r"0*(\d{1,9})-0*(\d{1,9})", word, re.ASCII)
    if ends is None:
        return (word,)
    first, last = map(int, ends.groups())
    if last < first or last - first >= MOST_GPUS:
        raise UsageError(f"--gpus {word}: a range goes up, such as 0-3, and has {MOST_GPUS} GPUs at most")
    return map(str, range(first, last + 1))


def _check_fabric(name: str) -> None:
    path = Path(name)
    if not name:
        raise UsageError("--fabric is empty; give a name that pcietool --list has, or a file")
    try:
        is_directory, exists, is_file = path.is_dir(), path.exists(), path.is_file()
    except OSError as error:
        raise UsageError(f"--fabric {name}: {error.strerror}; name a file, or a fabric that --list has") from None
    if is_directory and path.name != name:  # a bare name may be a packaged fabric's, whatever lies here
        raise UsageError(f"--fabric {name} is a directory; name a file in it, or a fabric that pcietool --list has")
    if exists and not (is_file or is_directory):
        raise UsageError(f"--fabric {name} is no regular file; name one, or a fabric that pcietool --list has")
