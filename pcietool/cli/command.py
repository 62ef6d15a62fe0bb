"""What a command is: a function with a name, the options that its probe's config declares, and those that all have.

Typer reads options from a function's signature, so this gives it one, but only for the command that is called: all of
them would cost `--help` a third of its time. Must not import a probe.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar, cast

import typer

from pcietool.cli.options import Common
from pcietool.cli.parser import StrictCommand
from pcietool.contract.config import Config, Field, Option
from pcietool.errors import ExitCode
from pcietool.probes import PROBES
from pcietool.report.columns import Column

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Asked:
    """What the user typed for one command."""

    command: str
    common: Common
    words: Mapping[str, Any]
    """By the field of the probe's config, as Typer gives them; None or empty where the user said nothing."""

    def config(self, model: type[C]) -> C:
        """Fields without an option come from the common option of that name. Raises UsageError."""
        values: dict[str, Any] = {}
        for field in model.fields():
            if field.option is None:
                if hasattr(self.common, field.word):
                    values[field.name] = getattr(self.common, field.word)
            elif (word := self.words[field.name]) not in (None, []):
                values[field.name] = field.option.parse(word) if field.option.parse else word
        return model(**values)

    def run(self, columns: Sequence[Column], hint: str = "") -> ExitCode:
        """The probe of the command's name. Raises PcietoolError, or what the probe raised, after saving."""
        from pcietool.cli.session import run_probe

        config = self.config(PROBES.config(self.command))
        return run_probe(self.command, config, columns, self.common, hint=hint)


@dataclass(frozen=True)
class Command:
    """`call(asked, ...)`; its further parameters are options of its own. Returns the exit code."""

    name: str
    call: Callable[..., ExitCode]
    common: Collection[str]
    """The common options that mean something to it."""

    @property
    def help(self) -> str:
        """Typer keeps the line breaks of a docstring, whatever the terminal's width: one line a paragraph."""
        paragraphs = inspect.cleandoc(self.call.__doc__ or "").split("\n\n")
        return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

    def with_options(self) -> Any:
        """As Typer runs it."""
        alone = typer.Typer(add_completion=False)
        alone.command(self.name, help=self.help, cls=StrictCommand)(self.function())
        return typer.main.get_command(alone)

    def function(self) -> Callable[..., None]:
        """Takes every option by its name."""
        _, *own = inspect.signature(self.call, eval_str=True).parameters.values()
        every = inspect.signature(Common, eval_str=True).parameters.values()
        shared = [parameter for parameter in every if parameter.name in self.common]
        parameters = [*own, *_of_probe(self.name), *shared]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

        def run(**words: Any) -> None:
            common = Common(**{parameter.name: words.pop(parameter.name) for parameter in shared})
            given = {parameter.name: words.pop(parameter.name) for parameter in own}
            raise typer.Exit(self.call(Asked(self.name, common, words), **given))

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run


OF_ALL = tuple(name for name in Common.__dataclass_fields__ if name != "sarif")


def command(name: str, common: Collection[str] = OF_ALL) -> Callable[[Callable[..., ExitCode]], Command]:
    """Makes a function a Command. If a probe has its name, it takes the options that the probe's config declares."""
    return lambda call: Command(name, call, common)


def _of_probe(name: str) -> list[inspect.Parameter]:
    if name not in PROBES:
        return []
    asked = [(field, field.option) for field in PROBES.config(name).fields() if field.option]
    asked.sort(key=lambda pair: not pair[1].first)
    return [_parameter(field, option) for field, option in asked]


def _parameter(field: Field, option: Option) -> inspect.Parameter:
    """As Typer wants to see it. Where the user says nothing it gives None, or the word for the config's default."""
    kind: Any = str if option.parse else field.kind
    default = None if field.default is MISSING else field.default
    about: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    if option.several:
        about["metavar"] = f"[{'|'.join(option.choices)}],..."
    elif choices := option.choices or field.choices:
        kind = cast(Any, StrEnum)(field.name, {choice: choice for choice in choices})
    if option.parse:
        default = option.written or (None if default is None else str(default))
    else:
        about |= {"min": option.min, "max": option.max}
        if field.is_many:
            kind, default = list[kind], None
    if option.is_argument:
        default = inspect.Parameter.empty if field.default is MISSING else default
        how: Any = typer.Argument(show_default=False, **about)
    else:
        names = [field.asked_as, *([option.short] if option.short else [])]
        how = typer.Option(*names, hidden=option.hidden, rich_help_panel=option.group, **about)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, keyword, default=default, annotation=Annotated[kind, how])
