"""Ways to run CUDA text on any machine, and PTX text on an emulated one."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pcietool.emulator.engine.variants import OrderName
from pcietool.machines.base import Buffer, Kernel, Launch, Machine, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.machines.emulated.program import EmulatedProgram

Words = npt.NDArray[np.uint32]
PTX_HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
DEADLINE_S = 0.01
CASES_DEADLINE_S = 1.0
"""On GPUs too, where a launch may have to wait for others."""


def run(machine: Machine, kernel: Kernel, buffers: list[Buffer], block: int) -> None:
    """One block of `kernel(watch, *buffers)`, which must finish."""
    assert machine.run([Launch(0, kernel, 1, block, tuple(buffers))], CASES_DEADLINE_S).finished


def ptx_kernel(body: str, registers: str = "", parameters: tuple[str, ...] = ("u64", "u64")) -> str:
    """PTX text of a kernel `k(watch, p1, p2, ..)`; %a and %b are the two parameters behind the watch."""
    names = ["watch", *(f"p{n}" for n in range(1, len(parameters) + 1))]
    declared = ", ".join(f".param .{kind} {name}" for kind, name in zip(("u64", *parameters), names, strict=True))
    loads = "".join(
        f"ld.param.{kind} %{letter}, [{name}];\n"
        for kind, name, letter in zip(parameters, names[1:], "ab", strict=False)
    )
    return (
        f"{PTX_HEAD}.visible .entry k({declared})\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n"
        f".reg .b64 %a, %b;\n{registers}\n{loads}{body}\n}}\n"
    )


def ptx_program(body: str, order: OrderName = "timing", **options: Any) -> EmulatedProgram:
    return EmulatedProgram("test.ptx", {}, ptx_kernel(body, **options), order)


def run_ptx(
    machine: EmulatedMachine,
    body: str,
    inputs: tuple[int, ...] = (0,),
    outputs: int = 1,
    *,
    grid: int = 1,
    block: int = 1,
    deadline_s: float = DEADLINE_S,
    **options: Any,
) -> Words:
    """Runs a kernel on GPU 0 with %a the address of `inputs` and %b that of `outputs` words, all of 32 bits; returns
    the words at %b, shape (outputs,)."""
    source = machine.alloc(on_device(0), 4 * len(inputs), "inputs")
    source.write(np.array(inputs, np.uint32))
    result = machine.alloc(on_device(0), 4 * outputs, "outputs")
    kernel = ptx_program(body, machine.order, **options).kernel("k")
    assert machine.run([Launch(0, kernel, grid, block, (source, result))], deadline_s).finished
    words: Words = result.read(np.uint32)
    return words
