"""A litmus test as CUDA C++: every instruction of the test becomes the one PTX instruction that it stands for.

What runs the threads again and again is kernels/litmus.cuh. Must not know machines, nor what an outcome means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pcietool.litmus.text.instructions import ARITHMETIC, ATOMICS, BRANCHES
from pcietool.litmus.text.program import (
    Access,
    Arithmetic,
    Barrier,
    Branch,
    Copy,
    Fence,
    Instruction,
    Item,
    LitmusTest,
    LitmusThread,
    Load,
    Operand,
    Rmw,
    Scope,
    Store,
)

SMALLEST, LARGEST = -(2**31), 2**31 - 1
"""Values of a machine are signed and of 32 bits; those of the model have no bound."""
MOST_WARPS = 32
"""Of one block."""

_SCOPES = {Scope.CTA: "cta", Scope.GPU: "gpu", Scope.SYS: "sys"}
_SYMBOLS = {ARITHMETIC["add"]: "+", ARITHMETIC["sub"]: "-", ARITHMETIC["mul"]: "*", ARITHMETIC["div"]: "/"}
_COMPARISONS = {
    BRANCHES["beq"]: "==", BRANCHES["bne"]: "!=", BRANCHES["blt"]: "<",
    BRANCHES["bgt"]: ">", BRANCHES["ble"]: "<=", BRANCHES["bge"]: ">=",
}  # fmt: skip
RMW_NAMES = {function: name for name, function in ATOMICS.items()}
"""By what they compute."""
_RMW_TYPES = {"add": "u32", "sub": "u32"}
"""b32 for the others."""


@dataclass(frozen=True)
class Gpu:
    """The threads of a test on one of its GPUs: blocks[b][w] is the number of the thread in warp w of block b."""

    blocks: tuple[tuple[int, ...], ...]

    @property
    def warps(self) -> int:
        """The most threads that one block has."""
        return max(map(len, self.blocks))


def gpus_of(test: LitmusTest) -> list[Gpu]:
    """In the order of their numbers; position n is what the kernel gpu{n} runs."""
    numbers: dict[int, dict[int, list[int]]] = {}
    for index, thread in enumerate(test.threads):
        numbers.setdefault(thread.gpu, {}).setdefault(thread.cta, []).append(index)
    return [Gpu(tuple(tuple(blocks[cta]) for cta in sorted(blocks))) for _, blocks in sorted(numbers.items())]


def observed_registers(test: LitmusTest) -> list[list[Item]]:
    """By GPU, the registers that the question or `locations` name: row n of a GPU's results holds the n-th one."""
    return [
        [item for item in test.question.items if item.thread in {index for block in gpu.blocks for index in block}]
        for gpu in gpus_of(test)
    ]


def has_loop(test: LitmusTest) -> bool:
    """Whether some thread can jump back."""
    return any(
        isinstance(one, Branch) and one.target <= at for thread in test.threads for at, one in enumerate(thread.code)
    )


def inexpressible(test: LitmusTest) -> str | None:
    """Why no kernel can stand for this test, or None."""
    code = [one for thread in test.threads for one in thread.code]
    values = [*test.memory, *(value for thread in test.threads for value in thread.initial)]
    values += [operand.constant for one in code for operand in _operands(one)]
    if any(isinstance(one, Barrier) for one in code):
        return "has a block barrier, which may block; runs on the model only"
    if any(isinstance(one, Copy) for one in code):
        return "has bulk copies, whose sources are shared memory; runs on the model only"
    if test.without_native_atomics:
        return "says where atomics are not native, which on a machine its links decide; runs on the model only"
    if any(not SMALLEST <= value <= LARGEST for value in values):
        return "has a value that does not fit 32 bits"
    if any(isinstance(one, Rmw) and one.register is None and RMW_NAMES[one.combine] in ("exch", "cas") for one in code):
        return "has a red.exch or red.cas, which PTX does not have"
    if not test.locations:
        return "has no memory"
    if max(gpu.warps for gpu in gpus_of(test)) > MOST_WARPS:
        return f"has a block of more than {MOST_WARPS} threads"
    return None


def cuda_source(test: LitmusTest) -> str:
    """One kernel a GPU, gpu0, gpu1, ..., for a test that is not `inexpressible`. Each takes the fields of Trials
    (kernels/litmus.cuh) and then one pointer a variable."""
    registers = {item: row for items in observed_registers(test) for row, item in enumerate(items)}
    lines = ['#include "litmus.cuh"', ""]
    for index, thread in enumerate(test.threads):
        stored = {item.number: row for item, row in registers.items() if item.thread == index}
        lines += [*_thread(index, thread, len(test.locations), stored), ""]
    for number, gpu in enumerate(gpus_of(test)):
        lines += _kernel(number, gpu, test)
    return "\n".join(lines) + "\n"


def _thread(index: int, thread: LitmusThread, variables: int, stored: dict[int, int]) -> Iterator[str]:
    """`stored`: the row of the results in which a register ends."""
    yield f"struct P{index} {{"
    yield f"    static constexpr u32 NUMBER = {index};"
    yield (
        f"    static __device__ __forceinline__ bool run(u32* const (&words)[{variables}], u32* results, u32 trials,"
        " const Deadline& deadline) {"
    )
    for name, value in zip(thread.registers, thread.initial, strict=True):
        yield f"        [[maybe_unused]] u32 {name} = {_constant(value)};"
    if any(isinstance(one, Branch) and one.target <= at for at, one in enumerate(thread.code)):
        yield "        u32 jumps = 0;"
    targets = {one.target for one in thread.code if isinstance(one, Branch)}
    for at, one in enumerate(thread.code):
        if at in targets:
            yield f"    at{at}:"
        yield f"        {_statement(index, thread, at, one)}  // {one.text}"
    if len(thread.code) in targets:
        yield f"    at{len(thread.code)}:"
    for register, row in stored.items():
        yield f"        results[{row} * trials] = {thread.registers[register]};"
    yield "        return true;"
    yield "    }"
    yield "};"


def _statement(index: int, thread: LitmusThread, at: int, one: Instruction) -> str:
    names = thread.registers
    match one:
        case Load():
            return _asm(f"ld{_order(one)}.global.u32 %0, [%1];", [names[one.register]], [_word(one)])
        case Store():
            return _asm(f"st{_order(one)}.global.u32 [%0], %1;", [], [_word(one), _value(names, one.value)])
        case Rmw():
            return _rmw(names, one)
        case Fence():
            is_membar = _opcode(one)[0] == "membar"
            kind = ".sc" if one.sequential else ".acq_rel"
            return _asm(f"{one.text.strip()};" if is_membar else f"fence{kind}.{_SCOPES[one.scope]};", [], [])
        case Arithmetic():
            left, right = _value(names, one.left), _value(names, one.right)
            symbol = _SYMBOLS[one.combine]
            if symbol == "/":
                left, right = f"static_cast<s32>({left})", f"static_cast<s32>({right})"
            return f"{names[one.register]} = {left} {symbol} {right};"
        case Branch():
            condition = f"static_cast<s32>({_value(names, one.left)}) {_COMPARISONS[one.compare]} "
            condition += f"static_cast<s32>({_value(names, one.right)})"
            if one.target > at:
                return f"if ({condition}) goto at{one.target};"
            guard = f"if (too_late(deadline, {index}, ++jumps)) return false;"
            return f"if ({condition}) {{ {guard} goto at{one.target}; }}"
    raise AssertionError(f"{one.text} is inexpressible")


def _rmw(names: Sequence[str], one: Rmw) -> str:
    operation = RMW_NAMES[one.combine]
    value = _value(names, one.value)
    if operation == "sub":  # PTX has none: it adds the negative
        operation, value = "add", f"0u - {value}"
    instruction = f"{_order(one)}.global.{operation}.{_RMW_TYPES.get(operation, 'b32')}"
    if one.register is None:
        return _asm(f"red{instruction} [%0], %1;", [], [_word(one), value])
    inputs = [_word(one), *([_value(names, one.expected)] if one.expected else []), value]
    operands = ", ".join(f"%{number}" for number in range(2, len(inputs) + 1))
    return _asm(f"atom{instruction} %0, [%1], {operands};", [names[one.register]], inputs)


def _asm(instruction: str, outputs: Sequence[str], inputs: Sequence[str]) -> str:
    """The first input, if there is one, is the address. Nothing moves across it."""
    written = ", ".join(f'"=r"({output})' for output in outputs)
    read = ", ".join(f'"{"r" if number else "l"}"({text})' for number, text in enumerate(inputs))
    return f'asm volatile("{instruction}" : {written} : {read} : "memory");'


def _order(one: Access) -> str:
    """Such as ".acquire.sys"; nothing for a weak access, which is what a plain one is."""
    if not one.strong:
        return ""
    if "volatile" in _opcode(one):
        return ".volatile"
    order = {(True, True): "acq_rel", (True, False): "acquire", (False, True): "release"}
    return f".{order.get((one.acquire, one.release), 'relaxed')}.{_SCOPES[one.scope]}"


def _opcode(one: Instruction) -> list[str]:
    return one.text.split()[0].split(".")


def _word(one: Access) -> str:
    return f"words[{one.location}]"


def _value(names: Sequence[str], operand: Operand) -> str:
    return _constant(operand.constant) if operand.register is None else names[operand.register]


def _constant(value: int) -> str:
    return f"{value & 0xFFFFFFFF}u"


def _operands(one: Instruction) -> list[Operand]:
    match one:
        case Store():
            return [one.value]
        case Rmw():
            return [one.value, *([one.expected] if one.expected else [])]
        case Arithmetic() | Branch():
            return [one.left, one.right]
    return []


def _kernel(number: int, gpu: Gpu, test: LitmusTest) -> Iterator[str]:
    variables = len(test.locations)
    pointers = [f"u32 *v{variable}" for variable in range(variables)]
    yield f'extern "C" __global__ void gpu{number}('
    yield "    Watch *watch, u32 *const *starts, u32 *results, u32 first_turn, u32 trials, u32 instances, u32 blocks,"
    yield "    u32 warps, u32 lanes, u32 turns_a_meeting, u32 seed, u32 stride,"
    yield f"    {', '.join(pointers)}) {{"
    yield "    const Trials all{watch, starts, results, first_turn, trials, instances, blocks, warps, lanes,"
    yield "                     turns_a_meeting, seed, stride};"
    yield f"    u32* const words[] = {{{', '.join(f'v{variable}' for variable in range(variables))}}};"
    yield "    const Part part = part_of_thread(all);"
    yield "    if (!part.takes_part) return;"
    for block, threads in enumerate(gpu.blocks):
        for warp, thread in enumerate(threads):
            role = block * gpu.warps + warp
            yield (
                f"    if (part.role == {role}) take_turns<P{thread}, {len(test.threads)}>(all, part.instance, words);"
            )
    yield "}"
