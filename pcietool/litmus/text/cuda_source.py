"""A litmus test as CUDA C++: every instruction of the test becomes the one PTX instruction that it stands for.

What runs the threads again and again is kernels/litmus.cuh. Must not know machines, nor what an outcome means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pcietool.litmus.text.operations import ARITHMETIC, BRANCHES
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

MOST_WARPS = 32
"""Of one block."""

_SCOPES = {Scope.CTA: "cta", Scope.GPU: "gpu", Scope.SYS: "sys"}
_SYMBOLS = {ARITHMETIC["add"]: "+", ARITHMETIC["sub"]: "-", ARITHMETIC["mul"]: "*", ARITHMETIC["div"]: "/"}
_COMPARISONS = {
    BRANCHES["beq"]: "==", BRANCHES["bne"]: "!=", BRANCHES["blt"]: "<",
    BRANCHES["bgt"]: ">", BRANCHES["ble"]: "<=", BRANCHES["bge"]: ">=",
}  # fmt: skip


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


def result_rows(test: LitmusTest) -> list[dict[Item, tuple[int, ...]]]:
    """By GPU, the registers that the question or `locations` name, each with the rows of the GPU's results that hold
    it: one, or two for the halves of a wide one, the low one first."""
    places: list[dict[Item, tuple[int, ...]]] = []
    for gpu in gpus_of(test):
        threads = {index for block in gpu.blocks for index in block}
        rows: dict[Item, tuple[int, ...]] = {}
        free = 0
        for item in test.question.items:
            if item.thread in threads:
                words = test.threads[item.thread].bits(item.number) // 32
                rows[item] = tuple(range(free, free + words))
                free += words
        places.append(rows)
    return places


def has_loop(test: LitmusTest) -> bool:
    """Whether some thread can jump back."""
    return any(
        isinstance(one, Branch) and one.target <= at for thread in test.threads for at, one in enumerate(thread.code)
    )


def inexpressible(test: LitmusTest) -> str | None:
    """Why no kernel can stand for this test, or None."""
    code = [one for thread in test.threads for one in thread.code]
    if any(isinstance(one, Barrier) for one in code):
        return "has a block barrier, which may block; runs on the model only"
    if any(isinstance(one, Copy) for one in code):
        return "has bulk copies, whose sources are shared memory; runs on the model only"
    if test.not_native:
        return "says where atomics are not native, which on a machine its links decide; runs on the model only"
    if any(isinstance(one, Rmw) and one.register is None and one.operation in ("exch", "cas") for one in code):
        return "has a red.exch or red.cas, which PTX does not have"
    if not test.locations:
        return "has no memory"
    if max(gpu.warps for gpu in gpus_of(test)) > MOST_WARPS:
        return f"has a block of more than {MOST_WARPS} threads"
    return None


def cuda_source(test: LitmusTest) -> str:
    """One kernel a GPU, gpu0, gpu1, ..., for a test that is not `inexpressible`. Each takes the fields of Trials
    (kernels/litmus.cuh) and then one pointer a variable."""
    registers = {item: rows for of_gpu in result_rows(test) for item, rows in of_gpu.items()}
    lines = ['#include "litmus.cuh"', ""]
    for index, thread in enumerate(test.threads):
        stored = {item.number: rows for item, rows in registers.items() if item.thread == index}
        lines += [*_thread(index, thread, len(test.locations), stored), ""]
    for number, gpu in enumerate(gpus_of(test)):
        lines += _kernel(number, gpu, test)
    return "\n".join(lines) + "\n"


def _thread(index: int, thread: LitmusThread, variables: int, stored: dict[int, tuple[int, ...]]) -> Iterator[str]:
    """`stored`: the rows of the results in which a register ends."""
    yield f"struct P{index} {{"
    yield f"    static constexpr u32 NUMBER = {index};"
    yield (
        f"    static __device__ __forceinline__ bool run(u32* const (&words)[{variables}], u32* results, u32 trials,"
        " const Deadline& deadline) {"
    )
    for number, (name, value) in enumerate(zip(thread.registers, thread.initial, strict=True)):
        bits = thread.bits(number)
        yield f"        [[maybe_unused]] u{bits} {name} = {_constant(value, bits)};"
    if any(isinstance(one, Branch) and one.target <= at for at, one in enumerate(thread.code)):
        yield "        u32 jumps = 0;"
    targets = {one.target for one in thread.code if isinstance(one, Branch)}
    for at, one in enumerate(thread.code):
        if at in targets:
            yield f"    at{at}:"
        yield f"        {_statement(index, thread, at, one)}  // {one.text}"
    if len(thread.code) in targets:
        yield f"    at{len(thread.code)}:"
    for register, rows in stored.items():
        for half, row in enumerate(rows):
            name = thread.registers[register]
            yield f"        results[{row} * trials] = static_cast<u32>({f'{name} >> 32' if half else name});"
    yield "        return true;"
    yield "    }"
    yield "};"


def _statement(index: int, thread: LitmusThread, at: int, one: Instruction) -> str:
    match one:
        case Load():
            order = _order(one) if one.coherent else ""
            nc = "" if one.coherent else ".nc"
            targets = [thread.registers[register] for register in one.registers]
            text = f"ld{order}.global{nc}{_type(one)} {_operands(len(targets))}, {_address(one, len(targets))};"
            return _asm(text, one, targets, [])
        case Store():
            values = [_value(thread, value, 8 * one.part.size) for value in one.values]
            text = f"st{_order(one)}.global{_type(one)} {_address(one, 0)}, {_operands(len(values), 1)};"
            return _asm(text, one, [], values)
        case Rmw():
            return _rmw(thread, one)
        case Fence():
            is_membar = _opcode(one)[0] == "membar"
            kind = ".sc" if one.sequential else ".acq_rel"
            fence = one.text.strip() if is_membar else f"fence{kind}.{_SCOPES[one.scope]}"
            return f'asm volatile("{fence};" ::: "memory");'
        case Arithmetic():
            return _arithmetic(thread, one)
        case Branch():
            condition = f"{_signed(thread, one.left)} {_COMPARISONS[one.compare]} {_signed(thread, one.right)}"
            if one.target > at:
                return f"if ({condition}) goto at{one.target};"
            guard = f"if (too_late(deadline, {index}, ++jumps)) return false;"
            return f"if ({condition}) {{ {guard} goto at{one.target}; }}"
    raise AssertionError(f"{one.text} is inexpressible")


def _arithmetic(thread: LitmusThread, one: Arithmetic) -> str:
    left, right = _signed(thread, one.left), _signed(thread, one.right)
    symbol = _SYMBOLS[one.combine]
    if symbol == "/":
        return f"{thread.registers[one.register]} = {left} / {right};"
    unsigned = f"static_cast<u{thread.bits(one.register)}>"  # which wraps
    return f"{thread.registers[one.register]} = {unsigned}({left}) {symbol} {unsigned}({right});"


def _rmw(thread: LitmusThread, one: Rmw) -> str:
    operation, bits = one.operation, 8 * one.part.size
    value = _value(thread, one.value, bits)
    if operation == "sub":  # PTX has none: it adds the negative
        operation, value = "add", f"0u - {value}"
    kind = {"add": "u", "inc": "u", "dec": "u", "min": "u", "max": "u"}.get(operation, "b")
    if operation in ("min", "max") and one.part.signed:
        kind = "s"
    instruction = f"{_order(one)}.global.{operation}.{kind}{bits}"
    if one.register is None:
        return _asm(f"red{instruction} {_address(one, 0)}, %1;", one, [], [value])
    inputs = [*([_value(thread, one.expected, bits)] if one.expected else []), value]
    operands = ", ".join(f"%{number}" for number in range(2, len(inputs) + 2))
    return _asm(f"atom{instruction} %0, {_address(one, 1)}, {operands};", one, [thread.registers[one.register]], inputs)


def _asm(instruction: str, one: Access, outputs: Sequence[str], inputs: Sequence[str]) -> str:
    """The address follows the outputs. Nothing moves across it."""
    kind = "l" if one.part.size == 8 else "r"
    written = ", ".join(f'"={kind}"({output})' for output in outputs)
    read = ", ".join([f'"l"(words[{one.location}])', *(f'"{kind}"({text})' for text in inputs)])
    return f'asm volatile("{instruction}" : {written} : {read} : "memory");'


def _operands(count: int, first: int = 0) -> str:
    """Such as %0, or {%0, %1} for a vector."""
    names = ", ".join(f"%{number}" for number in range(first, first + count))
    return names if count == 1 else f"{{{names}}}"


def _address(one: Access, operand: int) -> str:
    return f"[%{operand}+{one.part.offset}]" if one.part.offset else f"[%{operand}]"


def _type(one: Access) -> str:
    """Such as .u32 or .v4.u32."""
    vector = f".v{one.part.scalars}" if one.part.scalars > 1 else ""
    return f"{vector}.{'s' if one.part.signed and isinstance(one, Load) else 'u'}{8 * one.part.size}"


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


def _value(thread: LitmusThread, operand: Operand, bits: int) -> str:
    """As an asm operand of so many bits: those of less than 32 are taken from 32."""
    bits = max(bits, 32)
    if operand.register is None:
        return _constant(operand.constant, bits)
    name = thread.registers[operand.register]
    return name if thread.bits(operand.register) == bits else f"static_cast<u{bits}>({name})"


def _signed(thread: LitmusThread, operand: Operand) -> str:
    bits = 64 if operand.register is None else thread.bits(operand.register)
    return f"static_cast<s{bits}>({_value(thread, operand, bits)})"


def _constant(value: int, bits: int) -> str:
    return f"{value % (1 << bits)}{'ull' if bits == 64 else 'u'}"


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
