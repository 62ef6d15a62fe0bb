"""Litmus tests as PTX kernels: one launch a GPU, columns of one CTA as threads of one block.

Barriers are left out, since theirs count instances, which PTX has none of; so are bulk copies, which are not explored
in kernels, and homes without native atomics, which are the fabric's business there.
"""

from __future__ import annotations

import numpy as np

from pcietool.emulator.fabric.fabric import load_fabric
from pcietool.litmus.text.operations import ATOMICS, BRANCHES
from pcietool.litmus.text.program import (
    Access,
    Arithmetic,
    Barrier,
    Branch,
    Copy,
    Fence,
    Instruction,
    LitmusTest,
    Load,
    Operand,
    Rmw,
    Store,
)
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.machines.emulated.program import EmulatedProgram
from tests.emulator.emulated_programs import PTX_HEAD
from tests.litmus.litmus_texts import of_whole_words

COMPARISONS = {"beq": "eq", "bne": "ne", "blt": "lt", "bgt": "gt", "ble": "le", "bge": "ge"}
SCOPES = ("cta", "gpu", "sys")


def is_translatable(test: LitmusTest) -> bool:
    code = [one for thread in test.threads for one in thread.code]
    return not test.not_native and of_whole_words(test) and not any(isinstance(one, Barrier | Copy) for one in code)


def ptx_outcomes(test: LitmusTest) -> tuple[set[tuple[int, ...]], int]:
    """The values of the question's items in every execution of the test's kernels, and how many states hang."""
    gpus = sorted({thread.gpu for thread in test.threads})
    spec = load_fabric("h200-nvlink2")  # its links have native atomics
    wide = spec.model_copy(update={"gpu": spec.gpu.model_copy(update={"count": len(gpus)})})
    with EmulatedMachine(wide, range(len(gpus)), seed=0) as machine:
        memory = machine.alloc(on_device(0), 128 * len(test.locations), "locations")
        values = np.zeros((len(test.locations), 32), np.uint32)
        values[:, 0] = np.array(test.memory, np.int64).astype(np.uint32)
        memory.write(values)
        width = max(len(thread.registers) for thread in test.threads) or 1
        results = machine.alloc(on_device(0), 4 * width * len(test.threads), "registers")
        launches = []
        for device, gpu in enumerate(gpus):
            ctas = sorted({thread.cta for thread in test.threads if thread.gpu == gpu})
            columns = {cta: [i for i, t in enumerate(test.threads) if (t.gpu, t.cta) == (gpu, cta)] for cta in ctas}
            block = max(map(len, columns.values()))
            program = EmulatedProgram("test.ptx", {}, _kernel(test, list(columns.values()), block, width))
            launches.append(Launch(device, program.kernel("k"), len(ctas), block, (memory, results)))
        observed = [(results, np.int32, width * len(test.threads)), (memory, np.int32, 32 * len(test.locations))]
        found = machine.explore(launches, observed)
    assert found.complete
    base = width * len(test.threads)
    picked = [base + 32 * i.number if i.thread is None else width * i.thread + i.number for i in test.question.items]
    return {tuple(outcome[place] for place in picked) for outcome in found.outcomes}, found.hung


def _kernel(test: LitmusTest, columns: list[list[int]], block: int, width: int) -> str:
    lines = ["ld.param.u64 %mem, [p1];", "ld.param.u64 %out, [p2];"]
    lines += [f"add.u64 %loc{number}, %mem, {128 * number};" for number in range(len(test.locations))]
    lines += ["mov.u32 %lane, %tid.x;", "mov.u32 %t, %ctaid.x;", f"mad.lo.u32 %t, %t, {block}, %lane;"]
    for cta, threads in enumerate(columns):
        for lane, number in enumerate(threads):
            lines += [f"setp.eq.u32 %p, %t, {cta * block + lane};", f"@%p bra START{number};"]
    lines.append("ret;")
    for number in (number for threads in columns for number in threads):
        thread = test.threads[number]
        lines.append(f"START{number}:")
        lines += [f"mov.u32 %r{register}, {value};" for register, value in enumerate(thread.initial)]
        for position, instruction in enumerate(thread.code):
            lines += [f"L{number}_{position}:", *lines_of(number, instruction)]
        lines.append(f"L{number}_{len(thread.code)}:")
        lines += [
            f"st.global.u32 [%out+{4 * (width * number + register)}], %r{register};"
            for register in range(len(thread.registers))
        ]
        lines.append("ret;")
    body = "\n".join(lines)
    declared = (
        f".reg .pred %p;\n.reg .b32 %t, %lane, %void;\n.reg .b32 %r<{width}>;\n"
        f".reg .b64 %mem, %out;\n.reg .b64 %loc<{len(test.locations)}>;\n"
    )
    parameters = ".param .u64 watch, .param .u64 p1, .param .u64 p2"
    return f"{PTX_HEAD}.visible .entry k({parameters})\n{{\n{declared}{body}\n}}\n"


def lines_of(number: int, instruction: Instruction) -> list[str]:
    """PTX for one instruction of column `number`: register n is %rn, the address of location n is in %locn, the label
    of position n is L<number>_n; %p and %void are overwritten."""
    match instruction:
        case Load():
            order = "acquire" if instruction.acquire else "relaxed"
            return [
                f"ld{_semantics(instruction, order)}.global.u32 %r{instruction.registers[0]}, {_place(instruction)};"
            ]
        case Store():
            order = "release" if instruction.release else "relaxed"
            return [
                f"st{_semantics(instruction, order)}.global.u32 {_place(instruction)}, {_value(instruction.values[0])};"
            ]
        case Rmw():
            return [_rmw(instruction)]
        case Fence():
            return [f"fence.{'sc' if instruction.sequential else 'acq_rel'}.{SCOPES[instruction.scope]};"]
        case Arithmetic():
            name = next((n for n in ("add", "sub", "mul") if instruction.text.startswith(n)), "add")
            opcode = "mul.lo" if name == "mul" else name
            left, right = _value(instruction.left), _value(instruction.right)
            return [f"{opcode}.s32 %r{instruction.register}, {left}, {right};"]
        case Branch():
            name = instruction.text.split()[0]
            to = f"L{number}_{instruction.target}"
            if name not in BRANCHES:
                return [f"bra {to};"]
            left, right = _value(instruction.left), _value(instruction.right)
            return [f"setp.{COMPARISONS[name]}.s32 %p, {left}, {right};", f"@%p bra {to};"]
    raise AssertionError(instruction)


def _rmw(rmw: Rmw) -> str:
    order = {(True, True): "acq_rel", (True, False): "acquire", (False, True): "release"}.get(
        (rmw.acquire, rmw.release), "relaxed"
    )
    name = next(name for name in ATOMICS if name in rmw.text.split()[0].split("."))
    kind = "b32" if name in ("and", "or", "xor", "exch", "cas") else "u32"
    value = _value(rmw.value)
    if name == "sub":
        assert rmw.value.register is None
        name, value = "add", str(-rmw.value.constant)
    operands = f"{_value(rmw.expected)}, {value}" if rmw.expected is not None else value
    semantics = f"{order}.{SCOPES[rmw.scope]}.global.{name}.{kind}"
    target = "%void" if rmw.register is None else f"%r{rmw.register}"
    return f"atom.{semantics} {target}, {_place(rmw)}, {operands};"


def _semantics(access: Access, order: str) -> str:
    return f".{order}.{SCOPES[access.scope]}" if access.strong else ".weak"


def _place(access: Access) -> str:
    return f"[%loc{access.location}]"


def _value(operand: Operand) -> str:
    return str(operand.constant) if operand.register is None else f"%r{operand.register}"
