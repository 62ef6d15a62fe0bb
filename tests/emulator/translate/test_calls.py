"""printf and assert in kernels: the one is left out, the other ends the kernel where it stands."""

import pytest

from pcietool.check import Kernel, World
from pcietool.errors import PtxError
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.check.checking import checked, kernel, one, word

ASSERTING = """
    if (a[0] == limit) __assertfail("a", "k.cu", 3, "k", 1);
    a[0] = 7;
"""


def runs(w: World) -> None:
    a = w.one("a", "u4", 2)
    w.launch([a, LIMIT], block=2)
    w.expect(a, [7, 0])


LIMIT = 5


def test_a_kernel_prints_nothing_and_goes_on() -> None:
    printing = 'if (threadIdx.x == 0) { printf("a %d %f\\n", a[0], 1.5); a[0] = 7; }'
    assert word(checked(one(kernel(printing, "u32* a, u32 limit"), runs))) == "PASS"


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
    with pytest.raises(PtxError, match="function fill"):
        emulated.load_text("calls.cu", text)
