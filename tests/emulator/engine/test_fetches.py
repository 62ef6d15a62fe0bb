"""cp.async: what it moves, that only a wait makes it visible, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pcietool.check import Scenario, World
from pcietool.emulator.engine.variants import OrderName
from pcietool.errors import EmulationError
from pcietool.machines.base import HOST, Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.check.checking import checked, kernel, one, word
from tests.emulator.emulated_programs import ptx_program

SHARED = ".shared .align 128 .b8 space[64];\n.shared .align 8 .b64 bar;"
PLACES = {"own": on_device(0), "peer": on_device(1), "host": HOST}
OLD = 7


def fetched(machine: EmulatedMachine, body: str, place: str = "own") -> list[int]:
    """16 words of shared memory, each OLD, after `body`, which fetches from %a: 100, 101, ..."""
    source, result = machine.alloc(PLACES[place], 64, "source"), machine.alloc(on_device(0), 64, "result")
    source.write(np.arange(100, 116, dtype=np.uint32))
    fill = "".join(f"st.shared.u32 [space+{at}], {OLD};\n" for at in range(0, 64, 4))
    read = "".join(f"ld.shared.u32 %r9, [space+{at}]; st.global.u32 [%b+{at}], %r9;\n" for at in range(0, 64, 4))
    program = ptx_program(f"{fill}{body}\n{read}ret;", machine.order, registers=SHARED)
    assert machine.run([Launch(0, program.kernel("k"), 1, 1, (source, result))], 0.01).finished
    words: list[int] = result.read(np.uint32).tolist()
    return words


ALL = "cp.async.wait_all;"


@pytest.mark.parametrize("order", ["timing", "random"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("copy", "words"),
    [
        ("cp.async.ca.shared.global [space], [%a], 4;", [100, OLD, OLD, OLD]),
        ("cp.async.ca.shared::cta.global.L2::128B [space+8], [%a+8], 8;", [OLD, OLD, 102, 103]),
        ("cp.async.cg.shared.global [space], [%a+16], 16;", [104, 105, 106, 107]),
        ("cp.async.cg.shared.global [space], [%a], 16, 8;", [100, 101, 0, 0]),
        ("mov.u32 %r1, 4; cp.async.ca.shared.global [space], [%a], 16, %r1;", [100, 0, 0, 0]),
        ("cp.async.ca.shared.global [space], [%a], 16, 0;", [0, 0, 0, 0]),
        ("setp.eq.u32 %p1, 0, 0; cp.async.ca.shared.global [space], [%a], 8, %p1;", [0, 0, OLD, OLD]),
        ("setp.ne.u32 %p1, 0, 0; cp.async.ca.shared.global [space], [%a], 8, %p1;", [100, 101, OLD, OLD]),
    ],
)
def test_bytes_and_zeros_arrive(order: OrderName, place: str, copy: str, words: list[int]) -> None:
    with EmulatedMachine.open("pcie5-switch4", order=order) as machine:
        assert fetched(machine, f"{copy} {ALL}", place) == [*words, *[OLD] * 12]
        assert not machine.engine.order.unordered()


TWO = """cp.async.ca.shared.global [space], [%a], 4; cp.async.commit_group;
    cp.async.ca.shared.global [space+4], [%b], 4; cp.async.commit_group;"""


@pytest.mark.parametrize(
    ("wait", "words"), [("wait_group 0", [100, 0]), ("wait_group 1", [100, OLD]), ("wait_all", [100, 0])]
)
def test_groups_are_done_in_their_order(emulated: EmulatedMachine, wait: str, words: list[int]) -> None:
    """The first group comes from the peer's memory, the second, from this GPU's own, sooner; and yet a wait for one is
    a wait for the first."""
    source, result = emulated.alloc(on_device(0), 64, "source"), emulated.alloc(on_device(1), 64, "result")
    source.write(np.full(16, 100, np.uint32))
    body = f"""st.shared.u32 [space], {OLD}; st.shared.u32 [space+4], {OLD};
        {TWO} cp.async.{wait}; ld.shared.u32 %r1, [space]; ld.shared.u32 %r2, [space+4];
        st.global.u32 [%b+8], %r1; st.global.u32 [%b+12], %r2; cp.async.wait_all; ret;"""
    launch = Launch(0, ptx_program(body, registers=SHARED).kernel("k"), 1, 1, (source, result))
    assert emulated.run([launch], 0.01).finished
    assert result.read(np.uint32).tolist()[2:4] == words


def test_without_a_wait_the_bytes_are_not_there(emulated: EmulatedMachine) -> None:
    assert fetched(emulated, "cp.async.ca.shared.global [space], [%a], 4;")[0] == OLD
    assert fetched(emulated, "cp.async.ca.shared.global [space], [%a], 4; cp.async.wait_group 0;")[0] == OLD


@pytest.mark.parametrize(("form", "count"), [("noinc.", 1), ("", 1)])
def test_an_mbarrier_is_arrived_when_the_bytes_are_there(emulated: EmulatedMachine, form: str, count: int) -> None:
    """Without .noinc the arrival is one more than the barrier was made for: its own is needed, too."""
    own = "" if form else "mbarrier.arrive.shared.b64 %rd5, [bar];"
    body = f"""mbarrier.init.shared.b64 [bar], {count}; cp.async.ca.shared.global [space], [%a], 4;
        cp.async.mbarrier.arrive.{form}shared.b64 [bar]; {own}
        WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT;"""
    assert fetched(emulated, body, "peer")[0] == 100


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ("cp.async.ca.shared.global [space+4], [%a], 8;", "multiples of 8"),
        ("cp.async.ca.shared.global [space], [%a+4], 16;", "multiples of 16"),
        ("mov.u32 %r1, 9; cp.async.ca.shared.global [space], [%a], 8, %r1;", "no longer"),
        ("cp.async.ca.shared.global [space+256], [%a], 16;", "of 72 bytes shared memory"),
    ],
)
def test_what_it_must_not(emulated: EmulatedMachine, copy: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        fetched(emulated, f"{copy} {ALL}")


COPY = """
    __shared__ __align__(16) u32 space[32];
    const u32 to = static_cast<u32>(__cvta_generic_to_shared(space + threadIdx.x));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(a + threadIdx.x) : "memory");
    WAIT
    out[threadIdx.x] = space[WHICH];
"""
WAIT_ALL = 'asm volatile("cp.async.wait_all;" ::: "memory");'


def copying(wait: str, which: str = "threadIdx.x ^ 1") -> Scenario:
    def copies(w: World) -> None:
        a, out = w.one("a", "u4", 32, np.arange(32) + 1), w.one("out", "u4", 32)
        w.launch([a, out])
        w.expect(out, (np.arange(32) ^ (1 if "1" in which else 0)) + 1)

    return one(kernel(COPY.replace("WAIT", wait).replace("WHICH", which), "u32* a, u32* out"), copies, block=32)


def test_others_need_the_wait_and_a_barrier() -> None:
    right = checked(copying(f"{WAIT_ALL} __syncthreads();"), engine="timing,random", quick=True)
    assert word(right) == "NOT PROVED"  # not explored
    assert not right.details["findings"]
    for wait in ("__syncthreads();", WAIT_ALL, ""):
        result = checked(copying(wait), engine="timing,random", quick=True)
        assert word(result) in ("WRONG DATA", "RACE"), wait


def test_who_copies_needs_the_wait_alone() -> None:
    assert not checked(copying(WAIT_ALL, "threadIdx.x"), engine="timing,random", quick=True).details["findings"]
    result = checked(copying("", "threadIdx.x"), engine="random", quick=True)
    races = [step["does"] for one in result.details["findings"] for step in one["witness"] if one["kind"] == "RACE"]
    assert any("cp.async.wait_group, or wait_all between the two" in does for does in races)
