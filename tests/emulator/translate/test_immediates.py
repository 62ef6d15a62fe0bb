"""Constants in instructions are of the instruction's width and sign, as registers are."""

from collections.abc import Iterator

import pytest

from pcietool.emulator.engine.variants import OrderName
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import run_ptx

ORDERS: tuple[OrderName, ...] = ("timing", "random")
ALL_ONES = 0xFFFFFFFF


@pytest.fixture(scope="module", params=ORDERS)
def machine(request: pytest.FixtureRequest) -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("h200-nvlink2", order=request.param) as opened:
        yield opened


@pytest.mark.parametrize(
    ("instruction", "value", "expected"),
    [
        ("max.s32 %r2, %r1, -1;", ALL_ONES - 1, ALL_ONES),  # -2
        ("max.s32 %r2, %r1, -1;", 3, 3),
        ("max.u32 %r2, %r1, -1;", 3, ALL_ONES),
        ("min.s32 %r2, %r1, -2147483648;", 3, 0x80000000),
        ("min.s32 %r2, %r1, 2147483647;", 3, 3),
        ("add.s32 %r2, %r1, -5;", 3, ALL_ONES - 1),
        ("shr.s32 %r2, -16, 2;", 0, ALL_ONES - 3),
        ("div.s32 %r2, %r1, -2;", 7, ALL_ONES - 2),
        ("setp.lt.s32 %p1, %r1, -1; selp.u32 %r2, 1, 0, %p1;", ALL_ONES - 1, 1),
        ("setp.lt.s32 %p1, %r1, -1; selp.u32 %r2, 1, 0, %p1;", 5, 0),
        ("setp.lt.u32 %p1, %r1, -1; selp.u32 %r2, 1, 0, %p1;", 5, 1),
        ("mov.b32 %r2, -7;", 0, ALL_ONES - 6),
    ],
)
def test_a_negative_constant_is_what_a_register_would_hold(
    machine: EmulatedMachine, instruction: str, value: int, expected: int
) -> None:
    body = f"ld.global.u32 %r1, [%a]; {instruction} st.global.u32 [%b], %r2; ret;"
    assert list(run_ptx(machine, body, (value,))) == [expected]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("add.u32", 3, 2),
        ("add.u32", 0, ALL_ONES),
        ("exch.b32", 3, ALL_ONES),
        ("and.b32", 3, 3),
        ("min.s32", 3, ALL_ONES),
        ("max.u32", 3, ALL_ONES),
        ("inc.u32", 3, 4),
    ],
)
def test_a_negative_constant_in_an_atomic(
    machine: EmulatedMachine, space: str, kind: str, value: int, expected: int
) -> None:
    word = {"global": "%b", "shared": "own"}[space]
    body = (
        f"ld.global.u32 %r1, [%a]; st.{space}.u32 [{word}], %r1; atom.{space}.{kind} %r2, [{word}], -1;"
        f" ld.{space}.u32 %r3, [{word}]; st.global.u32 [%b], %r3; st.global.u32 [%b+4], %r2; ret;"
    )
    found = run_ptx(machine, body, (value,), 2, registers=".shared .align 16 .b8 own[16];")
    assert list(found) == [expected, value]


@pytest.mark.parametrize("space", ["global", "shared"])
def test_a_stored_constant_fills_its_width_and_no_more(machine: EmulatedMachine, space: str) -> None:
    word = {"global": "%b", "shared": "own"}[space]
    body = (
        f"st.{space}.u32 [{word}], 0; st.{space}.u32 [{word}+4], 0;"
        f" st.{space}.u16 [{word}], -2; st.{space}.u8 [{word}+4], -3;"
        f" ld.{space}.u32 %r1, [{word}]; ld.{space}.u32 %r2, [{word}+4];"
        " st.global.u32 [%b], %r1; st.global.u32 [%b+4], %r2; ret;"
    )
    assert list(run_ptx(machine, body, outputs=2, registers=".shared .align 16 .b8 own[16];")) == [0xFFFE, 0xFD]
