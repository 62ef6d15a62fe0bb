"""A compiled source as the emulator runs it: PTX, parsed and lowered.

Must not run it, nor know memory or devices.
"""

from __future__ import annotations

from collections.abc import Mapping

from pcietool.data import kernel_headers
from pcietool.emulator.engine.variants import OrderName
from pcietool.emulator.translate.lower import Lowered, lower
from pcietool.errors import CompileError, PtxError
from pcietool.machines.base import Kernel, Program
from pcietool.machines.watch_parameter import takes_watch
from pcietool.ptx.model import Function
from pcietool.ptx.parser import parse

CLUSTERS = frozenset({"reqnctapercluster", "explicitcluster"})


def shared_bytes(function: Function, dynamic: int) -> int:
    """Shared memory of one block: a dynamic array starts behind the static variables, aligned."""
    starts = [v.offset for v in function.variables.values() if v.space == "shared" and not v.bytes]
    return max([function.shared_bytes, *starts]) + dynamic


class EmulatedProgram(Program):
    """All entries of one source, lowered for machines of one memory order. `text`: the source, if there is one; kernels
    without take the Watch."""

    def __init__(
        self, source: str, defines: Mapping[str, int], ptx: str, order: OrderName = "timing", text: str | None = None
    ) -> None:
        self.source = source
        self.defines = dict(defines)
        self.text = text
        self.module = parse(ptx)
        self.order = order
        for function in self.module.entries.values():
            if clusters := sorted(CLUSTERS & function.directives.keys()):
                raise PtxError(
                    f"kernel {function.name}: the emulator knows no clusters (.{clusters[0]}, __cluster_dims__); take"
                    " them away, or run on a GPU"
                )
        self.lowered = {
            name: lower(function, inline_weak=order == "timing", inline_shared=order == "timing")
            for name, function in self.module.entries.items()
        }
        self._explored: dict[str, Lowered] = {}

    def kernel(self, name: str) -> Kernel:
        if name not in self.lowered:
            raise CompileError(f"{self.source} has no kernel '{name}'; it has {', '.join(self.lowered)}")
        watched = self.text is None or takes_watch(name, [self.text, *kernel_headers().values()])
        return Kernel(name, self.lowered[name].function.parameters, self, watched)

    def explored(self, name: str) -> Lowered:
        """The kernel without any access in place, for exploring."""
        if name not in self._explored:
            self._explored[name] = lower(
                self.lowered[name].function, inline_weak=False, inline_shared=False, inline_local=False
            )
        return self._explored[name]
