"""Scenarios as tests write them, and what check says of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pcietool.check import Kernel, Scenario, World, scenario
from pcietool.check.changing.edits import Edit, edited
from pcietool.compiler import compile_source
from pcietool.contract.results import ProbeResult
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.check import probe
from pcietool.probes.check.config import CheckConfig
from pcietool.ptx.model import Module
from pcietool.ptx.parser import parse
from tests.listening import Listener

PRELUDE = '#include "slots.cuh"\n'


def kernel(body: str, parameters: str, name: str = "k") -> Kernel:
    """`body` of an extern "C" kernel in k.cu; the body begins in line 3."""
    text = f'{PRELUDE}extern "C" __global__ void {name}({parameters}) {{\n{body}\n}}\n'
    return Kernel(f"{name}.cu", name, text=text)


def one(what: Kernel, play: Callable[[World], None], **shape: Any) -> Scenario:
    """A scenario of no further size: one rank and one thread, unless `shape` says otherwise."""

    def played(w: World) -> None:
        play(w)

    return scenario(what, **{"ranks": 1, "block": 1, **shape})(played)


def checked(of: Scenario, fabric: str = "pcie5-switch4", **options: Any) -> ProbeResult:
    options = {"seeds": 30, "max_seconds": 60.0, "jobs": 1} | options
    with EmulatedMachine.open(fabric) as machine:
        return probe.of_scenario(machine, of, CheckConfig(file=__file__, **options), Listener())


def word(result: ProbeResult) -> str:
    found: str = result.details["verdict"]
    return found


def module_of(body: str, parameters: str = "u32* a, u32* b") -> tuple[str, Module]:
    """PTX of a kernel, as text and parsed."""
    what = kernel(body, parameters)
    assert what.text is not None
    ptx = compile_source(what.text, name="k.cu", architecture=(9, 0), defines={}).ptx
    return ptx, parse(ptx)


def forms_after(ptx: str, edit: Edit) -> list[str]:
    """Forms of all instructions of a text that was edited."""
    blocks = [block for function in parse(edited(ptx, [edit])).functions.values() for block in function.blocks]
    return [instruction.form for block in blocks for instruction in block.instructions]


def scenario_file(folder: Path, text: str) -> Path:
    path = folder / "scenarios.py"
    path.write_text("import numpy as np\nfrom pcietool.check import Kernel, scenario\n" + text)
    return path
