"""Who is passed the Watch: kernels that declare it, on both machines."""

import numpy as np
import pytest

from pcietool import data
from pcietool.errors import CompileError, UsageError
from pcietool.machines.base import Launch, Machine, on_device
from pcietool.machines.watch_parameter import takes_watch

SOURCE = r"""
#include "slots.cuh"
// __global__ void plain(Watch* watch) is not what is compiled
extern "C" __global__ void __launch_bounds__(32, 1) plain(u32* a, u32* b) { a[0] = 1; b[0] = 2; }
extern "C" __global__ void watched(Watch* watch, u32* a, u32* b) { a[0] = 1; b[0] = watch->gave_up + 2; }
extern "C" __global__ void alone() {}
"""


@pytest.mark.parametrize("name", ["plain", "watched"])
def test_the_watch_is_passed_where_it_is_declared(machine: Machine, name: str) -> None:
    kernel = machine.load_text("watches.cu", SOURCE).kernel(name)
    a, b = (machine.alloc(on_device(0), 4, which) for which in "ab")
    assert kernel.takes_watch == (name == "watched")
    assert machine.run([Launch(0, kernel, 1, 1, (a, b))], 1.0).finished
    assert [int(one.read(np.uint32)[0]) for one in (a, b)] == [1, 2]
    said = "the Watch and 2" if name == "watched" else "no Watch, and 2"
    with pytest.raises(UsageError, match=rf"{name} takes {said} arguments \(.*\), not 1"):
        machine.run([Launch(0, kernel, 1, 1, (b,))], 1.0)
    a.free()
    b.free()


def test_a_kernel_without_parameters(machine: Machine) -> None:
    kernel = machine.load_text("watches.cu", SOURCE).kernel("alone")
    assert machine.run([Launch(0, kernel, 1, 1, ())], 1.0).finished


@pytest.mark.parametrize(
    ("parameters", "taken"),
    [
        ("Watch *w, int n", True),
        ("struct Watch* watch", True),
        ("void*, unsigned* out", True),
        ("void* watch, int n", True),
        ("void* data", False),
        ("Watches* all", False),
        ("const unsigned* Watch", False),
        ("", False),
    ],
)
def test_declarations(parameters: str, taken: bool) -> None:
    assert takes_watch("k", [f'extern "C" __global__ void k({parameters}) {{}}']) == taken


def test_macros_that_declare_kernels() -> None:
    assert takes_watch("k", ["#define ALL Watch* watch, int n\n__global__ void k(ALL) {}"])
    assert not takes_watch("k", ["#define ALL int n, Watch* watch\n__global__ void k(ALL) {}"])
    assert takes_watch("k", ["#define ONE(name) \\\n  __global__ void name(Watch*, int n) {}\nONE(k)"])


@pytest.mark.parametrize("text", ["KERNEL(k)", "__global__ void a(Watch*) {} __global__ void b(int) {} KERNEL(k)"])
def test_what_cannot_be_seen_is_an_error(text: str) -> None:
    with pytest.raises(CompileError, match="kernel k: "):
        takes_watch("k", [text])


def test_packaged_kernels_take_it() -> None:
    for source, name in (("barrier.cu", "barrier_rounds"), ("signal.cu", "ping_pong"), ("atomics.cu", "red_add")):
        assert takes_watch(name, [data.kernel_source(source)])
