"""Accesses of different sizes to the same bytes, parts of words, and vectors."""

import pytest

from pcietool.errors import ConfigError
from pcietool.litmus.describe import interleaving
from pcietool.litmus.explore import explore
from pcietool.litmus.verdict import answer
from tests.litmus.litmus_texts import ALONE, GPUS, answered, columns, explored, litmus_test

THREE = f"{GPUS} | P2@cta 0,gpu 2"
BIG = (1 << 32) + 1


def test_bytes_of_one_word_can_be_its_flags() -> None:
    poll = "L: ld.relaxed.sys r0, x\nbne r0, 257, L"
    body = columns("st.relaxed.sys.u8 x, 1", "st.relaxed.sys.u8 x+1, 1", poll)
    found = explored(body, "exists (P2:r0 = 257)", places=THREE)
    assert (found.complete, found.hung, set(found.outcomes)) == (True, 0, {(257,)})


def test_a_word_does_not_synchronise_with_its_bytes() -> None:
    """As one that has the same size does."""
    for size, verdict in ((".u8", "allowed"), ("", "forbidden")):
        body = columns(f"st.weak y, 1\nst.release.sys{size} x, 1", "ld.acquire.sys r0, x\nld.weak r1, y")
        assert answered(body, "exists (P1:r0 = 1 /\\ P1:r1 = 0)").verdict == verdict


def test_a_read_of_another_size_may_go_back() -> None:
    for size, verdict in ((".u16", "allowed"), (".u32", "forbidden")):
        body = columns("st.relaxed.sys x, 1", f"ld.relaxed.sys{size} r0, x\nld.relaxed.sys{size} r1, x")
        assert answered(body, "exists (P1:r0 = 1 /\\ P1:r1 = 0)").verdict == verdict


def test_an_aligned_scalar_of_8_bytes_is_whole() -> None:
    body = columns(f"st.weak.u64 x, {BIG}", "ld.weak.u64 r0, x")
    assert set(explored(body, "exists (P1:r0 = 0)").outcomes) == {(0,), (BIG,)}


def test_its_halves_can_be_written_and_read_one_by_one() -> None:
    body = columns(f"st.relaxed.sys.u64 x, {BIG}", "st.relaxed.sys.u32 x+4, 7", "ld.relaxed.sys.u64 r0, x")
    seen = {value for (value,) in explored(body, "exists (P2:r0 = 0)", places=THREE).outcomes}
    assert seen == {0, BIG, 7 << 32, (7 << 32) + 1}
    halves = columns(f"st.relaxed.sys.u64 x, {BIG}", "ld.relaxed.sys r0, x+4\nld.relaxed.sys r1, x")
    assert answered(halves, "exists (P1:r0 = 1 /\\ P1:r1 = 0)").verdict == "allowed"


VECTOR = columns("st.relaxed.sys.v4.u32 x, {1, 2, 3, 4}", "ld.relaxed.sys.v4.u32 {r0, r1, r2, r3}, x")
TORN = (
    "exists (~(P1:r0 = 0 /\\ P1:r1 = 0 /\\ P1:r2 = 0 /\\ P1:r3 = 0)"
    " /\\ ~(P1:r0 = 1 /\\ P1:r1 = 2 /\\ P1:r2 = 3 /\\ P1:r3 = 4))"
)


def test_a_vector_is_whole_unless_it_is_taken_by_the_letter() -> None:
    test = litmus_test(VECTOR, TORN)
    assert answer(explore(test)).verdict == "forbidden"
    torn = explore(test, tear=True)
    assert len(torn.outcomes) == 16
    assert answer(torn).verdict == "allowed"


def test_data_that_carries_its_flag_needs_the_vector_to_be_whole() -> None:
    """A slot of data and flag, of which the flag alone is looked at."""
    body = columns("st.relaxed.sys.v2.u32 x, {5, 1}", "L: ld.relaxed.sys.v2.u32 {r0, r1}, x\nbne r1, 1, L")
    test = litmus_test(body, "exists (P1:r0 = 0)")
    assert answer(explore(test)).verdict == "forbidden"
    assert answer(explore(test, tear=True)).verdict == "allowed"


def test_the_scalars_of_a_vector_synchronise_like_any_other() -> None:
    body = columns("st.weak y, 1\nst.release.sys.v2.u32 x, {5, 1}", "ld.acquire.sys.u32 r0, x+4\nld.weak r1, y")
    assert answered(body, "exists (P1:r0 = 1 /\\ P1:r1 = 0)").verdict == "forbidden"


@pytest.mark.parametrize(
    ("load", "value"),
    [("u8", 254), ("s8", -2), ("u16", 65534), ("s16", -2), ("u32", -2), ("b32", -2)],
)
def test_a_narrow_load_fills_its_register(load: str, value: int) -> None:
    found = explored(columns(f"ld.{load} r0, x"), "exists (P0:r0 = 0)", "x=-2;", ALONE)
    assert set(found.outcomes) == {(value,)}


def test_memory_is_asked_for_in_the_size_of_its_accesses() -> None:
    body = columns(f"st.u64 x, {-BIG}\nst.u8 y+1, 255\nst.v2.u16 z, {{1, 2}}")
    question = "locations [x; x+4; y+1; y; z; z+2;] exists (x = 0)"
    found = explored(body, question, "y=0; y+4=1;", ALONE)
    assert set(found.outcomes) == {(-BIG, -2, 255, 65280, 1, 2)}


def test_what_a_location_holds_at_first_can_be_said_by_parts() -> None:
    found = explored(columns("ld.u64 r0, x\nld r1, x+4"), "exists (P0:r0 = 0 /\\ P0:r1 = 0)", "x=5; x+4=6;", ALONE)
    assert set(found.outcomes) == {((6 << 32) + 5, 6)}


def test_wide_registers_have_64_bits_and_others_32() -> None:
    body = columns("ld.u64 r0, x\nadd r1, r0, 1\nst.u64 y, r1\nld r2, 2147483647\nadd r2, r2, 1\nmul.s64 r3, r2, 2")
    found = explored(body, "exists (P0:r1 = 0 /\\ P0:r2 = 0 /\\ P0:r3 = 0 /\\ y = 0)", "x=4294967295; x+4=0;", ALONE)
    assert set(found.outcomes) == {(1 << 32, -(1 << 31), -(1 << 32), 1 << 32)}


def test_a_constant_means_the_bits_that_a_register_has() -> None:
    body = columns("ld.weak r0, x")
    assert answered(body, "exists (P0:r0 = 4294967295)", "x=-1;", ALONE).verdict == "allowed"
    assert answered(body, "exists (x != 4294967295)", "x=-1;", ALONE).verdict == "forbidden"


def test_an_execution_names_where_each_part_comes_from() -> None:
    body = columns("st.relaxed.sys.u8 x, 1", "ld.relaxed.sys.u16 r0, x")
    found = explored(body, "exists (P1:r0 = 513)", "x=512;")
    lines = interleaving(found.model, found.execution(found.sought[0]))
    assert lines[-1] == "P1: ld.relaxed.sys.u16 r0, x -> 513 (stored by P0, initial value)"


def test_a_copy_goes_piece_by_piece() -> None:
    body = columns(
        "cp.async.bulk [y], [x]\ncp.async.bulk.commit_group\ncp.async.bulk.wait_group 0\nld.u8 r0, y+1\nld r1, y+4"
    )
    found = explored(body, "exists (P0:r0 = 0 /\\ P0:r1 = 0)", "x=513; x+4=9; y=0; y+4=0;", ALONE)
    assert set(found.outcomes) == {(2, 9)}


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("ld.u32 r0, x+2", "column 12: an access of 4 bytes stands at a multiple of that"),
        ("st.v2.u32 x+4, {1, 2}", "an access of 8 bytes stands at a multiple of that"),
        ("st.v4.u64 x, {1, 2, 3, 4}", "a vector has at most 16 bytes"),
        ("st.v2.u32 x, 1", "expected '{', found '1'"),
        ("st.v2.u32 x, {1}", "expected ',', found '}'"),
        ("ld.v2 {r0, r1, r2}, x", "expected '}', found ','"),
        ("st.u8 x, 256", "256 does not fit 8 bits"),
        ("st x, 4294967296", "4294967296 does not fit 32 bits"),
        ("add r0, 1, -2147483649", "-2147483649 does not fit 32 bits"),
        ("atom.add.u16 r0, x, 1", "atom takes no .u16"),
        ("atom.inc.u64 r0, x, 1", "inc has 32 bits"),
        ("ld.u8.u16 r0, x", "ld takes no .u16"),
        ("ld.nc.acquire.sys r0, x", "ld takes no .acquire"),
        ("cp.async.bulk [x+4], [y]", "a bulk copy takes a whole location"),
    ],
)
def test_what_is_no_access_is_an_error(instruction: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        litmus_test(f"{instruction} ;", places=ALONE)
    assert message in str(error.value)
