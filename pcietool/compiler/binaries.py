"""PTX out of what nvcc builds: fat binaries, and the objects, libraries and programs that hold them.

CUDA's own cuobjdump reads them; must not know their formats beyond telling that a file is one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pcietool.compiler.wheels import nvidia_folders
from pcietool.errors import CompileError

MAGIC = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>\n")
"""Of ELF files, fat binaries, and libraries of objects."""
PACKAGE = "pip install 'pcietool[binaries]'"
"""What brings cuobjdump."""
LIMIT_S = 60.0
_IMAGE = re.compile(r"^Fatbin (ptx|elf) code:\n=+\narch = sm_(\d+[af]?)", re.MULTILINE)


def is_binary(path: Path) -> bool:
    """By how it begins. False for what cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(8).startswith(MAGIC)
    except OSError:
        return False


def ptx_of_binary(path: Path, target: str) -> list[str]:
    """The PTX that a GPU of `target`, such as "sm_90", would be given, one text a source: the newest that it can take.
    Raises CompileError: no cuobjdump, no PTX inside, or only newer one."""
    tool = cuobjdump()
    if tool is None:
        raise CompileError(
            f"{path.name} is a binary, which cuobjdump reads: {PACKAGE}, or put a CUDA toolkit's into PATH"
        )
    found = list(_images(_run(tool, "-ptx", path)))
    images = [(architecture, text) for kind, architecture, text in found if kind == "ptx"]
    if not images:
        code = ", ".join(sorted({f"sm_{architecture}" for _, architecture, _ in found}))
        only = f"only machine code for {code}" if code else "nor any other code for GPUs"
        raise CompileError(
            f"{path.name} has no PTX inside, {only}; nvcc -gencode arch=compute_90,code=compute_90 keeps it"
        )
    fitting = [(_number(one), text) for one, text in images if _fits(one, _number(target))]
    if not fitting:
        has = ", ".join(sorted({f"sm_{architecture}" for architecture, _ in images}))
        raise CompileError(f"{path.name} has PTX for {has} only, which {target} cannot take")
    newest = max(number for number, _ in fitting)
    return [text for number, text in fitting if number == newest]


def _number(architecture: str) -> int:
    """90 of "sm_90", and of "90a"."""
    return int(re.sub(r"\D", "", architecture))


def _fits(architecture: str, number: int) -> bool:
    """Newer GPUs take PTX of older ones, but not what was made for one architecture alone ("90a", "100f")."""
    made_for = _number(architecture)
    return made_for <= number if architecture.isdigit() else made_for == number


def cuobjdump() -> Path | None:
    """CUDA's, wherever it is installed."""
    return next((one for one in _candidates() if one.is_file() and os.access(one, os.X_OK)), None)


def _candidates() -> Iterator[Path]:
    if found := shutil.which("cuobjdump"):
        yield Path(found)
    for root in nvidia_folders():
        yield from sorted(root.glob("*/bin/cuobjdump"))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / "cuobjdump"
    yield Path("/usr/local/cuda/bin/cuobjdump")


def _run(tool: Path, option: str, path: Path) -> str:
    try:
        done = subprocess.run([tool, option, path], capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{path.name}: {tool} {option} had not ended after {LIMIT_S:g} s") from None
    return done.stdout.decode(errors="replace")


def _images(text: str) -> Iterator[tuple[str, str, str]]:
    """(kind, architecture, PTX) of each."""
    _, *parts = _IMAGE.split(text)
    for kind, architecture, rest in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        _, version, body = rest.partition(".version")
        yield kind, architecture, version + body
