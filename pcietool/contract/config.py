"""What a probe can be asked: frozen dataclasses whose fields know what they may hold, and which option fills them.

Standard library only, since `--help` reads them; must not know the command line's parser, nor what is measured.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pcietool.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a number must keep, and each one of a tuple. Stands in a field's `Annotated`."""

    min: float | None = None
    max: float | None = None
    ceiling: float | None = None
    """As `max`, but so far off that help does not show it."""
    above: float | None = None
    multiple_of: int | None = None

    def complaint(self, value: float) -> str | None:
        """Such as "must be a multiple of 32"."""
        if self.multiple_of is not None and value % self.multiple_of:
            return f"must be a multiple of {self.multiple_of}"
        for most in (self.max, self.ceiling):
            if most is not None and not value <= most:  # NaN too
                return f"must be less than or equal to {most}"
        if self.min is not None and value < self.min:
            return f"must be greater than or equal to {self.min}"
        if self.above is not None and not value > self.above:
            return f"must be greater than {self.above}"
        return None


@dataclass(frozen=True)
class Option(Limits):
    """How the command line asks for a field: by `name`, or by the field's own without its unit."""

    help: str
    _: KW_ONLY
    name: str | None = None
    short: str | None = None
    group: str | None = None
    """Under which heading help lists it."""
    first: bool = False
    """Help lists it before the others of its group."""
    hidden: bool = False
    is_argument: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    """Where the field's type does not name them."""
    several: bool = False
    """A value is one of the choices, or some of them with commas between; "all" stands alone."""
    parse: Callable[[str], Any] | None = None
    """From the user's word to the field's value. Raises UsageError."""
    written: str | None = None
    """The word for the field's default, where it is not simply that."""


@dataclass(frozen=True)
class Field:
    """One field of a config, as its annotation describes it."""

    name: str
    kind: Any
    """Of one value: int, float, str, bool or a Literal."""
    is_many: bool
    """A tuple of them, each once."""
    is_optional: bool
    default: Any
    """dataclasses.MISSING where there is none."""
    limits: Limits

    @classmethod
    def of(cls, name: str, hint: Any, default: Any) -> Field:
        limits = next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Limits)), Limits())
        kind = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        is_optional = NoneType in get_args(kind)
        if is_optional:
            (kind,) = (each for each in get_args(kind) if each is not NoneType)
        is_many = get_origin(kind) is tuple
        return cls(name, get_args(kind)[0] if is_many else kind, is_many, is_optional, default, limits)

    @property
    def option(self) -> Option | None:
        """None: no option fills this field."""
        return self.limits if isinstance(self.limits, Option) else None

    @property
    def word(self) -> str:
        """The name without its unit: timeout_s -> timeout."""
        return re.sub("_n?s$", "", self.name)

    @property
    def asked_as(self) -> str:
        """What a user calls it: --min-bytes of min_bytes, --timeout of timeout_s; an argument by its name."""
        if self.option and self.option.is_argument:
            return self.name
        return (self.option and self.option.name) or "--" + self.word.replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """Empty: anything."""
        if get_origin(self.kind) is Literal:
            return get_args(self.kind)
        return self.option.choices if self.option and not self.option.parse else ()

    def checked(self, value: Any) -> Any:
        """`value` as the config keeps it. Raises ValueError with the complaint."""
        if value is None and self.is_optional:
            return None
        if not self.is_many:
            return self._checked(value)
        if not isinstance(value, list | tuple):
            raise ValueError(self._say(value, "must be a list"))
        return tuple(dict.fromkeys(map(self._checked, value)))

    def _checked(self, value: Any) -> Any:
        if self.choices:
            return self._chosen(str(value))  # not an enum's member
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind:
            raise ValueError(self._say(value, f"must be of type {self.kind.__name__}"))
        if complaint := self.limits.complaint(value) if self.kind in (int, float) else None:
            raise ValueError(self._say(value, complaint))
        return value

    def _chosen(self, value: str) -> str:
        words = value.split(",") if self.option and self.option.several else [value]
        for word in words:
            if word not in self.choices:
                *others, last = map(repr, self.choices)
                raise ValueError(self._say(word, f"must be {', '.join(others)} or {last}"))
            if words.count(word) > 1:
                raise ValueError(self._say(value, f"names {word} twice"))
        if "all" in words and len(words) > 1:
            raise ValueError(self._say(value, "all has every other one in it; name it alone"))
        return value

    def _say(self, value: Any, complaint: str) -> str:
        return f"{self.asked_as} {value}: {complaint}"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Of a probe. Raises UsageError, when made, with one line for all fields that are wrong."""

    @classmethod
    @cache
    def fields(cls) -> tuple[Field, ...]:
        """In the order in which they are declared."""
        hints = get_type_hints(cls, include_extras=True)
        return tuple(Field.of(field.name, hints[field.name], field.default) for field in dataclasses.fields(cls))

    def __post_init__(self) -> None:
        complaints = []
        for field in self.fields():
            try:
                object.__setattr__(self, field.name, field.checked(getattr(self, field.name)))
            except ValueError as complaint:
                complaints.append(str(complaint))
        if complaints:
            raise UsageError("; ".join(complaints))

    def _refuse_idle(self, names: Sequence[str], because: str) -> None:
        """Raises UsageError if one of these fields was changed: `because` names what makes that mean nothing."""
        fields = {field.name: field for field in self.fields()}
        changed = [fields[name].asked_as for name in names if getattr(self, name) != fields[name].default]
        if changed:
            raise UsageError(f"{' and '.join(changed)} would change nothing: {because}; leave one of them out")
