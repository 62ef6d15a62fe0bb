"""Everything NVRTC makes of the kernels, and of sources that look for trouble, is read completely."""

import pytest

from pcietool.compiler import compile_source
from pcietool.data import kernel_source
from pcietool.ptx.model import Instruction, SourceLine
from pcietool.ptx.parser import parse

ARCHITECTURES = ["sm_80", "sm_90", "sm_100", "sm_120"]

TROUBLE = r"""
struct Six { int a[6]; };
__constant__ int table[4] = {1, 2, 3, -4};
__device__ float floats[3] = {1.5f, 2.5f, -0.25f};
extern "C" __device__ __noinline__ int helper(int a, float b) {
    int r;
    asm volatile("{ .reg .pred p; .reg .b32 t; setp.gt.s32 p, %1, 0; @p add.s32 t, %1, 1; @!p mov.b32 t, 7;"
                 " mov.b32 %0, t; }" : "=r"(r) : "r"(a));
    return r + (int)b;
}
extern "C" __global__ void __launch_bounds__(128, 2) k(Six s, int* o, double d, short h) {
    extern __shared__ __align__(16) float dynamic[];
    __shared__ double own;
    int local[16];
    for (int i = 0; i < 16; i++) local[i] = o[i];
    own = d;
    __syncthreads();
    dynamic[threadIdx.x] = own * 1.5 + 2.5f + floats[threadIdx.x % 3];
    switch (h) {
        case 0: o[0] = 1; break;
        case 1: o[1] = local[s.a[1] & 15]; break;
        case 2: o[2] = helper(o[3], d); break;
        case 3: o[5] = __popc(o[1]); break;
        case 4: atomicAdd(o + 8, 3); break;
        case 5:
            asm volatile("{ .reg .b64 s; cvta.to.global.u64 s, %0; W: st.global.u32 [s+4], 0x7U; }" ::"l"(o));
            break;
        default: o[3] = table[h & 3];
    }
    unsigned x, up;
    asm volatile("{.reg .pred q; shfl.sync.up.b32 %0|q, %2, 1, 0, -1; selp.u32 %1, 1, 0, q;}"
                 : "=r"(x), "=r"(up) : "r"(o[0]));
    asm volatile("{\n .reg .pred P;\nAGAIN:\n ld.acquire.sys.global.u32 %0, [%1+-8];\n setp.ne.u32 P, %0, 0;\n"
                 " @!P bra AGAIN;\n}" : "=r"(x) : "l"(o) : "memory");
    int4 v = ((int4*)o)[4];
    v.x += x + up;
    ((int4*)o)[5] = v;
    printf("hi %d", o[3]);
}
"""


def instructions_of(ptx: str) -> list[Instruction]:
    functions = parse(ptx).functions.values()
    return [i for function in functions for block in function.blocks for i in block.instructions]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("order", range(4))
def test_barrier(architecture: str, order: int) -> None:
    source = kernel_source("barrier.cu")
    compiled = compile_source(source, name="barrier.cu", architecture=architecture, defines={"ORDER": order})
    module = parse(compiled.ptx)
    assert module.target == architecture
    kernel = module.entries["barrier_rounds"]
    assert [(parameter.type, parameter.bytes) for parameter in kernel.parameters[:3]] == [
        ("u64", 8),
        ("b8", 32),
        ("u32", 4),
    ]
    assert kernel.variables["buffered_stamps"].offset >= kernel.shared_bytes
    polls = [i for i in instructions_of(compiled.ptx) if i.opcode == "ld" and i.has("acquire", "volatile", "relaxed")]
    assert polls
    lines = {"slots.cuh": kernel_source("slots.cuh").splitlines(), "barrier.cu": source.splitlines()}
    for poll in polls:  # each is traced to a CUDA line that says so
        assert isinstance(poll.source, SourceLine)
        line = lines[poll.source.file][poll.source.line - 1]
        assert any(word in line for word in ("asm", "volatile", "load")), (poll.text, line)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_atomics(architecture: str) -> None:
    compiled = compile_source(kernel_source("atomics.cu"), name="atomics.cu", architecture=architecture, defines={})
    assert parse(compiled.ptx).target == architecture


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_trouble(architecture: str) -> None:
    compiled = compile_source(TROUBLE, name="trouble.cu", architecture=architecture, defines={})
    module = parse(compiled.ptx)
    kernel = module.functions["k"]
    assert [(p.type, p.offset, p.bytes) for p in kernel.parameters] == [
        ("b8", 0, 24), ("u64", 24, 8), ("f64", 32, 8), ("u16", 40, 2),
    ]  # fmt: skip
    assert kernel.directives["maxntid"][0] == 128
    assert module.variables["table"].initial == b"\1\0\0\0\2\0\0\0\3\0\0\0\xfc\xff\xff\xff"
    assert (kernel.shared_bytes, kernel.variables["dynamic"].offset) == (8, 16)
    assert any(variable.space == "local" and variable.bytes >= 64 for variable in kernel.variables.values())
    assert {"call", "shfl", "bra", "ret"} <= {instruction.opcode for instruction in instructions_of(compiled.ptx)}
    declared = {*kernel.registers, *module.functions["helper"].registers, "_"}
    named = {i.guard.register.name for i in instructions_of(compiled.ptx) if i.guard}
    assert named <= declared
