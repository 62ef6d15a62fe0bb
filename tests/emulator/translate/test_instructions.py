"""Every instruction the emulator knows, against results from the PTX ISA written down beside the operands.

The same kernels run on real GPUs (marker gpu): there a failing case is a wrong expectation.
"""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from pcietool.emulator.translate import accesses, isa
from pcietool.emulator.translate.instructions import (
    BARRIER_VOTES,
    CONVERTIBLE,
    MATCHES,
    REDUCTIONS,
    SHUFFLES,
    VOTES,
)
from pcietool.machines.base import Buffer, Launch, Machine
from tests.emulator.emulated_programs import run
from tests.emulator.translate.instruction_cases import (
    CONSTRAINTS,
    FORMS_OF_ONE_INSTRUCTION,
    HEAD,
    by_form,
    kernels_of,
    read_cases,
    register_type,
)

DEADLINE_S = 1.0
OTHERWISE_TESTED = {"cvta.shared.u64", "cvta.to.shared.u64", "activemask.b32"}
"""Their results are the machine's business: test_generic_addresses, test_warps."""


@pytest.mark.parametrize("family", FORMS_OF_ONE_INSTRUCTION)
def test_results_are_those_of_the_isa(machine: Machine, buffers: list[Buffer], family: str) -> None:
    forms = by_form(family)
    program = machine.load_text(f"{family}.cu", kernels_of(forms))
    wrong = []
    for number, (form, cases) in enumerate(forms.items()):
        operands = np.zeros((len(cases), 4), np.uint64)
        for row, case in zip(operands, cases, strict=True):
            row[: len(case.operands)] = case.operands
        buffers[0].write(operands)
        run(machine, program.kernel(f"f{number}"), buffers, len(cases))
        for case, seen in zip(cases, buffers[1].read(np.uint64, len(cases)), strict=True):
            if not case.agrees(int(seen)):
                operands_text = " ".join(f"{o:x}" for o in case.operands)
                doubt = "" if case.confirmed else " (?)"
                wrong.append(f"{form} {operands_text} is {case.results[0]}{doubt}, not {int(seen):x}")
    assert not wrong, "\n".join(wrong)


def test_other_operands_give_another_result(machine: Machine, buffers: list[Buffer]) -> None:
    """Negative control: what is compared is what the instruction made of these very operands."""
    case = next(case for case in read_cases("integer") if case.form == "add.u32")
    program = machine.load_text("control.cu", kernels_of({"add.u32": [case]}))
    buffers[0].write(np.array([3, 4, 0, 0], np.uint64))
    run(machine, program.kernel("f0"), buffers, 1)
    seen = int(buffers[1].read(np.uint64, 1)[0])
    assert seen == 7 != int(case.results[0], 16)


def forms_with_cases() -> set[str]:
    return {case.form.removesuffix("|q") for family in FORMS_OF_ONE_INSTRUCTION for case in read_cases(family)}


def rows_without_cases(table: Iterable[str]) -> list[str]:
    return [row for row in table if not forms_with_cases() | OTHERWISE_TESTED >= set(isa.expand(row))]


def test_every_row_of_the_table_has_its_cases() -> None:
    missing = rows_without_cases(isa.ALU)
    assert not missing, f"a new row comes with an instruction test in instructions/: {', '.join(missing)}"
    cvt_of_integers = {f"cvt.{to}.{source}" for to, source in itertools.product(CONVERTIBLE, repeat=2)}
    cvt_of_integers |= {form.replace("cvt", "cvt.sat") for form in cvt_of_integers}
    assert forms_with_cases() <= set(isa.ALU_FORMS) | cvt_of_integers, "cases of forms that no row knows"


def test_every_opcode_that_flushes_has_cases_of_it() -> None:
    flushing = {form.split(".")[0] for form in forms_with_cases() if ".ftz." in form}
    assert flushing == isa.FLUSHING


def test_every_derived_form_is_in_the_table_once() -> None:
    assert {"setp.lt.and.s32", "setp.eq.xor.ftz.f32", "add.rn.ftz.f32", "fma.rn.bf16x2"} <= isa.ALU_FORMS.keys()
    assert {"mov.ftz.f32", "selp.ftz.f32", "add.ftz.f64", "add.ftz.u32", "cvt.ftz.u32.u16"}.isdisjoint(isa.ALU_FORMS)


def test_a_row_without_cases_is_found() -> None:
    """Negative control, down to one form of a row."""
    assert rows_without_cases({"add.{INT}": "", "add.{INT,f8}": "", "frob.{b32}": ""}) == [
        "add.{INT,f8}",
        "frob.{b32}",
    ]


def test_every_other_operation_has_its_cases() -> None:
    rmw = {case.form.split(".", 1)[1] for case in read_cases("read_modify_write")}
    assert {form.split(".")[0] for form in rmw} == set(accesses.RMW)
    assert {f"add.{'noftz.' * ('16' in kind)}{kind}" for kind in accesses.FLOAT_SUMS} <= rmw
    warp = {case.form for case in read_cases("warp")}
    assert warp == {
        *(f"vote.{kind}" for kind in VOTES),
        *(f"shfl.{kind}" for kind in SHUFFLES),
        *(f"match.{kind}" for kind in MATCHES),
        *(f"redux.{form}" for form in REDUCTIONS),
        *(f"bar.red.{kind}" for kind in BARRIER_VOTES),
    }


RMW = """
extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{
    {place}
    {word} old;
    own = ({word})input[0];
    __threadfence();
    asm volatile("atom.{scope}{space}.{kind}.{type} %0, [%1], {atom};"
                 : "={r}"(old) : "{a}"({address}){values} : "memory");
    output[0] = old;
    output[1] = output[2] = own;
    {red}
}}
"""
RED = """
    own = ({word})input[0];
    __threadfence();
    asm volatile("red.{scope}{space}.{kind}.{type} [%0], {red};" :: "{a}"({address}){values} : "memory");
    __threadfence();
    output[2] = own;
"""


def rmw_kernel(name: str, form: str, space: str, operands: int) -> str:
    """Output: what atom returned, the word after atom, the word after red."""
    _, kind, *_, type_ = form.split(".")
    word, register = CONSTRAINTS[register_type(type_)]
    fields = {
        "name": name,
        "kind": kind,
        "type": form.split(".", 2)[2],
        "word": word,
        "r": register,
        "values": "".join(f', "{register}"(({word})input[{n}])' for n in range(1, operands)),
        "atom": ", ".join(f"%{n + 2}" for n in range(operands - 1)),
        "red": ", ".join(f"%{n + 1}" for n in range(operands - 1)),
        "space": space,
    }
    if space == "global":
        fields |= {"place": f"{word}& own = *({word}*)(output + 512);", "address": "&own", "a": "l", "scope": "gpu."}
    else:
        address = "(u32)__cvta_generic_to_shared(&own)"
        fields |= {"place": f"__shared__ {word} own;", "address": address, "a": "r", "scope": ""}
    red = "" if kind in ("exch", "cas") else RED.format_map(fields)  # these only exist with a result
    return RMW.format_map(fields | {"red": red})


@pytest.mark.parametrize(
    ("space", "families"),
    [("global", ("read_modify_write", "read_modify_write_global")), ("shared", ("read_modify_write",))],
)
def test_read_modify_writes(machine: Machine, buffers: list[Buffer], space: str, families: tuple[str, ...]) -> None:
    forms = [(form, cases) for family in families for form, cases in by_form(family).items()]
    kernels = (rmw_kernel(f"f{n}", form, space, len(cases[0].operands)) for n, (form, cases) in enumerate(forms))
    program = machine.load_text(f"{space}.cu", HEAD + "".join(kernels))
    wrong = []
    for number, (form, cases) in enumerate(forms):
        for case in cases:  # one thread each: they have one shared word
            buffers[0].write(np.array(case.operands, np.uint64))
            run(machine, program.kernel(f"f{number}"), buffers, 1)
            seen = tuple(f"{int(value):x}" for value in buffers[1].read(np.uint64, 3))
            returned, after = case.results
            if seen != (returned, after, after):
                doubt = "" if case.confirmed else " (?)"
                wrong.append(f"{form} {case.operands}: {seen} instead of {returned}, {after}, {after}{doubt}")
    assert not wrong, "\n".join(wrong)


CARRY = """
extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{
    const u64* in = input + 4 * threadIdx.x;
    {word} result;
    u32 carry;
    asm volatile("{{ .reg .u32 t; add.cc.u32 t, %{last}, 0xffffffff; {form} %0, {operands}; addc.u32 %1, 0, 0; }}"
                 : "={r}"(result), "=r"(carry) : {inputs});
    output[2 * threadIdx.x] = result;
    output[2 * threadIdx.x + 1] = carry;
}}
"""


def carry_kernel(name: str, form: str, operands: int) -> str:
    """Output: the result, and the flag behind it. The last operand is the flag before."""
    word, register = CONSTRAINTS[register_type(form.split(".")[-1])]
    names = [f"%{n + 2}" for n in range(operands)]
    inputs = [f'"{register}"(({word})in[{n}])' for n in range(operands - 1)] + [f'"r"((u32)in[{operands - 1}])']
    return CARRY.format(
        name=name,
        word=word,
        r=register,
        form=form,
        last=operands + 1,
        operands=", ".join(names[:-1]),
        inputs=", ".join(inputs),
    )


def test_carries(machine: Machine, buffers: list[Buffer]) -> None:
    forms = by_form("carries")
    kernels = (carry_kernel(f"f{n}", form, len(cases[0].operands)) for n, (form, cases) in enumerate(forms.items()))
    program = machine.load_text("carries.cu", HEAD + "".join(kernels))
    wrong = []
    for number, (form, cases) in enumerate(forms.items()):
        operands = np.zeros((len(cases), 4), np.uint64)
        for row, case in zip(operands, cases, strict=True):
            row[: len(case.operands)] = case.operands
        buffers[0].write(operands)
        run(machine, program.kernel(f"f{number}"), buffers, len(cases))
        for case, seen in zip(cases, buffers[1].read(np.uint64, 2 * len(cases)).reshape(-1, 2), strict=True):
            if tuple(f"{int(value):x}" for value in seen) != case.results:
                wrong.append(f"{form} {case.operands}: {seen} instead of {case.results}")
    assert not wrong, "\n".join(wrong)


OWN_RED = r"""
extern "C" __global__ void own_red(Watch*, const u64* input, u64* output) {
    u32* word = (u32*)(output + 16);
    u32 value;
    asm volatile("red.relaxed.gpu.global.add.u32 [%1], 1; ld.global.u32 %0, [%1];"
                 : "=r"(value) : "l"(word) : "memory");
    output[0] = value;
}
"""


def test_a_thread_sees_its_own_red(machine: Machine, buffers: list[Buffer]) -> None:
    buffers[1].fill(0)
    run(machine, machine.load_text("own_red.cu", HEAD + OWN_RED).kernel("own_red"), buffers, 1)
    assert buffers[1].read(np.uint64, 1)[0] == 1


GENERIC = r"""
extern "C" __global__ void generic(Watch*, const u64* input, u64* output) {
    __shared__ u64 word;
    __shared__ u64 other;
    u64 pointer, back, shared = (u64)__cvta_generic_to_shared(&word);
    other = 1;
    asm volatile("cvta.shared.u64 %0, %1;" : "=l"(pointer) : "l"(shared));
    asm volatile("cvta.to.shared.u64 %0, %1;" : "=l"(back) : "l"(pointer));
    asm volatile("st.u64 [%0], %1;" :: "l"(pointer), "l"(input[0]) : "memory");
    u64 generic_value;
    asm volatile("ld.volatile.u64 %0, [%1];" : "=l"(generic_value) : "l"(pointer) : "memory");
    output[0] = word;
    output[1] = generic_value;
    output[2] = back == shared;
    output[3] = other;
}
"""


def test_generic_addresses(machine: Machine, buffers: list[Buffer]) -> None:
    kernel = machine.load_text("generic.cu", HEAD + GENERIC).kernel("generic")
    buffers[0].write(np.array([0x123456789ABCDEF0], np.uint64))
    run(machine, kernel, buffers, 1)
    assert list(buffers[1].read(np.uint64, 4)) == [0x123456789ABCDEF0, 0x123456789ABCDEF0, 1, 1]


PLACES = r"""
extern "C" __global__ void places(Watch*, const u64* input, u64* output) {
    u32 lane, warp;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    warp = threadIdx.x >> 5;
    u64* mine = output + 6 * (blockIdx.x * blockDim.x + threadIdx.x);
    mine[0] = threadIdx.x; mine[1] = blockIdx.x; mine[2] = blockDim.x; mine[3] = gridDim.x; mine[4] = lane;
    mine[5] = threadIdx.y + threadIdx.z + blockIdx.y + blockIdx.z + blockDim.y * blockDim.z * gridDim.y * gridDim.z;
}
"""


def test_threads_know_where_they_are(machine: Machine, buffers: list[Buffer]) -> None:
    kernel = machine.load_text("places.cu", HEAD + PLACES).kernel("places")
    assert machine.run([Launch(0, kernel, 3, 40, tuple(buffers))], DEADLINE_S).finished
    seen = buffers[1].read(np.uint64, 6 * 120).reshape(120, 6).tolist()
    assert seen == [[thread, block, 40, 3, thread % 32, 1] for block in range(3) for thread in range(40)]


CLOCKS = r"""
extern "C" __global__ void clocks(Watch*, const u64* input, u64* output) {
    u64 before, after;
    u32 short_before, short_after;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before)::"memory");
    const u64 began = clock64();
    asm volatile("mov.u32 %0, %%clock;" : "=r"(short_before)::"memory");
    for (int i = 0; i < 100; ++i) __nanosleep(1000);
    asm volatile("mov.u32 %0, %%clock;" : "=r"(short_after)::"memory");
    const u64 ended = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(after)::"memory");
    output[0] = after - before; output[1] = ended - began; output[2] = short_after - short_before;
}
"""


def test_clocks_run_together(machine: Machine, buffers: list[Buffer]) -> None:
    kernel = machine.load_text("clocks.cu", HEAD + CLOCKS).kernel("clocks")
    run(machine, kernel, buffers, 1)
    nanoseconds, cycles, short_cycles = (int(value) for value in buffers[1].read(np.uint64, 3))
    assert 10_000 < nanoseconds < 1_000_000  # 100 sleeps of at most 2 us, with what surrounds them
    assert 0.5 < cycles / nanoseconds < 4  # GHz
    assert abs(cycles - short_cycles) < 1000
