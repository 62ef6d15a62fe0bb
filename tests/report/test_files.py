import errno
import json
import os
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from pcietool.errors import OutputError
from pcietool.report import files
from pcietool.report.files import ensure_writable, json_text, write_csv, write_json, write_npz


def test_json_is_strict_and_keeps_the_order() -> None:
    text = json_text({"b": np.float64(1.5), "a": float("nan"), "c": (np.int32(2), [np.inf]), "d": np.arange(2)})
    assert text.endswith("}\n")
    assert json.loads(text) == {"b": 1.5, "a": None, "c": [2, [None]], "d": [0, 1]}
    assert list(json.loads(text)) == ["b", "a", "c", "d"]


def test_an_existing_file_stays_unless_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("precious")
    for attempt in (ensure_writable, lambda p, o: write_json({"a": 1}, p, o)):
        with pytest.raises(OutputError, match="--overwrite"):
            attempt(path, False)
    assert path.read_text() == "precious"
    write_json({"a": 1}, path, overwrite=True)
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a directory"):
        ensure_writable(tmp_path, overwrite=True)


def test_a_link_to_nowhere_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(OutputError, match="does not exist"):
        ensure_writable(tmp_path / "link", overwrite=True)
    (tmp_path / "gone").touch()
    ensure_writable(tmp_path / "link", overwrite=True)


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(OutputError, match="no regular file"):
        ensure_writable(Path("/dev/null"), overwrite=True)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=f"no directory {tmp_path / 'no'}"):
        ensure_writable(tmp_path / "no" / "result.json", overwrite=False)


def test_an_unwritable_directory_is_found_before_measuring() -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        ensure_writable(Path("/proc/result.json"), overwrite=False)


def test_a_full_disk_leaves_the_old_file_and_no_debris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    path.write_text("precious")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_json({"a": 1}, path, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]
    assert path.read_text() == "precious"


def test_a_file_that_appears_while_writing_stays(tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    def write(file: IO[bytes]) -> None:
        file.write(b"late")
        path.write_text("precious")

    with pytest.raises(OutputError, match="appeared"):
        files._write_whole(path, False, write)
    assert path.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_csv_has_a_column_for_every_key(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_csv([{"probe": "p", "us": 1.5}, {"probe": "p", "us": None, "reason": "no", "n": 3}], path, overwrite=False)
    assert path.read_text() == "probe,us,reason,n\np,1.5,,\np,,no,3\n"


def test_files_are_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_json({}, tmp_path / "a.json", overwrite=False)
    finally:
        os.umask(old)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o644


def test_samples_come_back(tmp_path: Path) -> None:
    write_npz({"peer/us": np.arange(3.0)}, tmp_path / "raw.npz", overwrite=False)
    with np.load(tmp_path / "raw.npz") as raw:
        assert raw["peer/us"].tolist() == [0, 1, 2]


def test_a_name_that_no_file_can_have_is_refused_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="File name too long"):
        ensure_writable(tmp_path / ("x" * 300), overwrite=False)
