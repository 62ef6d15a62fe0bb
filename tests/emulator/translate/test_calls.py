"""Calls in kernels: printf keeps what it prints, assert ends the kernel where it stands, functions run in place."""

import pytest

from pcietool.check import Kernel, World
from pcietool.emulator.translate.calls import _is_only_passed
from pcietool.errors import PtxError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.machines.emulated.program import EmulatedProgram
from pcietool.ptx.parser import parse
from tests.check.checking import checked, kernel, one, word
from tests.emulator.emulated_programs import ptx_kernel

ASSERTING = """
    if (a[0] == limit) __assertfail("a", "k.cu", 3, "k", 1);
    a[0] = 7;
"""


def runs(w: World) -> None:
    a = w.one("a", "u4", 2)
    w.launch([a, LIMIT], block=2)
    w.expect(a, [7, 0])


LIMIT = 5


def test_a_kernel_prints_and_goes_on() -> None:
    printing = 'if (threadIdx.x == 0) { printf("a %d %f\\n", a[0], 1.5); a[0] = 7; }'
    result = checked(one(kernel(printing, "u32* a, u32 limit"), runs))
    assert word(result) == "PASS"
    printed = {run.partition(",")[0]: lines for run, lines in result.details["printed"].items()}
    assert printed == {"timing order": ["GPU 0 block 0 thread 0: a 0 1.500000"]}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (r'printf("plain\n")', "plain"),
        (r'printf("%d %u %x", -1, -1, 255)', "-1 4294967295 ff"),
        (r'printf("%d %lld %d", 1, -5ll, 2)', "1 -5 2"),
        (r'printf("%llx|%5.2f|%-6s|%c|100%%", 1ull << 40, 1.5f, "ab", 65)', "10000000000| 1.50|ab    |A|100%"),
        (r'printf("%*d %.*f %e %g", 5, 42, 1, 2.25, 0.5, 1e10)', "   42 2.2 5.000000e-01 1e+10"),
        (r'printf("%05d %+d %#x", 42, 7, 255)', "00042 +7 0xff"),
        (r'printf(a[0] ? "one %d" : "other %d", 3)', "other 3"),
    ],
)
def test_what_is_printed(call: str, text: str) -> None:
    result = checked(one(kernel(f"{call}; a[0] = 7;", "u32* a, u32 limit"), once), engine="timing", quick=True)
    (lines,) = result.details["printed"].values()
    assert lines == [f"GPU 0 block 0 thread 0: {text}"]


def test_what_was_printed_before_a_crash_is_kept() -> None:
    body = 'printf("so far"); __trap();'
    result = checked(one(kernel(body, "u32* a, u32 limit"), once), engine="timing", quick=True)
    assert word(result) == "CRASH"
    assert list(result.details["printed"].values()) == [["GPU 0 block 0 thread 0: so far"]]


def once(w: World) -> None:
    a = w.one("a", "u4", 2)
    w.launch([a, LIMIT])
    w.expect(a, [7, 0])


FUNCTIONS = """#include "slots.cuh"
struct Pair { int a, b; };
struct Bytes { signed char few[5]; };
__noinline__ __device__ int twice(int x, u32* p) {
    if (x > 5) return 2 * x + (int)*p;
    return x;
}
__noinline__ __device__ Pair both(Pair p, int k) {
    int t[4];
    for (int i = 0; i < 4; ++i) t[i] = p.a * i + k;
    return Pair{t[p.b & 3], twice(p.a, nullptr)};
}
__noinline__ __device__ long long last(Bytes b, float f) { return b.few[4] + (long long)f; }
__noinline__ __device__ void wait(u32* flag) { while (load_acquire_sys(flag) != 1) {} }
__noinline__ __device__ int again(int n) { return n ? again(n - 1) * 3 + n : 1; }
extern "C" __global__ void calls(u32* a, u32* flag, int* out, u32 rank) {
    if (rank) { a[1] = 5; store_release_sys(flag, 1); return; }
    wait(flag);
    const int v = twice(a[1], a);
    const Pair q = both(Pair{v, 3}, twice(v + 2, a));
    out[0] = v; out[1] = q.a; out[2] = q.b;
    out[3] = last(Bytes{{1, 2, 3, 4, (signed char)-a[1]}}, 2.5f);
    if (a[0] == 11) printf("%d", twice(v, a));
}
extern "C" __global__ void recursive(int* out, int n) { *out = again(n); }
"""


def test_functions_that_are_not_inlined_run_in_place() -> None:
    """In all orders: with branches, structs, local arrays, calls of each other, bytes with a sign, and wait loops."""
    calls = Kernel("k.cu", "calls", text=FUNCTIONS)

    def call(w: World) -> None:
        a, flag = w.one("a", "u4", 2, [11, 0], rank=0), w.one("flag", "u4", rank=0)
        out = w.one("out", "i4", 4)
        w.launch(lambda r: [a, flag, out, r])
        w.expect(out, [5, 5 * 3 + 2 * 7 + 11, 5, -5 + 2])

    result = checked(one(calls, call, ranks=2))
    assert word(result) == "PASS"
    assert "every execution" in result.verdict
    (lines,) = result.details["printed"].values()
    assert lines == ["GPU 0 block 0 thread 0: 5"]
    needed = {(entry["at"], entry["change"]): entry["is"] for entry in result.details["orderings"]}
    assert [is_ for (_, change), is_ in needed.items() if change == "acquire -> relaxed"] == ["needed"]


@pytest.mark.parametrize("call", ["call.uni f;", "call.uni f, (%r1, %r2);"])
def test_a_call_that_is_not_as_declared_is_said(call: str) -> None:
    text = ptx_kernel(f".reg .b32 %s; {call} ret;").replace(".visible", ".func f(.param .b32 x) { ret; }\n.visible")
    with pytest.raises(PtxError, match=r"f takes 1 and returns 0, which 'call.uni f.*' does not \(kernel k, PTX line"):
        EmulatedProgram("test.ptx", {}, text)


def test_a_function_that_calls_itself_is_refused() -> None:
    what = Kernel("k.cu", "recursive", text=FUNCTIONS)

    def call(w: World) -> None:
        out = w.one("out", "i4")
        w.launch([out, 3])
        w.expect(out, 1)

    result = checked(one(what, call), engine="timing", quick=True)
    assert word(result) == "NOT PROVED"
    assert any("call themselves" in line and "write it as a loop" in line for line in result.details["not_covered"])


def test_an_assertion_that_fails_is_a_crash_with_its_line() -> None:
    def fails(w: World) -> None:
        a = w.one("a", "u4", 2)
        w.launch([a, 0])
        w.expect(a, [7, 0])

    result = checked(one(kernel(ASSERTING, "u32* a, u32 limit"), fails))
    assert word(result) == "CRASH"
    assert "an assertion failed" in result.verdict
    assert "k.cu:4" in result.verdict

    def holds(w: World) -> None:
        a = w.one("a", "u4", 2)
        w.launch([a, 9])
        w.expect(a, [7, 0])

    assert word(checked(one(kernel(ASSERTING, "u32* a, u32 limit"), holds))) == "PASS"


def test_atomic_ref_through_a_table_of_pointers() -> None:
    """Of a pointer that comes out of memory, the headers ask whether it is one of local memory."""
    text = """#include <cuda/atomic>
struct Table { unsigned* of[2]; };
using Word = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;
extern "C" __global__ void k(Table flags, unsigned* out, unsigned rank) {
    __shared__ unsigned near;
    near = 0;
    Word(*flags.of[1 - rank]).store(1, cuda::memory_order_release);
    while (Word(*flags.of[rank]).load(cuda::memory_order_acquire) != 1) {}
    unsigned* words[2] = {out, &near};
    out[0] = __isGlobal(words[0]) + 2 * __isShared(words[threadIdx.x]) + 4 * __isShared(words[threadIdx.x + 1]);
}
"""

    def meets(w: World) -> None:
        flags, out = w.each("flags", "u4"), w.each("out", "u4")
        w.launch(lambda r: [w.struct(flags), out[r], r])
        w.expect(out, 1 + 4)

    assert word(checked(one(Kernel("k.cu", "k", text=text), meets, ranks=2))) == "PASS"


def test_a_generic_address_of_local_memory_that_goes_elsewhere_is_unknown(emulated: EmulatedMachine) -> None:
    text = """
extern "C" __device__ __noinline__ void fill(unsigned* a) { a[0] = 1; a[1] = 2; }
extern "C" __global__ void k(unsigned* out) { unsigned a[2]; fill(a); out[0] = a[0] + a[1]; }
"""
    with pytest.raises(PtxError, match="a generic address of local memory"):
        emulated.load_text("calls.cu", text)


LOCAL = ".local .align 8 .b8 own[16]; mov.u64 %rd1, own; cvta.local.u64 %rd2, %rd1;"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("add.u64 %rd3, %rd2, 8; mov.u64 %rd4, %rd3; st.param.b64 [x], %rd4; ret;", True),
        ("ret;", True),
        ("ld.u32 %r1, [%rd2]; ret;", False),
        ("add.u64 %rd3, %rd2, 8; ld.u32 %r1, [%rd3]; ret;", False),
        ("mov.u64 %rd3, %rd2; st.u32 [%rd3], 1; ret;", False),
        ("st.global.u64 [%b], %rd2; ret;", False),
        ("mul.lo.u64 %rd3, %rd2, 2; ret;", False),
    ],
)
def test_a_generic_address_of_local_memory_may_only_be_passed_on(text: str, known: bool) -> None:
    body = f"{LOCAL} {text}" if "param" not in text else f"{LOCAL} .param .b64 x; {text}"
    function = parse(ptx_kernel(body)).entries["k"]
    assert _is_only_passed(function, "%rd2", set()) is known
