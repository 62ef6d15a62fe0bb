"""printf and assert in kernels: the one is left out, the other ends the kernel where it stands."""

import pytest

from pcietool.check import World
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


def test_a_generic_address_of_local_memory_that_goes_elsewhere_is_unknown(emulated: EmulatedMachine) -> None:
    text = """
extern "C" __device__ __noinline__ void fill(unsigned* a) { a[0] = 1; a[1] = 2; }
extern "C" __global__ void k(unsigned* out) { unsigned a[2]; fill(a); out[0] = a[0] + a[1]; }
"""
    with pytest.raises(PtxError, match="function fill"):
        emulated.load_text("calls.cu", text)
