"""Random order by seed decides when threads start and whether they stop; timing order knows nothing of it."""

import numpy as np
import pytest

from pcietool.emulator.engine.variants import OrderName
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program

BLOCKS, THREADS = 3, 96
STAMPS = """mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 96, %r1; mul.wide.u32 %rd1, %r3, 16;
    add.u64 %rd2, %a, %rd1; mov.u64 %rd3, %globaltimer; st.global.u64 [%rd2], %rd3;
    mov.u64 %rd4, %globaltimer; st.global.u64 [%rd2+8], %rd4; ret;"""
DELAYED_NS = 100
"""More than starting, or one store, ever takes without a delay."""


def stamps(seed: int, order: OrderName = "random") -> np.ndarray:
    """When each thread started, and when it went on behind its first store: shape (GPUs, blocks, warps, lanes, 2)."""
    with EmulatedMachine.open("pcie5-switch4", [0, 1], seed, order) as machine:
        kernel = ptx_program(STAMPS, order).kernel("k")
        times = [machine.alloc(on_device(gpu), 16 * BLOCKS * THREADS, "times") for gpu in (0, 1)]
        launches = [Launch(gpu, kernel, BLOCKS, THREADS, (times[gpu], times[gpu])) for gpu in (0, 1)]
        assert machine.run(launches, 0.01).finished
        return np.array([one.read(np.int64).reshape(BLOCKS, -1, 32, 2) for one in times])


@pytest.fixture(scope="module")
def many() -> list[np.ndarray]:
    return [stamps(seed) for seed in range(30)]


def test_gpus_blocks_and_warps_start_late(many: list[np.ndarray]) -> None:
    starts = [times[..., 0].min(axis=3) for times in many]
    firsts = [(start.min(axis=(1, 2)), start.min(axis=2), start) for start in starts]
    assert any(abs(gpus[0] - gpus[1]) > DELAYED_NS for gpus, _, _ in firsts)
    assert any((np.ptp(blocks, axis=1) > DELAYED_NS).any() for _, blocks, _ in firsts)
    assert any((np.ptp(warps, axis=2) > DELAYED_NS).any() for _, _, warps in firsts)


def test_sometimes_all_are_on_time(many: list[np.ndarray]) -> None:
    assert any(np.ptp(times) < DELAYED_NS for times in many)


def test_some_threads_stop_while_their_neighbours_go_on(many: list[np.ndarray]) -> None:
    stopped = [times[..., 1] - times[..., 0] > DELAYED_NS for times in many]
    assert any(some.any() for some in stopped)
    assert not any(some.all() for some in stopped)


def test_the_seed_decides_who_is_late() -> None:
    assert all((stamps(seed) == stamps(seed)).all() for seed in (1, 2))


def test_timing_order_delays_nobody() -> None:
    assert all(np.ptp(stamps(seed, "timing")) < DELAYED_NS for seed in range(5))
