"""How strictly a command line is read. Must not know which options there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from typer.core import TyperCommand

from pcietool.errors import UsageError


class StrictCommand(TyperCommand):
    """Refuses an option that takes one value and is given twice: the parser below would take the last in silence."""

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        known: Mapping[str, Any] = {**parser._long_opt, **parser._short_opt}
        for option in {id(option): option for option in known.values()}.values():
            if option.action in ("store", "store_const"):
                option.process = _once(option, option.process)
        return parser


def _once(option: Any, process: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def refusing_more(value: Any, state: Any) -> None:
        name = max(option.obj.opts, key=len)
        if option.dest in state.opts:
            both = "" if option.action == "store_const" else f", as {state.opts[option.dest]} and as {value}"
            raise UsageError(f"{name} is given twice{both}; give it once")
        process(value, state)

    return refusing_more
