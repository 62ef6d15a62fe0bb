"""Copies of the checkout, in which files are changed and tests run. The checkout itself is never touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A folder with everything that git knows or does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    with TemporaryDirectory(prefix="pcietool-mutate-") as folder:
        copy = Path(folder)
        for name in names:
            if name and (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        yield copy


def environment(copy: Path, **more: str) -> dict[str, str]:
    """In which Python takes pcietool from the copy."""
    return {**os.environ, "PYTHONPATH": str(copy), **more}
