"""A scenario: a function that says how kernels are launched and what has to come of it, with the sizes it is tried at.

Loads scenario files; must not compile or run anything.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from pcietool.check.kernel import Kernel
from pcietool.check.world import Shape, Step, World, check_kernel, check_shape
from pcietool.errors import PcietoolError, ScenarioError

MOST_RANKS = 16
_SHAPE = ("grid", "block", "ranks")


@dataclass(frozen=True)
class Size:
    """At which size a scenario is played: what `small` changes, and what its function's parameters are."""

    ranks: int
    grid: Shape
    block: Shape
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Such as "2 ranks x 1 block x 32 threads, words=32"."""
        parts = (str(self.ranks), "rank"), (_times(self.grid), "block"), (_times(self.block), "thread")
        shape = " x ".join(f"{number} {name}{'s' * (number != '1')}" for number, name in parts)
        return ", ".join([shape, *(f"{name}={value}" for name, value in self.parameters.items())])

    @property
    def sizes(self) -> dict[str, object]:
        """What a kernel's entry and macros may name in braces."""
        return {**self.parameters, "ranks": self.ranks, "grid": _times(self.grid), "block": _times(self.block)}


def _times(shape: Shape) -> str:
    return str(shape) if isinstance(shape, int) else "x".join(map(str, shape))


@dataclass(frozen=True)
class Described:
    """A scenario at one size: all that happens, in order."""

    scenario: Scenario
    size: Size
    world: World
    steps: Sequence[Step]


@dataclass(frozen=True)
class Scenario:
    """`small` is the size at which every execution is explored."""

    name: str
    function: Callable[..., None]
    kernel: Kernel
    ranks: tuple[int, ...]
    grid: Shape
    block: Shape
    small: Mapping[str, Any]
    folder: Path
    """Where its kernels' sources are looked for."""
    file: str

    @property
    def about(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def sizes(self) -> list[Size]:
        """One for each number of ranks."""
        return [Size(ranks, self.grid, self.block, self._defaults()) for ranks in self.ranks]

    def small_size(self) -> Size:
        """The fewest ranks, unless `small` says otherwise."""
        changed = {name: value for name, value in self.small.items() if name not in _SHAPE}
        shape = {"ranks": min(self.ranks), "grid": self.grid, "block": self.block} | {
            name: self.small[name] for name in _SHAPE if name in self.small
        }
        return Size(**shape, parameters=self._defaults() | changed)

    def _defaults(self) -> dict[str, Any]:
        _, *parameters = inspect.signature(self.function).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    def described(self, size: Size) -> Described:
        """Raises ScenarioError, naming the line, for what the function raises and for what cannot be."""
        world = World(range(size.ranks), self.kernel, size.grid, size.block)
        with told(self.file, self.name):
            self.function(world, **size.parameters)
            return Described(self, size, world, world.finished())


def scenario(
    kernel: Kernel,
    *,
    ranks: int | Sequence[int] = 2,
    grid: Shape = 1,
    block: Shape = 32,
    small: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., None]], Scenario]:
    """Makes a function `(w, size=default, ...)` a scenario.

    `ranks`: each number it is tried with; `small`: what is smaller where every execution is explored: block, grid,
    ranks, or parameters of the function. Raises ScenarioError for what cannot be.
    """
    check_kernel(kernel)
    numbers = tuple(ranks) if isinstance(ranks, list | tuple | range) else (ranks,)
    smaller = dict(small or {})
    for one in (*numbers, smaller.get("ranks", 1)):
        if not isinstance(one, int) or not 1 <= one <= MOST_RANKS:
            raise ScenarioError(f"ranks={one!r}: a scenario has 1 to {MOST_RANKS} ranks, or several such numbers")
    if not numbers:
        raise ScenarioError("ranks is empty: name at least one number of ranks")
    for name, shape in (("grid", grid), ("block", block)):
        check_shape(name, shape)
        check_shape(f"small {name}", smaller.get(name, 1))

    def make(function: Callable[..., None]) -> Scenario:
        if not inspect.signature(function).parameters:
            raise ScenarioError(f"{function.__name__}: takes nothing; its first parameter is the world: (w, ...)")
        _, *parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            if parameter.default is inspect.Parameter.empty:
                raise ScenarioError(f"{function.__name__}: parameter {parameter.name} needs a default, its usual size")
        known = {*_SHAPE, *(parameter.name for parameter in parameters)}
        if unknown := sorted(set(smaller) - known):
            raise ScenarioError(
                f"{function.__name__}: small has {', '.join(unknown)}, which is neither of {', '.join(sorted(known))}"
            )
        file = function.__code__.co_filename
        return Scenario(function.__name__, function, kernel, numbers, grid, block, smaller, Path(file).parent, file)

    return make


def load_scenarios(path: Path) -> list[Scenario]:
    """All scenarios of a file, in the order written. Raises ConfigError for a file that cannot be read, ScenarioError
    for one that cannot be run or has none."""
    if not path.is_file():
        raise ScenarioError(f"{path}: there is no such file; a scenario file is Python, see docs/check.md")
    if path.suffix != ".py":
        raise ScenarioError(
            f"{path}: a scenario file is Python (.py), which names the kernel's file; see docs/check.md"
        )
    name = f"pcietool_scenarios_{path.stem}"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    before, dont_write = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(path.parent.resolve()))
    sys.dont_write_bytecode = True
    try:
        with told(str(path), None):
            loader.exec_module(module)
    finally:
        sys.path[:], sys.dont_write_bytecode = before, dont_write
    found = [one for one in vars(module).values() if isinstance(one, Scenario)]
    if not found:
        raise ScenarioError(f"{path}: has no scenario; write a function under @scenario(...), see docs/check.md")
    return list({one.name: one for one in found}.values())


def chosen(scenarios: Sequence[Scenario], names: Sequence[str], path: Path) -> list[Scenario]:
    """Those of these names, or all. Raises ScenarioError, naming those that there are."""
    by_name = {one.name: one for one in scenarios}
    for name in names:
        if name not in by_name:
            raise ScenarioError(f"{path} has no scenario {name!r}; it has {', '.join(by_name)}")
    return [by_name[name] for name in names] if names else list(scenarios)


@contextmanager
def told(file: str, name: str | None) -> Iterator[None]:
    """Whatever user code raises inside becomes a ScenarioError that names the line of his file."""
    what = f"scenario {name}" if name else "this file"
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError(f"{_place(file, error)}{what}: {error}") from error
    except PcietoolError:
        raise
    except SyntaxError as error:
        raise ScenarioError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:  # an exit would look like a verdict
        raise ScenarioError(f"{_place(file, error)}{what} raised {type(error).__name__}: {error}") from error


def _place(file: str, error: BaseException | None) -> str:
    """The innermost line of the user's own, of the error or of what caused it."""
    while error is not None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        if lines:
            return f"{file}:{lines[-1]}: "
        error = error.__cause__
    return f"{file}: "
