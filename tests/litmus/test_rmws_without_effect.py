"""RMWs that change nothing: polls end, and where atomics are not native they write back what they read."""

import pytest

from pcietool.litmus.describe import interleaving
from tests.litmus.litmus_texts import ALONE, BLOCKS, answered, columns, explored

POLLS = ["add r0, x, 0", "or r0, x, 0", "max r0, x, 0", "cas r0, x, 7, 7", "and r0, x, -1"]


@pytest.mark.parametrize("poll", POLLS)
@pytest.mark.parametrize("order", ["relaxed", "acquire", "acq_rel"])
def test_a_poll_with_an_rmw_has_a_handful_of_states(poll: str, order: str) -> None:
    body = columns("st.weak y, 1\nst.release.sys x, 1", f"L: atom.{order}.sys.{poll}\nbne r0, 1, L\nld.weak r1, y")
    found = explored(body, "exists (P1:r1 = 0)")
    assert found.complete
    assert found.states <= 12
    assert found.hung == 0
    assert bool(found.sought) is (order == "relaxed")


def test_two_who_spin_for_one_lock_come_to_an_end() -> None:
    spinning = "L: atom.acq_rel.gpu.exch r0, x, 1\nbne r0, 0, L\nst.release.gpu x, 0"
    found = explored(columns(spinning, spinning, spinning), "exists (x != 0)", places=f"{BLOCKS} | P2@cta 2,gpu 0")
    assert (found.complete, found.hung, found.sought) == (True, 0, [])
    assert found.states < 1_000


def test_a_poll_of_two_words_comes_to_an_end() -> None:
    poll = "L: atom.acquire.sys.add r0, x, 0\nbne r0, 1, L\natom.acquire.sys.add r1, y, 0\nbne r1, 1, L"
    found = explored(
        columns("st.release.sys x, 1\nst.release.sys y, 1", poll, poll),
        places="P0@cta 0,gpu 0 | P1@cta 0,gpu 1 | P2@cta 0,gpu 2",
    )
    assert (found.complete, found.hung) == (True, 0)


# -- homes without native atomics -------------------------------------------------------------------------------------

WITHOUT_EFFECT = [
    "cas r0, x, 7, 8",
    "add r0, x, 0",
    "min r0, x, 9",
    "max r0, x, 0",
    "and r0, x, 5",
    "or r0, x, 1",
    "xor r0, x, 0",
]


@pytest.mark.parametrize("rmw", WITHOUT_EFFECT)
def test_it_undoes_a_store_where_atomics_are_not_native(rmw: str) -> None:
    operation = rmw.split()[0]
    body = columns("st.relaxed.sys x, 5", f"atom.relaxed.sys.{rmw}")
    for initial in ("x=1 without native atomics;", f"x=1 without native {operation};"):
        undone = answered(body, "exists (x = 1)", initial)
        assert (undone.verdict, undone.decision) == ("allowed", None)
    for initial in ("x=1;", "x=1 without native exch;"):
        assert answered(body, "exists (x = 1)", initial).verdict == "forbidden"


def test_a_refused_compare_and_swap_that_writes_back_says_so() -> None:
    body = columns("st.relaxed.sys x, 5", "atom.relaxed.sys.cas r0, x, 7, 8")
    found = explored(body, "exists (x = 1)", "x=1 without native atomics;")
    (line,) = (line for line in interleaving(found.model, found.execution(found.sought[0])) if line.startswith("P1"))
    assert line.endswith("(refused, and writes back what it read over the 5 of P0)")


def test_of_one_gpu_rmws_are_whole_even_there() -> None:
    body = columns("st.relaxed.gpu x, 5", "atom.relaxed.gpu.cas r0, x, 7, 8")
    assert answered(body, "exists (x = 1)", "x=1 without native atomics;", BLOCKS).verdict == "forbidden"


def test_a_wait_that_polls_with_compare_and_swap_can_lose_what_it_waits_for() -> None:
    """The signal of a put is undone by the poll that looks for it."""
    body = columns("st.release.sys x, 1", "L: atom.acquire.sys.cas r0, x, 1, 0\nbne r0, 1, L")
    assert explored(body, "exists (P1:r0 = 1)", "x=0 without native atomics;").hung > 0
    assert explored(body, "exists (P1:r0 = 1)").hung == 0
    loads = body.replace("atom.acquire.sys.cas r0, x, 1, 0", "ld.acquire.sys r0, x")
    assert explored(loads, "exists (P1:r0 = 1)", "x=0 without native atomics;").hung == 0


@pytest.mark.parametrize("operation", ["add", "sub", "min", "and", "xor", "exch", "inc"])
def test_two_read_the_same_only_where_atomics_are_not_native(operation: str) -> None:
    body = columns(f"atom.relaxed.sys.{operation} r0, x, 3", f"atom.relaxed.sys.{operation} r1, x, 5")
    question = "exists (P0:r0 = 14 /\\ P1:r1 = 14)"
    assert answered(body, question, f"x=14 without native {operation};").verdict == "allowed"
    assert answered(body, question, "x=14;").verdict == "forbidden"


@pytest.mark.parametrize(
    ("instruction", "first", "left"),
    [
        ("atom.min r0, x, -2", 1, -2),
        ("atom.min.u32 r0, x, -2", 1, 1),
        ("atom.max.u32 r0, x, -2", 1, -2),
        ("atom.max r0, x, -2", 1, 1),
        ("atom.inc r0, x, 5", 5, 0),
        ("atom.inc r0, x, 5", 4, 5),
        ("atom.inc r0, x, -1", 2147483647, -2147483648),
        ("atom.dec r0, x, 5", 0, 5),
        ("atom.dec r0, x, 5", 6, 5),
        ("atom.dec r0, x, 5", 3, 2),
        ("atom.add r0, x, 1", 2147483647, -2147483648),
        ("atom.xor r0, x, -1", 5, -6),
    ],
)
def test_what_atomics_compute(instruction: str, first: int, left: int) -> None:
    found = explored(f"{instruction} ;", "exists (P0:r0 = 0 /\\ x = 0)", f"x={first};", ALONE)
    assert set(found.outcomes) == {(first, left)}
