"""A compiled source as the emulator runs it: PTX, parsed and lowered.

Must not run it, nor know memory or devices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from pcietool.data import kernel_headers
from pcietool.emulator.engine.variants import OrderName
from pcietool.emulator.translate.inlining import inlined
from pcietool.emulator.translate.lower import Lowered, lower
from pcietool.errors import CompileError, PtxError
from pcietool.machines.base import Kernel, Program
from pcietool.machines.watch_parameter import takes_watch
from pcietool.ptx.model import Function, Module
from pcietool.ptx.parser import parse

MOST_KEPT = 64
"""PTX texts, lowered."""


def cluster_of(function: Function) -> int:
    """Blocks of a cluster, along x. Raises PtxError for clusters that are not emulated."""
    blocks, *others = function.directives.get("reqnctapercluster", (1,))
    if any(other != 1 for other in others) or ("explicitcluster" in function.directives and not blocks):
        raise PtxError(
            f"kernel {function.name}: the emulator knows clusters along x only (__cluster_dims__(N)); lay its blocks"
            " out so, or run on a GPU"
        )
    every = (i for block in function.blocks for i in block.instructions)
    scoped = next((i for i in every if i.has("cluster") and i.opcode != "barrier"), None)
    if blocks > 1 and scoped is not None:
        raise PtxError(
            f"kernel {function.name}: the emulator knows no cluster scope between blocks of a cluster, as in"
            f" '{scoped.text}' (PTX line {scoped.line}, {scoped.source}); use cluster.sync(), or run on a GPU"
        )
    return blocks


def shared_bytes(function: Function, dynamic: int) -> int:
    """Shared memory of one block: a dynamic array starts behind the static variables, aligned."""
    starts = [v.offset for v in function.variables.values() if v.space == "shared" and not v.bytes]
    return max([function.shared_bytes, *starts]) + dynamic


class LoweredKernels(Mapping[str, Lowered]):
    """The kernels of a module by name, each lowered when somebody asks for it: in a file that people bring, one that
    the emulator does not know is no reason to refuse another."""

    def __init__(self, module: Module, order: OrderName) -> None:
        self._module = module
        self._order = order
        self._known: dict[str, Lowered] = {}

    def __getitem__(self, name: str) -> Lowered:
        """Raises PtxError, KeyError."""
        if name not in self._known:
            function = self._module.entries[name]
            cluster_of(function)
            in_place = self._order == "timing"
            self._known[name] = lower(inlined(function, self._module), inline_weak=in_place, inline_shared=in_place)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._module.entries)

    def __len__(self) -> int:
        return len(self._module.entries)


@lru_cache(maxsize=MOST_KEPT)
def _lowered(ptx: str, order: OrderName) -> tuple[Module, LoweredKernels]:
    """Many machines run the same text, one a seed."""
    module = parse(ptx)
    return module, LoweredKernels(module, order)


class EmulatedProgram(Program):
    """All entries of one source, lowered for machines of one memory order. `text`: the source, if there is one, which
    says what kernels take the Watch; else `takes_watch` names them, by default all."""

    def __init__(
        self,
        source: str,
        defines: Mapping[str, int],
        ptx: str,
        order: OrderName = "timing",
        text: str | None = None,
        takes_watch: Collection[str] | None = None,
    ) -> None:
        self.source = source
        self.defines = dict(defines)
        self.text = text
        self.order = order
        self.module, self.lowered = _lowered(ptx, order)
        self._takes_watch = self.lowered if takes_watch is None else takes_watch
        self._explored: dict[str, Lowered] = {}
        if takes_watch is None:
            dict(self.lowered)  # what is unknown in a kernel of ours is said at once

    def kernel(self, name: str) -> Kernel:
        if name not in self.lowered:
            raise CompileError(f"{self.source} has no kernel '{name}'; it has {', '.join(self.lowered)}")
        watched = name in self._takes_watch
        if self.text is not None:
            watched = takes_watch(name, [self.text, *kernel_headers().values()])
        return Kernel(name, self.lowered[name].function.parameters, self, watched)

    def explored(self, name: str) -> Lowered:
        """The kernel without any access in place, for exploring."""
        if name not in self._explored:
            self._explored[name] = lower(
                self.lowered[name].function, inline_weak=False, inline_shared=False, asks_often=False
            )
        return self._explored[name]
