"""Writes results where the user asked, or says in one line why not. Must not build or interpret them.

A file appears whole or not at all: it is written under a temporary name in the same directory, flushed to the disk
and renamed. An existing file is only replaced where the user said so, and that is checked before measuring.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from pcietool.errors import OutputError


def ensure_writable(path: Path, overwrite: bool) -> None:
    """Raises OutputError if `path` cannot be written later: call it before an hour of measuring, not after."""
    try:
        _refuse_unwritable(path, overwrite)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}; choose another name or directory") from error


def _refuse_unwritable(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise OutputError(f"{path} is a directory; name a file in it")
    if path.is_symlink() and not path.exists():
        raise OutputError(f"{path} is a link to {path.readlink()}, which does not exist; name a file")
    if path.exists() and not path.is_file():  # to rename over /dev/null would replace it, for everybody
        raise OutputError(f"{path} is no regular file; name one")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; give another name, or --overwrite to replace it")
    directory = path.parent
    if not directory.is_dir():
        raise OutputError(f"{path} cannot be written: there is no directory {directory}; make it first")
    with tempfile.TemporaryFile(dir=directory):
        pass


def ensure_directory(path: Path) -> None:
    """Makes `path` a directory, with its parents. Raises OutputError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be made: {error.strerror}; choose another directory") from error


def json_text(document: Mapping[str, Any]) -> str:
    """Strict JSON in the order the document was built, with a newline at the end. NaN and infinities are null."""
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """`value` as JSON knows it: numpy scalars and arrays, tuples and enums become what they stand for."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy, without importing it
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(document: Mapping[str, Any], path: Path, overwrite: bool) -> None:
    """Raises OutputError."""
    text = json_text(document)
    _write_whole(path, overwrite, lambda file: file.write(text.encode()))


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path, overwrite: bool) -> None:
    """One line a row, one column a key that any row has; a missing value is empty. Raises OutputError."""
    import pandas as pd

    frame = pd.DataFrame([plain(row) for row in rows], dtype=object)  # a whole number stays one beside a gap
    _write_whole(path, overwrite, lambda file: file.write(frame.to_csv(index=False, lineterminator="\n").encode()))


def write_text(pieces: Iterable[str], path: Path, overwrite: bool) -> None:
    """The pieces one behind the other, never all of them in memory. Raises OutputError."""
    _write_whole(path, overwrite, lambda file: file.writelines(piece.encode() for piece in pieces))


def write_npz(arrays: Mapping[str, Any], path: Path, overwrite: bool) -> None:
    """Raises OutputError."""
    import numpy as np

    _write_whole(path, overwrite, lambda file: np.savez_compressed(file, **cast("dict[str, Any]", dict(arrays))))


def _write_whole(path: Path, overwrite: bool, write: Callable[[IO[bytes]], object]) -> None:
    ensure_writable(path, overwrite)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        partial = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            partial.chmod(0o666 & ~_umask())  # mkstemp makes files that only their owner may read
            _publish(partial, path, overwrite)
        finally:
            with suppress(FileNotFoundError):
                partial.unlink()
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror}") from error


def _publish(partial: Path, path: Path, overwrite: bool) -> None:
    """Gives the file its name. Without `overwrite`, a file that appeared there meanwhile stays as it is."""
    if overwrite:
        partial.replace(path)
        return
    try:
        os.link(partial, path)
    except FileExistsError:
        raise OutputError(f"{path} appeared while measuring; --overwrite replaces it") from None
    except OSError:  # a file system without hard links
        partial.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
