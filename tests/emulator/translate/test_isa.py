"""The columns of the ISA table: no row lacks one, and what they say holds of the instructions."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from pcietool.emulator.ops import Op
from pcietool.emulator.translate.isa import COMPUTES, ISA, Opcode, registers_read, registers_written
from pcietool.emulator.translate.lower import lower
from pcietool.ptx.body import BLOCK_ENDS
from pcietool.ptx.model import Instruction
from pcietool.ptx.parser import parse
from tests.emulator.emulated_programs import ptx_kernel
from tests.emulator.translate.instruction_cases import FOLDER

COLUMNS = [column.name for column in fields(Opcode)]
CONTROL = {"bra", "ret", "exit"}
CASES_ELSEWHERE = {
    "prefetch",
    "createpolicy",
    "mapa",
    "trap",
    "call",
    "isspacep",
    "cvta",
    "activemask",
    "griddepcontrol",
    "cp",
    "mbarrier",
    "elect",
}
"""What they do is no number: test_calls, test_instructions, test_warps, test_machine_rules, test_bulk, ..."""


@pytest.mark.parametrize("left_out", COLUMNS)
def test_a_row_without_a_column_does_not_load(left_out: str) -> None:
    columns: dict[str, Any] = {name: getattr(COMPUTES, name) for name in COLUMNS}
    assert Opcode(**columns) == COMPUTES
    del columns[left_out]
    with pytest.raises(TypeError, match=left_out):
        Opcode(**columns)


def test_no_column_has_a_default() -> None:
    assert all(column.default is column.default_factory is MISSING for column in fields(Opcode))


def test_what_jumps_ends_a_block_of_ptx() -> None:
    assert {opcode for opcode, row in ISA.items() if row.jumps} == CONTROL <= BLOCK_ENDS


def test_every_opcode_has_a_case() -> None:
    lines = [line for path in FOLDER.glob("*.txt") for line in path.read_text().splitlines()]
    with_cases = {line.split(".")[0] for line in lines if line and not line.startswith("#")}
    with_cases |= {"atom", "red"}  # a case of one is a case of the other
    assert with_cases | CONTROL | CASES_ELSEWHERE >= ISA.keys()
    assert not with_cases & CASES_ELSEWHERE - {"cvta"}


FORMS = {
    "add.u32 %r1, %r2, %r3": ("%r1", "%r2 %r3"),
    "ld.global.u32 %r1, [%a]": ("%r1", "%a"),
    "ld.global.v2.u32 {%r1, %r2}, [%a]": ("%r1 %r2", "%a"),
    "st.global.u32 [%a], %r1": ("", "%a %r1"),
    "atom.global.add.u32 %r1, [%a], %r2": ("%r1", "%a %r2"),
    "red.global.add.u32 [%a], %r2": ("", "%a %r2"),
    "shfl.sync.up.b32 %r1|%p1, %r2, %r3, %r4, -1": ("%r1 %p1", "%r2 %r3 %r4"),
    "@%p1 nanosleep.u32 %r1": ("", "%p1 %r1"),
    "bar.sync 0": ("", ""),
    "cp.async.bulk.wait_group 0": ("", ""),
}


def only_instruction(form: str) -> Instruction:
    """The one in front of `ret`, of a kernel without parameters of its own."""
    block, *_ = parse(ptx_kernel(f"{form};\nret;", parameters=())).functions["k"].blocks
    return block.instructions[0]


@pytest.mark.parametrize("form", FORMS)
def test_results_and_what_is_read(form: str) -> None:
    written, read = FORMS[form]
    instruction = only_instruction(form)
    assert list(registers_written(instruction)) == written.split()
    assert list(registers_read(instruction)) == read.split()


@pytest.mark.parametrize("form", FORMS)
def test_what_it_asks_is_what_its_code_yields(form: str) -> None:
    constants = lower(parse(ptx_kernel(f"{form};\nret;", parameters=())).functions["k"]).start.__globals__.values()
    codes = {value.code for value in constants if isinstance(value, Op)}
    asks = ISA[only_instruction(form).opcode].asks
    assert codes == (set() if asks is None else {asks})
