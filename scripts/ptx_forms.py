"""Lists the instruction forms that one NVRTC emits, for tests/ptx/forms: `ptx_forms.py [libnvrtc.so] > nvrtc-12.9.txt`.

Compiles every kernel of kernels/ in its variants, and tests/ptx/forms/stress.cu, for four architectures. A form is an
instruction with its registers named by their width, numbers made 1, and symbols named by their space: PTX that one can
parse again. Must not know which forms the emulator knows.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pcietool.compiler import compile_source
from pcietool.data import kernel_source
from pcietool.ptx.model import (
    TYPE_BYTES,
    Address,
    Arguments,
    Function,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from pcietool.ptx.parser import parse

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
VARIANTS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "allreduce.cu": {"DTYPE": (1,), "CONTROL": (1, 2), "WORLD": (8,)},
    "atomics.cu": {"OPERATION": tuple(range(1, 10))},
    "barrier.cu": {"ORDER": (1, 2, 3), "THREADS": (256,), "INJECT": (1,), "NANOSLEEP": (20,), "BLOCKS": (4,)},
    "example_exchange.cu": {},
    "placement.cu": {},
    "signal.cu": {"WAIT": (1, 2), "NANOSLEEP": (20,), "PAYLOAD": (1,), "CHECKED": (1,), "INJECT": (1,)},
    "undone.cu": {},
    "verify_barrier.cu": {"SEQUENCE": (1, 2), "ARRIVED_BY": (1,), "BLOCK_SYNC": (1, 2), "OWN_SLOT": (1,)},
    "verify_combine.cu": {"ELECTION": (1, 2, 3, 4), "NO_ACK_WAIT": (1,), "PUBLISH_FIRST": (1,)},
    "verify_dispatch.cu": {"BULK": (1,), "BLOCK_SYNC": (1, 2), "CHUNK_BEFORE": (1,), "ONE_SLOT_FOR_ALL": (1,)},
    "verify_end_to_end.cu": {},
    "verify_gate.cu": {"COUNT": (1,), "SEED_EXTRA": (1,)},
    "verify_signal.cu": {"SIGNAL": tuple(range(1, 9)), "WAIT": (1, 2, 3), "COMPARE": (1,)},
    "watermark.cu": {"SIGNALS": (0,), "BULK": (1,), "INJECT": (1,)},
}
"""Values of the macros that change what a kernel consists of, beside their defaults; one is changed at a time."""
STRESS = Path(__file__).resolve().parent.parent / "tests" / "ptx" / "forms" / "stress.cu"


def variants(kernel: str) -> Iterator[dict[str, int]]:
    """Defines of a kernel as it is, and with each macro changed."""
    yield {}
    for macro, values in VARIANTS[kernel].items():
        yield from ({macro: value} for value in values)


def compiled(kernel: str, architecture: str, *, all_variants: bool = True) -> Iterator[str]:
    """PTX of one kernel for one architecture, in all its variants or as it is. Bulk copies exist from sm_90 on."""
    for defines in variants(kernel):
        if (all_variants or not defines) and (architecture != "sm_80" or not defines.get("BULK")):
            yield compile_source(kernel_source(kernel), name=kernel, architecture=architecture, defines=defines).ptx


def forms_of(ptx: str) -> set[str]:
    """The forms of every instruction in a PTX text."""
    functions = parse(ptx).functions.values()
    return {form(i, function) for function in functions for block in function.blocks for i in block.instructions}


def form(i: Instruction, function: Function) -> str:
    """One instruction as PTX without names and numbers."""
    operands = ", ".join(_operand(operand, function) for operand in i.operands)
    return f"{'.'.join((i.opcode, *i.modifiers))} {operands}".rstrip() + ";"


def _operand(operand: Operand, function: Function) -> str:
    match operand:
        case Immediate(value, is_float):
            return "1" if not is_float else "0f3F800000" if value < 1 << 32 else "0d3FF0000000000000"
        case Register(name):
            return _register(name, function)
        case Negated(register):
            return f"!{_operand(register, function)}"
        case Pair(first, second):
            return f"{_operand(first, function)}|{_operand(second, function)}"
        case Address(base, offset):
            return f"[{_operand(base, function)}{'+16' if offset else ''}]"
        case Vector(items):
            return f"{{{', '.join(_operand(item, function) for item in items)}}}"
        case Arguments(items):
            return f"({', '.join(_operand(item, function) for item in items)})"
        case Label():
            return "label"
        case Symbol(name):
            return _space(name, function)


def _register(name: str, function: Function) -> str:
    """By width alone: newer NVRTCs declare floats as .b32."""
    if name not in function.registers:
        return name
    kind = function.registers[name]
    return "%pred" if kind == "pred" else f"%b{TYPE_BYTES[kind] * 8}"


def _space(name: str, function: Function) -> str:
    """What stands for a symbol."""
    if name in function.variables:
        return f"{function.variables[name].space}_variable"
    return "parameter" if name in (p.name for p in function.parameters) else "module_symbol"


def use_nvrtc(library: Path) -> None:
    """Makes this process compile with that libnvrtc: what is loaded already is used."""
    for path in (*library.parent.glob("libnvrtc-builtins.so.*"), library):
        ctypes.CDLL(str(path), os.RTLD_NOW | os.RTLD_GLOBAL)


def main() -> None:
    if sys.argv[1:]:
        use_nvrtc(Path(sys.argv[1]))
    forms: set[str] = set()
    for architecture in ARCHITECTURES:
        for kernel in VARIANTS:
            for ptx in compiled(kernel, architecture):
                forms |= forms_of(ptx)
        stress = STRESS.read_text(encoding="utf-8")
        forms |= forms_of(compile_source(stress, name="stress.cu", architecture=architecture, defines={}).ptx)
    print("\n".join(sorted(forms)))


if __name__ == "__main__":
    main()
