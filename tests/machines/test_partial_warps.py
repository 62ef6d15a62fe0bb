"""A block whose last warp is not full, at a barrier with a count: a guess until it was seen on a GPU. In a file of its
own, because a GPU on which it is wrong hangs."""

import numpy as np

from pcietool.machines.base import Launch, Machine, on_device

SOURCE = r"""
extern "C" __global__ void k(void* watch, unsigned* out) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = 1;
}
"""


def test_forty_threads_are_two_warps_at_a_barrier(machine: Machine) -> None:
    """Guess: hardware counts warps, so the 24 lanes that there are not arrive with the others."""
    out = machine.alloc(on_device(0), 4 * 64, "out")
    kernel = machine.load_text("partial_warp.cu", SOURCE).kernel("k")
    assert machine.run([Launch(0, kernel, 1, 40, (out,))], 1.0).finished
    assert out.read(np.uint32).sum() == 40
    out.free()
