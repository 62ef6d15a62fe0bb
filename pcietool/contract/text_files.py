"""Reads the text files that a user names: small, UTF-8, and nothing in them that moves a terminal's cursor.

Must not know what a file means.
"""

from __future__ import annotations

import re
from pathlib import Path

from pcietool.errors import ConfigError

MOST_BYTES = 256 * 1024
"""Some hundred times what any file has that somebody wrote: more would only cost time until it is refused."""

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters other than tabs and ends of lines, and what changes the direction of writing."""


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Raises ConfigError, with the file's name, for what is no such file."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ConfigError(f"{path} cannot be read: it is no regular file")
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > most_bytes:
        raise ConfigError(f"{path} cannot be read: it is longer than {most_bytes // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} cannot be read: it is not UTF-8 text") from None
    if complaint := unseen(text) or unseen(str(path)):
        raise ConfigError(f"{path} cannot be read: it has {complaint}")
    return text


def unseen(text: str) -> str | None:
    """Which character of it is none that a terminal only shows, and in which line, if it has several."""
    found = _UNSEEN.search(text)
    if found is None:
        return None
    line = text.count("\n", 0, found.start()) + 1
    return f"the control character U+{ord(found[0]):04X}" + (f" in line {line}" if line > 1 else "")
