"""Loads, stores and what orders them, form by form: instructions/memory.txt and synchronisation.txt on any machine."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from pcietool.emulator.ops import SCOPES
from pcietool.emulator.translate.accesses import CACHE_HINTS, SEMANTICS, SPACES, VECTORS
from pcietool.emulator.translate.isa import expand
from pcietool.errors import EmulationError, PtxError
from pcietool.machines.base import Buffer, Machine
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program, run, run_ptx
from tests.emulator.translate.instruction_cases import CONSTRAINTS, FOLDER, HEAD, Case, read_cases, register_type

PLACES = {
    "global": ("u64* own = output + 16;", "own", "l"),
    "shared": ("__shared__ __align__(16) u64 own[2];", "(u32)__cvta_generic_to_shared(own)", "r"),
}
LOAD = """
extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{
    {place}
    {registers};
    own[0] = input[0];
    own[1] = input[1];
    __threadfence();
    asm volatile("{form} {target}, [%{count}];" : {outputs} : "{letter}"({address}) : "memory");
    {results}
}}
"""
STORE = """
extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{
    {place}
    own[0] = own[1] = ~0ull;
    __threadfence();
    asm volatile("{form} [%{count}], {target};" :: {inputs}, "{letter}"({address}) : "memory");
    __threadfence();
    output[0] = own[0];
    output[1] = own[1];
}}
"""
LOCAL_LOAD = """
extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{
    {registers};
    asm volatile("{{ .local .align 16 .b64 own[2]; st.local.u64 [own], %{count}; st.local.u64 [own+8], %{after};"
                 " {form} {target}, [own]; }}" : {outputs} : "l"(input[0]), "l"(input[1]) : "memory");
    {results}
}}
"""
LOCAL_STORE = """
extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{
    asm volatile("{{ .local .align 16 .b64 own[2]; st.local.u64 [own], -1; st.local.u64 [own+8], -1;"
                 " {form} [own], {target}; ld.local.u64 %0, [own]; ld.local.u64 %1, [own+8]; }}"
                 : "=l"(output[0]), "=l"(output[1]) : {inputs} : "memory");
}}
"""


def kernel_of(name: str, form: str) -> str:
    """A kernel that loads from two words made of input[0..1], or stores input[0..] to them; results in output."""
    opcode, *modifiers = form.split(".")
    count = next((VECTORS[m] for m in modifiers if m in VECTORS), 1)
    ctype, letter = CONSTRAINTS[register_type(modifiers[-1])]
    loads, local = opcode == "ld", "local" in modifiers
    first = 2 if local and not loads else 0
    names = [f"%{first + n}" for n in range(count)]
    place, address, address_letter = PLACES["shared" if "shared" in modifiers else "global"]
    template = {(True, False): LOAD, (False, False): STORE, (True, True): LOCAL_LOAD, (False, True): LOCAL_STORE}
    return template[loads, local].format(
        name=name,
        form=form,
        place=place,
        address=address,
        letter=address_letter,
        count=count,
        after=count + 1,
        target=names[0] if count == 1 else f"{{{', '.join(names)}}}",
        registers=f"{ctype} {', '.join(f'r{n}' for n in range(count))}",
        outputs=", ".join(f'"={letter}"(r{n})' for n in range(count)),
        results=" ".join(f"output[{n}] = r{n};" for n in range(count)),
        inputs=", ".join(f'"{letter}"(({ctype})input[{n}])' for n in range(count)),
    )


def wrong_results(machine: Machine, buffers: list[Buffer], cases: Sequence[Case], text_name: str) -> Iterator[str]:
    text = HEAD + "".join(kernel_of(f"f{n}", case.form) for n, case in enumerate(cases))
    program = machine.load_text(text_name, text)
    for number, case in enumerate(cases):
        buffers[0].write(np.array(case.operands, np.uint64))
        run(machine, program.kernel(f"f{number}"), buffers, 1)
        seen = tuple(f"{int(value):x}" for value in buffers[1].read(np.uint64, len(case.results)))
        if seen != case.results:
            yield f"{case.form} {case.operands}: {seen} instead of {case.results}"


@pytest.mark.parametrize("opcode", ["ld", "st"])
def test_loads_and_stores(machine: Machine, buffers: list[Buffer], opcode: str) -> None:
    cases = [case for case in read_cases("memory") if case.form.startswith(opcode)]
    wrong = list(wrong_results(machine, buffers, cases, f"{opcode}.cu"))
    assert not wrong, "\n".join(wrong)


def test_another_value_is_noticed(machine: Machine, buffers: list[Buffer]) -> None:
    """Negative control."""
    case = next(case for case in read_cases("memory") if case.form == "ld.global.u32")
    other = type(case)(case.form, (case.operands[0] ^ 1, 0), case.results)
    assert list(wrong_results(machine, buffers, [other], "memory_control.cu"))


def test_every_modifier_of_memory_has_its_cases() -> None:
    forms = {case.form for case in read_cases("memory")} | {case.form for case in read_cases("read_modify_write")}
    modifiers = {modifier for form in forms for modifier in form.split(".")}
    hardly_different = {
        "shared::cta",
        "shared::cluster",  # test_clusters
        "const",
        "cluster",
        "acq_rel",
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L2::64B",
        "L2::cache_hint",  # test_a_cache_policy_changes_no_result
        "v8",  # test_accesses_of_32_bytes
    }
    known = SPACES | SEMANTICS | SCOPES.keys() | CACHE_HINTS | VECTORS.keys()
    assert known - modifiers <= hardly_different, "a new modifier comes with cases in instructions/memory.txt"


SYNCHRONISATION = """
extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{
    __shared__ volatile u32 words[64];
    words[threadIdx.x] = 1000 + threadIdx.x;
    asm volatile("{instruction};" ::: "memory");
    output[threadIdx.x] = words[threadIdx.x {other}];
}}
"""


def test_what_orders_and_waits(machine: Machine, buffers: list[Buffer]) -> None:
    lines = [line for line in (FOLDER / "synchronisation.txt").read_text().splitlines() if line[:1] not in ("", "#")]
    cases = [(i, others.strip() == "1") for line in lines for row, others in [line.split("->")] for i in expand(row)]
    text = HEAD + "".join(
        SYNCHRONISATION.format(name=f"f{n}", instruction=instruction.strip(), other="^ 63" if others else "")
        for n, (instruction, others) in enumerate(cases)
    )
    program = machine.load_text("synchronisation.cu", text)
    for number, (instruction, others) in enumerate(cases):
        run(machine, program.kernel(f"f{number}"), buffers, 64)
        seen = buffers[1].read(np.uint64, 64).tolist()
        assert seen == [1000 + (thread ^ 63 if others else thread) for thread in range(64)], instruction


LOCAL_ARRAYS = """
extern "C" __global__ void arrays(Watch*, const u64* input, u64* output) {
    u32 own[16];
    for (int i = 0; i < 16; ++i) own[i] = (u32)input[i] + threadIdx.x;
    output[threadIdx.x] = own[input[threadIdx.x % 16] % 16];
}
"""


def test_each_thread_has_its_own_local_memory(machine: Machine, buffers: list[Buffer]) -> None:
    program = machine.load_text("local.cu", HEAD + LOCAL_ARRAYS)
    values = np.arange(16, dtype=np.uint64) * 7 + 3
    buffers[0].write(values)
    run(machine, program.kernel("arrays"), buffers, 64)
    wanted = [int(values[int(values[t % 16]) % 16]) + t for t in range(64)]
    assert buffers[1].read(np.uint64, 64).tolist() == wanted


CONSTANTS = """
__constant__ u64 before = 7;
__constant__ unsigned char bytes[8] = {1, 2, 3, 0x80, 5, 6, 7, 0xff};
__constant__ u32 table[64] = {0x12345678, 0x80000000, 3};
__constant__ u64 empty[2];
extern "C" __global__ void constants(Watch*, const u64* input, u64* output) {
    output[threadIdx.x] = table[input[threadIdx.x]];
    output[64 + threadIdx.x] = bytes[input[threadIdx.x] % 8];
    output[128 + threadIdx.x] = (signed char)bytes[input[threadIdx.x] % 8] + before + empty[input[threadIdx.x] % 2];
}
"""


def test_constants_hold_their_initial_values(machine: Machine, buffers: list[Buffer]) -> None:
    program = machine.load_text("constants.cu", HEAD + CONSTANTS)
    indices = np.arange(8, dtype=np.uint64)
    buffers[0].write(indices)
    run(machine, program.kernel("constants"), buffers, 8)
    seen = buffers[1].read(np.uint64, 136)
    assert seen[:8].tolist() == [0x12345678, 0x80000000, 3, 0, 0, 0, 0, 0]
    assert seen[64:72].tolist() == [1, 2, 3, 0x80, 5, 6, 7, 0xFF]
    assert seen[128:].view(np.int64).tolist() == [8, 9, 10, 7 - 128, 12, 13, 14, 6]


PREFETCH = """
extern "C" __global__ void prefetch(Watch*, const u64* input, u64* output) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(input));
    asm volatile("prefetch.global.L2 [%0+64];" ::"l"(input));
    output[0] = input[0];
}
"""


def test_a_prefetch_changes_nothing(machine: Machine, buffers: list[Buffer]) -> None:
    buffers[0].write(np.array([5], np.uint64))
    run(machine, machine.load_text("prefetch.cu", HEAD + PREFETCH).kernel("prefetch"), buffers, 1)
    assert buffers[1].read(np.uint64, 1)[0] == 5


def test_accesses_of_32_bytes(emulated: EmulatedMachine) -> None:
    """sm_100 has them; the register of the address may be among those that are loaded."""
    copied = tuple(range(1, 9))
    eight = "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}"
    whole = f"ld.global.v8.b32 {eight}, [%a]; st.global.v8.b32 [%b], {eight};"
    assert run_ptx(emulated, f"{whole} ret;", copied, 8).tolist() == list(copied)
    halves = "ld.global.v4.b64 {%a, %rd1, %rd2, %rd3}, [%a]; st.relaxed.sys.global.v4.b64 [%b], {%a, %rd1, %rd2, %rd3};"
    assert run_ptx(emulated, f"{halves} ret;", copied, 8).tolist() == list(copied)
    strong = halves.replace("ld.", "ld.relaxed.gpu.")
    assert run_ptx(emulated, f"{strong} ret;", copied, 8).tolist() == list(copied)


def test_an_access_of_32_bytes_is_aligned_to_them(emulated: EmulatedMachine) -> None:
    with pytest.raises(EmulationError, match="misaligned 32 byte access to global memory at offset 16"):
        run_ptx(emulated, "ld.global.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%a+16]; ret;", (0,) * 12)


def test_a_vector_may_be_added_to(emulated: EmulatedMachine) -> None:
    """Each element is a sum of its own; what is given may be what is returned into."""
    one, two, three = 0x3F800000, 0x40000000, 0x40400000
    body = """ld.global.v2.u32 {%r1, %r2}, [%a];
        atom.global.add.v2.f32 {%r1, %r2}, [%b], {%r1, %r2};
        red.relaxed.gpu.global.add.v2.f32 [%b], {%r3, %r4};
        st.global.v2.u32 [%b+8], {%r1, %r2}; ret;"""
    head = f"mov.u32 %r3, {one}; mov.u32 %r4, {two}; st.global.v2.u32 [%b], {{%r4, %r3}};"
    seen = run_ptx(emulated, head + body, (one, two), 4).tolist()
    assert seen == [0x40800000, 0x40A00000, two, one], "2 + 1 + 1 and 1 + 2 + 2; then what was there"
    with pytest.raises(EmulationError, match="misaligned 8 byte access to global memory at offset 4"):
        run_ptx(emulated, f"red.global.add.v2.f32 [%b+4], {{{three}, 0}}; ret;", outputs=4)


def test_volatile_local_variables(machine: Machine, buffers: list[Buffer]) -> None:
    text = (
        HEAD
        + """
extern "C" __global__ void own(Watch*, const u64* input, u64* output) {
    volatile u32 values[4] = {1, 2, 3, 4};
    values[input[threadIdx.x]] += 10;
    output[threadIdx.x] = values[0] + 100 * values[1] + 10000 * values[2] + 1000000 * values[3];
}
"""
    )
    buffers[0].write(np.arange(4, dtype=np.uint64))
    run(machine, machine.load_text("volatile.cu", text).kernel("own"), buffers, 4)
    assert buffers[1].read(np.uint64, 4).tolist() == [4030211, 4031201, 4130201, 14030201]


SHARED = ".shared .align 16 .b8 space[40]; .local .align 16 .b8 own[24];"
OUTSIDE = {
    "ld.shared.u32 %r1, [space+40];": "4 byte access at offset 40 of shared memory, 4 bytes beyond its end at 40",
    "st.shared.u8 [space+50], 1;": "1 byte access at offset 50 of shared memory, 11 bytes beyond its end at 40",
    "ld.shared.v2.u64 {%rd1, %rd2}, [space+32];": "16 byte access at offset 32 of shared memory, 8 bytes beyond",
    "atom.shared.add.u64 %rd1, [space+48], 1;": "8 byte access at offset 48 of shared memory, 16 bytes beyond its end",
    "st.local.u32 [own+28], 1;": "4 byte access at offset 28 of local memory, 8 bytes beyond its end at 24",
    "ld.shared.u32 %r1, [space-4];": "4 byte access 4 bytes before the start of shared memory",
    "ld.global.u32 %r1, [%b+8];": "4 byte access at offset 8 of an allocation of its own GPU, 8 bytes beyond",
    "st.volatile.global.u8 [%b+4], 1;": "1 byte access at offset 4 of 'outputs' (GPU 0), which is only 4 bytes long",
    "ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a+8];": "misaligned 16 byte access at offset 8 of 'inputs'",
    "ld.volatile.global.v2.u32 {%r1, %r2}, [%a+28];": "misaligned 8 byte access at offset 28 of 'inputs'",
    "ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a+32];": "16 byte access at offset 32 of 'inputs'",
    "ld.shared.u32 %r1, [space+2];": "misaligned 4 byte access to shared memory at offset 2",
}


@pytest.mark.parametrize("access", OUTSIDE)
def test_an_access_outside_is_an_error(emulated: EmulatedMachine, access: str) -> None:
    """It names the thread, the line, which memory, and how far."""
    with pytest.raises(EmulationError) as error:
        run_ptx(emulated, f"mov.u32 %r1, 0;\n{access}\nret;", (0,) * 8, registers=SHARED)
    message = str(error.value)
    assert OUTSIDE[access] in message
    assert "GPU 0 block 0 thread 0, kernel k" in message
    assert access.rstrip(";") in message


@pytest.mark.parametrize(
    "access",
    [
        "ld.shared.u64 %rd1, [space+32];",
        "st.local.v2.u32 [own+16], {%r1, %r1};",
        "st.volatile.global.u8 [%b+3], 1;",
        "ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a+16];",
    ],
)
def test_the_last_bytes_are_inside(emulated: EmulatedMachine, access: str) -> None:
    run_ptx(emulated, f"mov.u32 %r1, 0; {access} ret;", (0,) * 8, registers=SHARED)


def test_an_mbarrier_counts_several_arrivals_at_once(emulated: EmulatedMachine) -> None:
    body = """mbarrier.init.shared.b64 [space], 3;
        mbarrier.arrive.shared::cta.b64 %rd1, [space], 2;
        mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [space], %rd1;
        mbarrier.arrive.release.cta.shared::cta.b64 _, [space];
        mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [space], 0, 1000;
        selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 1, 0, %p2;
        st.global.v2.u32 [%b], {%r1, %r2}; ret;"""
    assert run_ptx(emulated, body, outputs=2, registers=SHARED).tolist() == [0, 1]


@pytest.mark.parametrize(
    "instruction", ["ld.global.v4.b64 {%rd1, %rd2, %rd3, %rd4}", "atom.global.add.v2.f32 {%r1, %r2}"]
)
def test_what_asks_several_times_is_not_explored(instruction: str) -> None:
    """But it runs in random order."""
    values = ", {%r1, %r2}" * instruction.startswith("atom")
    program = ptx_program(f"mov.u32 %r1, 0; mov.u32 %r2, 0; {instruction}, [%a]{values}; ret;", "random")
    with pytest.raises(PtxError, match=" here in "):
        program.explored("k")


@pytest.mark.parametrize(
    ("offset", "width", "beyond"),
    [(16, 64, 0), (24, 64, 8), (20, 32, 0), (24, 32, 4), (22, 16, 0), (23, 8, 0), (24, 8, 1)],
)
def test_a_generic_access_ends_where_shared_memory_does(
    emulated: EmulatedMachine, offset: int, width: int, beyond: int
) -> None:
    """Of 24 bytes, by an address that says only at run time where it leads."""
    register = "%rd3" if width == 64 else "%r3"
    body = f"mov.u64 %rd1, own; cvta.shared.u64 %rd2, %rd1; st.u{width} [%rd2+{offset}], {register}; ret;"
    shared = ".shared .align 16 .b8 own[24];"
    if not beyond:
        run_ptx(emulated, body, registers=shared)
        return
    with pytest.raises(
        EmulationError, match=f"at offset {offset} of shared memory, {beyond} bytes beyond its end at 24"
    ):
        run_ptx(emulated, body, registers=shared)


@pytest.mark.parametrize("nbytes", [4, 12])
def test_an_access_before_shared_memory_says_how_far(nbytes: int) -> None:
    body = f"mov.u32 %r1, own; st.shared.u32 [%r1+-{nbytes}], %r3; ret;"
    with (
        EmulatedMachine.open("h200-nvlink2", order="random") as machine,
        pytest.raises(EmulationError, match=f"4 byte access {nbytes} bytes before the start of shared memory"),
    ):
        run_ptx(machine, body, registers=".shared .align 16 .b8 own[24];")
