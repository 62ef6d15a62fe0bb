"""Which stores need a load: by their value, their address, or because it decides whether they are done."""

import pytest

from pcietool.emulator.exploring.dependence import Dependence
from pcietool.ptx.parser import parse
from tests.emulator.emulated_programs import ptx_kernel

LOAD = "ld.global.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0;"
STORE = "st.global.u32 [%b], 1;"


def depends(body: str) -> list[bool]:
    """Of each store of a kernel: on its first load?"""
    function = parse(ptx_kernel(body)).entries["k"]
    instructions = [instruction for block in function.blocks for instruction in block.instructions]
    load = next(one for one in instructions if one.opcode == "ld" and "global" in one.modifiers)
    dependence = Dependence(function)
    return [dependence.depends(one, load) for one in instructions if one.opcode == "st"]


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        (f"{LOAD} {STORE} ret;", [False]),
        ("ld.global.u32 %r1, [%a]; add.u32 %r2, %r1, 1; st.global.u32 [%b], %r2; ret;", [True]),
        ("ld.global.u64 %rd1, [%a]; add.u64 %rd2, %b, %rd1; st.global.u32 [%rd2], 1; ret;", [True]),
        (f"{LOAD} @%p1 {STORE} ret;", [True]),
        (f"{LOAD} @%p1 bra END; {STORE} END: {STORE} ret;", [True, False]),
        (f"{LOAD} @%p1 bra ELSE; {STORE} bra END; ELSE: {STORE} END: {STORE} ret;", [True, True, False]),
        (f"{LOAD} @%p1 ret; {STORE} ret;", [True]),
        (f"{LOAD} @%p1 bra ON; ON: {STORE} ret;", [False]),
        (f"LOOK: {LOAD} @%p1 bra LOOK; {STORE} ret;", [True]),
        (
            f"{LOAD} setp.gt.u32 %p2, %r5, 0; @%p1 bra ELSE; @%p2 bra ON; ON: bra END; ELSE: {STORE} END: {STORE} ret;",
            [True, False],
        ),
        (f"{STORE} {LOAD} @%p1 bra END; {STORE} END: ret;", [False, True]),
    ],
)
def test_a_store_needs_a_load_by_value_address_or_branch(body: str, needed: list[bool]) -> None:
    assert depends(body) == needed
