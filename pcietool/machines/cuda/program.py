"""A compiled source, loaded on every GPU, and what a kernel needs before its first launch.

Must not launch anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from cuda.bindings import driver

from pcietool.compiler import compile_source
from pcietool.data import kernel_headers
from pcietool.errors import CompileError, UsageError
from pcietool.machines.base import Kernel, Program
from pcietool.machines.cuda.driver import call
from pcietool.machines.cuda.gpu import WatchedGpu
from pcietool.machines.watch_parameter import takes_watch
from pcietool.ptx.parser import parse


class CudaProgram(Program):
    """`images`: what the driver loads, a cubin or PTX, for each compute capability; each GPU holds that of its own.
    `ptx`: of one of them, for the kernels' parameters. `watched(name)`: does this kernel take the Watch?"""

    def __init__(
        self,
        gpus: Sequence[WatchedGpu],
        name: str,
        defines: Mapping[str, int],
        images: Mapping[tuple[int, int], bytes],
        ptx: str,
        watched: Callable[[str], bool],
    ) -> None:
        self.source = name
        self.defines = dict(defines)
        self._watched = watched
        entries = parse(ptx).entries
        self._parameters = {name: entry.parameters for name, entry in entries.items()}
        self._functions: dict[tuple[int, str], Any] = {}
        self._dynamic_shared: dict[tuple[int, str], int] = {}
        for gpu in gpus:
            gpu.make_current()
            module = call(driver.cuModuleLoadData, images[gpu.device.compute_capability])
            for entry in entries:
                self._functions[gpu.index, entry] = call(driver.cuModuleGetFunction, module, entry.encode())

    @classmethod
    def of_source(cls, gpus: Sequence[WatchedGpu], name: str, text: str, defines: Mapping[str, int]) -> CudaProgram:
        """CUDA C++, compiled for every architecture there is."""
        architectures = sorted({gpu.device.compute_capability for gpu in gpus})
        compiled = {
            architecture: compile_source(text, name=name, architecture=architecture, defines=defines)
            for architecture in architectures
        }
        images = {architecture: one.cubin for architecture, one in compiled.items()}
        texts = [text, *kernel_headers().values()]
        first = compiled[architectures[0]].ptx
        program = cls(gpus, name, defines, images, first, lambda kernel: takes_watch(kernel, texts))
        program.ptx_sha256 = {one.architecture: one.ptx_sha256 for one in compiled.values()}
        return program

    @classmethod
    def of_ptx(cls, gpus: Sequence[WatchedGpu], name: str, ptx: str, takes_watch: Collection[str]) -> CudaProgram:
        """Ready PTX, which the driver compiles for each GPU. It may be of a newer version than the driver knows: its
        instructions are what counts."""
        most = _ptx_version(int(call(driver.cuDriverGetVersion)))
        text = _VERSION.sub(lambda found: f".version {min(float(found[1]), most)}", ptx, count=1)
        images = {gpu.device.compute_capability: text.encode() + b"\0" for gpu in gpus}
        return cls(gpus, name, {}, images, ptx, lambda kernel: kernel in takes_watch)

    def kernel(self, name: str) -> Kernel:
        if name not in self._parameters:
            raise CompileError(f"{self.source} has no kernel {name!r}; it has {', '.join(sorted(self._parameters))}")
        return Kernel(name, self._parameters[name], self, self._watched(name))

    def function(self, gpu: WatchedGpu, name: str, shared: int) -> Any:
        """The handle on this GPU, allowed to use `shared` bytes of dynamic shared memory."""
        function = self._functions[gpu.index, name]
        if shared > self._dynamic_shared.get((gpu.index, name), 0):
            self._allow_shared(gpu, name, function, shared)
        return function

    def _allow_shared(self, gpu: WatchedGpu, name: str, function: Any, shared: int) -> None:
        gpu.make_current()
        static = int(call(driver.cuFuncGetAttribute, _FUNCTION.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
        limit = int(call(driver.cuDeviceGetAttribute, _SHARED_LIMIT, gpu.handle))
        if static + shared > limit:
            raise UsageError(
                f"{name}: {static + shared} bytes of shared memory a block, GPU {gpu.index} has {limit}; use fewer"
                " rounds or smaller sizes"
            )
        call(driver.cuFuncSetAttribute, function, _FUNCTION.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        self._dynamic_shared[gpu.index, name] = shared


def _ptx_version(cuda: int) -> float:
    """The newest that a driver of this CUDA version, such as 13000, takes: 9.0 with CUDA 13.0, 8.8 with 12.9."""
    major, minor = cuda // 1000, cuda % 1000 // 10
    return round(9.0 + minor / 10 if major >= 13 else 7.9 + minor / 10, 1)


_VERSION = re.compile(r"\.version\s+(\d+\.\d+)")
_FUNCTION = driver.CUfunction_attribute
_SHARED_LIMIT = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN


def cuda_program(kernel: Kernel) -> CudaProgram:
    """The program behind a kernel; it must come from this tenant's `load`."""
    if not isinstance(kernel.program, CudaProgram):
        raise TypeError(f"{kernel.name} was loaded by another machine")
    return kernel.program
