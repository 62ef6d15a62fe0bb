"""The failures that a command can make on request, `--inject`: which there are, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pcietool.errors import UsageError


def checked(injection: str | None, known: Sequence[str], note: str = "") -> str | None:
    """`injection`, if it is None or one of `known`, such as ("dead-rank", "stall=US"), where a number of at most 9
    digits follows =. Raises UsageError, which says what is known and `note`."""
    patterns = (re.sub("=.*", r"=\\d{1,9}", one) for one in known)
    if injection is None or any(re.fullmatch(pattern, injection, re.ASCII) for pattern in patterns):
        return injection
    raise UsageError(f"--inject {injection}: this command knows {', '.join(known)}{note}")


def amount(injection: str) -> int:
    """The number behind =, or 0."""
    return int(injection.partition("=")[2] or 0)
