"""Which keys of a result's rows a table shows. Standard library only, so that a command can list its columns
without importing what renders them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """One key of a result's rows: its heading, with the unit, and how a value is written."""

    key: str
    heading: str
    format: Callable[[Any], str] = str
    optional: bool = False
    """Some rows do not have the key. Every row has that of another column, if only with None."""

    def of(self, row: Mapping[str, Any]) -> Any:
        """Raises KeyError for a key that is none: nobody would see that its column is missing."""
        return row.get(self.key) if self.optional else row[self.key]
