"""What the order of accesses does not hold for: bulk copies, and loads through the non-coherent path."""

import pytest

from pcietool.litmus.describe import interleaving
from tests.litmus.litmus_texts import ALONE, answered, columns, explored

COPY = "cp.async.bulk [y], [x]\ncp.async.bulk.commit_group\ncp.async.bulk.wait_group 0"
FLAG = "L: ld.acquire.sys r1, z\nbne r1, 1, L"


@pytest.mark.parametrize("read", ["ld.weak r0, y", "ld.acquire.sys r0, y", "atom.relaxed.sys.add r0, y, 0"])
@pytest.mark.parametrize("between", ["", "fence.acq_rel.sys", "fence.sc.sys", f"{FLAG}"])
def test_a_copy_may_overtake_a_read_of_what_it_overwrites(read: str, between: str) -> None:
    question, initial = "exists (P0:r0 = 2)", "x=2; y=1; z=1;"
    lines = [read, *filter(None, [between]), COPY]
    overtaken = answered(columns("\n".join(lines)), question, initial, ALONE)
    assert overtaken.verdict == "allowed"
    assert "reads that a bulk copy overtakes" in overtaken.gaps
    for fenced in (
        [*lines[:-1], "fence.proxy.async", COPY],
        [COPY.replace("y", "w").replace("x", "v"), *lines[1:], read],
    ):
        if fenced[-1] == read:  # the read comes behind the copy, and sees it
            continue
        assert answered(columns("\n".join(fenced)), question, initial, ALONE).verdict == "forbidden"


def test_a_copy_of_what_nothing_else_names_copies_zeros() -> None:
    assert set(explored(columns(f"{COPY}\nld r0, y"), "exists (P0:r0 = 0)", "y=1;", ALONE).outcomes) == {(0,)}


def test_a_proxy_fence_before_the_read_is_no_help() -> None:
    body = columns(f"fence.proxy.async\nld.weak r0, y\n{COPY}")
    assert answered(body, "exists (P0:r0 = 2)", "x=2; y=1;", ALONE).verdict == "allowed"


def test_the_acknowledgement_of_a_reader_needs_the_proxy_fence_too() -> None:
    """A buffer that another thread has read is filled again."""
    reader = "ld.weak r0, y\nst.release.sys z, 1"
    question = "exists (P1:r0 = 2)"
    for fence, verdict in (("", "allowed"), ("fence.proxy.async\n", "forbidden")):
        writer = f"ld.acquire.sys r1, z\nbne r1, 1, OUT\n{fence}{COPY}\nOUT: add r2, 0, 0"
        assert answered(columns(writer, reader), question, "x=2; y=1; z=0;").verdict == verdict


@pytest.mark.parametrize(("read", "verdict"), [("ld.nc r1, x", "allowed"), ("ld.weak r1, x", "forbidden")])
def test_what_is_written_meanwhile_is_not_to_be_read_through_nc(read: str, verdict: str) -> None:
    body = columns("st.weak x, 1\nst.release.sys y, 1", f"L: ld.acquire.sys r0, y\nbne r0, 1, L\n{read}")
    assert answered(body, "exists (P1:r1 = 0)").verdict == verdict


def test_an_execution_says_that_nc_is_why() -> None:
    body = columns("st.weak x, 1\nld.nc r0, x")
    found = explored(body, "exists (P0:r0 = 0)", places=ALONE)
    assert interleaving(found.model, found.execution(found.sought[0]))[-1] == (
        "P0: ld.nc r0, x -> 0 (initial value, though a later store exists; ld.nc is ordered by nothing)"
    )


def test_nc_reads_nothing_else_from_memory_that_nobody_writes() -> None:
    assert answered(columns("ld.nc r0, x", "st.weak y, 1"), "exists (P0:r0 != 7)", "x=7;").verdict == "forbidden"
