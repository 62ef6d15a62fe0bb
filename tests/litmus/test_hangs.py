"""Executions that never end: each with its fixed twin, in which every execution can still end."""

from dataclasses import dataclass

import pytest

from pcietool.litmus.describe import interleaving
from tests.litmus.litmus_texts import BLOCKS, GPUS, columns, explored


@dataclass(frozen=True)
class Pair:
    """The text of the fault, and what stands there instead once it is fixed."""

    name: str
    threads: tuple[str, ...]
    fault: str
    fix: str
    places: str = GPUS
    initial: str = "x=0; y=0;"

    def body(self, text: str) -> str:
        return columns(*(thread.replace("FAULT", text) for thread in self.threads))


def barrier_twice(count: str) -> str:
    """Two barriers on one growing count."""
    return f"""atom.acq_rel.gpu.add r0, x, 1
        L1: ld.acquire.gpu r1, x
        {count} r1, 2, L1
        atom.acq_rel.gpu.add r0, x, 1
        L2: ld.acquire.gpu r1, x
        {count} r1, 4, L2"""


def mailbox(mine: str, theirs: str) -> str:
    """Three epochs over three buffers; the data is its own flag; FAULT clears one for a later epoch."""
    return f"""st.relaxed.sys {theirs}0, 1
        L0: ld.acquire.sys r0, {mine}0
        beq r0, 0, L0
        st.relaxed.sys {mine}FAULT, 0
        st.release.sys {theirs}1, 2
        L1: ld.acquire.sys r1, {mine}1
        beq r1, 0, L1
        st.release.sys {theirs}2, 3
        L2: ld.acquire.sys r2, {mine}2
        beq r2, 0, L2"""


TICKETS = """atom.relaxed.gpu.add r0, x, FAULT
        L: ld.acquire.gpu r1, y
        bne r1, r0, L
        add r1, r1, 1
        st.release.gpu y, r1"""


def locked(lock: str) -> str:
    return f"""L: {lock} r0, x, 1
        bne r0, 0, L
        ld.weak r1, y
        add r1, r1, 1
        st.weak y, r1
        FAULT"""


PAIRS = [
    Pair("equality on a growing count", (barrier_twice("FAULT"), barrier_twice("FAULT")), "bne", "blt", BLOCKS),
    Pair(
        "a value that is gone",
        ("L: ld.acquire.sys r0, x\nFAULT r0, 1, L", "st.release.sys x, 1\nst.release.sys x, 2"),
        "bne",
        "blt",
    ),
    Pair(
        "clears what is filled already",
        (mailbox("m", "n"), mailbox("n", "m")),
        "1",
        "0",
        initial="m0=0; m1=0; m2=0; n0=0; n1=0; n2=0;",
    ),
    Pair(
        "a lock that is never given back",
        (locked("atom.acquire.gpu.exch"), locked("atom.acquire.gpu.exch")),
        "",
        "st.release.gpu x, 0",
        BLOCKS,
    ),
    Pair(
        "both wait first",
        (
            "FAULT\nL: ld.acquire.sys r0, y\nbne r0, 1, L\nst.release.sys x, 1",
            "L: ld.acquire.sys r0, x\nbne r0, 1, L\nst.release.sys y, 1",
        ),
        "",
        "st.release.sys x, 1",
    ),
    Pair("round for ever", ("FAULT", "st.weak x, 1"), "L: goto L", "goto L\nL: add r0, 1, 1"),
    Pair(
        "a ticket too many",
        (TICKETS, TICKETS),
        "2",
        "1",
        BLOCKS,
    ),
    Pair(
        "a barrier that one passes by",
        ("bar.cta.sync 0, 1, 2", "FAULT"),
        "",
        "bar.cta.sync 0, 1, 2",
        "P0@cta 0,gpu 0 | P1@cta 0,gpu 0",
    ),
    Pair(
        "counts in a scope that is too narrow",
        ("atom.relaxed.FAULT.add r0, x, 1\nL: ld.relaxed.gpu r1, x\nblt r1, 2, L",) * 2,
        "cta",
        "gpu",
        BLOCKS,
    ),
    Pair(
        "stores a heartbeat until nobody answers",
        (
            "L: st.relaxed.sys x, 1\nld.relaxed.sys r0, y\nbne r0, 1, L",
            "L: ld.relaxed.sys r0, x\nbne r0, 1, L\nst.relaxed.sys y, FAULT",
        ),
        "2",
        "1",
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_fault_hangs_and_its_fix_does_not(pair: Pair) -> None:
    broken = explored(
        pair.body(pair.fault),
        "exists (P0:r0 = 0)" if "r0" in pair.threads[0] else "exists (x = 0)",
        pair.initial,
        pair.places,
    )
    assert broken.complete
    assert broken.hung > 0
    assert broken.hang is not None
    fixed = explored(
        pair.body(pair.fix), "exists (x = 0)" if "x" in pair.initial else "exists (m0 = 0)", pair.initial, pair.places
    )
    assert (fixed.complete, fixed.hung, fixed.hang) == (True, 0, None)
    assert fixed.outcomes


def test_the_execution_says_who_looks_for_what_that_never_comes() -> None:
    found = explored(PAIRS[1].body("bne"), "exists (P0:r0 = 1)")
    assert found.sought
    assert found.hang is not None
    assert interleaving(found.model, found.hang) == [
        "P1: st.release.sys x, 1",
        "P1: st.release.sys x, 2",
        "P0: ld.acquire.sys r0, x -> 2 (stored by P1)",
        "P0: looks for ever: ld.acquire.sys r0, x -> 2",
    ]


def test_a_hang_that_others_go_on_beside_is_shown_where_nobody_can_do_anything_new() -> None:
    body = columns("L: ld.relaxed.sys r0, x\nbne r0, 1, L", "st.relaxed.sys y, 1\nst.relaxed.sys y, 2")
    found = explored(body, "exists (y = 2)")
    assert found.hang is not None
    lines = interleaving(found.model, found.hang)
    assert lines[-1] == "P0: looks for ever: ld.relaxed.sys r0, x -> 0"
    assert "P1: st.relaxed.sys y, 2" in lines
