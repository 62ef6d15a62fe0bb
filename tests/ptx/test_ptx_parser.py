import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcietool.errors import PtxError
from pcietool.ptx.model import (
    Address,
    Arguments,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Negated,
    Pair,
    Parameter,
    Register,
    SourceLine,
    Symbol,
    Variable,
    Vector,
)
from pcietool.ptx.parser import parse

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
R1, R2, P1, RD1 = Register("%r1"), Register("%r2"), Register("%p1"), Register("%rd1")


def entry(body: str, *, parameters: str = "", module: str = "", tail: str = "") -> Function:
    registers = ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;"
    text = f"{HEADER}{module}\n.visible .entry k({parameters})\n{{\n{registers}\n{body}\n}}\n{tail}"
    return parse(text).functions["k"]


def instructions(body: str, **keywords: str) -> list[Instruction]:
    return [instruction for block in entry(body, **keywords).blocks for instruction in block.instructions]


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("ld.global.u32 %r1, [%rd1+4]", (R1, Address(RD1, 4))),
        ("ld.global.u32 %r1, [%rd1+-8]", (R1, Address(RD1, -8))),
        ("ld.global.u32 %r1, [%rd1-8]", (R1, Address(RD1, -8))),
        ("ld.global.u32 %r1, [4096]", (R1, Address(Immediate(4096)))),
        ("ld.param.u32 %r1, [k_0+4]", (R1, Address(Symbol("k_0"), 4))),
        ("ld.global.v2.u32 {%r1, _}, [%rd1]", (Vector((R1, Register("_"))), Address(RD1))),
        ("st.v2.b32 [%rd1], {%r1, 0x10U}", (Address(RD1), Vector((R1, Immediate(16))))),
        ("mov.f32 %r1, 0f3F800000", (R1, Immediate(0x3F800000, is_float=True))),
        ("mov.f64 %rd1, 0d3FF8000000000000", (RD1, Immediate(0x3FF8000000000000, is_float=True))),
        ("ld.u32 %r1, [%rd1, {%r1, 5}]", (R1, Address(RD1, coordinates=Vector((R1, Immediate(5)))))),
        ("mov.u32 %r1, %tid.x", (R1, Register("%tid.x"))),
        ("mov.u32 %r1, WARP_SZ", (R1, Immediate(32))),
        ("mov.u64 %rd1, k_0", (RD1, Symbol("k_0"))),
        ("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1", (Pair(R1, P1), R2, Immediate(1), Immediate(31), Immediate(-1))),
        ("vote.sync.all.pred %p1, !%p1, %r1", (P1, Negated(P1), R1)),
        ("bar.sync 0", (Immediate(0),)),
        ("fence.acq_rel.sys", ()),
    ],
)
def test_operands(text: str, operands: tuple[object, ...]) -> None:
    first, *_ = instructions(f"{text}; ret;", parameters=".param .b64 k_0")
    assert first.operands == operands
    assert first.text == text


def test_an_instruction_knows_opcode_modifiers_guard_and_line() -> None:
    first, second, third = instructions(
        "@!%p1 st.release.sys.global.u32 [%rd1],\n %r1;\n@%p1 add .s32 %r1, %r1, 1;\nret;"
    )
    assert (first.opcode, first.modifiers, first.type) == ("st", ("release", "sys", "global", "u32"), "u32")
    assert first.guard == Guard(P1, negated=True)
    assert first.text == "@!%p1 st.release.sys.global.u32 [%rd1], %r1"
    assert (first.line, second.line, third.line) == (8, 10, 11)
    assert (second.modifiers, second.guard) == (("s32",), Guard(P1, negated=False))


def test_double_colons_stay_inside_a_modifier() -> None:
    first, *_ = instructions("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2; ret;")
    assert first.modifiers == ("arrive", "expect_tx", "shared::cta", "b64")


def test_blocks_begin_at_labels_and_end_at_branches() -> None:
    function = entry(
        "mov.u32 %r1, 0;\nA:\nadd.s32 %r1, %r1, 1;\n@%p1 bra A;\n@%p2 bra B;\nmov.u32 %r1, 1;\nB:\nC: ret;"
    )
    assert [[i.opcode for i in block.instructions] for block in function.blocks] == [
        ["mov"], ["add", "bra"], ["bra"], ["mov"], ["ret"],
    ]  # fmt: skip
    assert function.labels == {"A": 1, "B": 4, "C": 4}
    assert function.blocks[1].instructions[-1].operands == (Label("A"),)


@pytest.mark.parametrize("end", ["ret", "exit", "trap", "@%p1 ret", "bra.uni A"])
def test_what_ends_a_block(end: str) -> None:
    assert len(entry(f"A: {end}; ret;").blocks) == 2


def test_a_call_or_a_barrier_does_not_end_a_block() -> None:
    assert len(entry("bar.sync 0; ret;").blocks) == 1


def test_a_label_before_the_closing_brace_names_an_empty_block() -> None:
    function = entry("bra A;\nA:")
    assert function.blocks[function.labels["A"]].instructions == ()


def test_nested_scopes_are_renamed_apart() -> None:
    scope = "{ .reg .pred p; .reg .b32 t<2>; WAIT: setp.eq.u32 p, t1, %r1; @!p bra WAIT; bra DONE; }"
    function = entry(f"{scope}\n{scope}\nDONE: ret;")
    waits = [block.instructions for block in function.blocks if block.instructions[0].opcode == "setp"]
    targets = [set(wait[0].operands) for wait in waits]
    assert targets[0] & targets[1] == {R1}
    assert {name for name, kind in function.registers.items() if kind == "pred" and name[0] != "%"} == {"p_s1", "p_s2"}
    for (first, second), label in zip(waits, ("WAIT_s1", "WAIT_s2"), strict=True):
        assert second.guard is not None
        assert second.guard.register == first.operands[0]
        assert function.blocks[function.labels[label]].instructions[0] == first
    assert "DONE" in function.labels


def test_an_inner_name_hides_the_outer_one_only_inside() -> None:
    first, second, _ = instructions("{ .reg .b32 %r1; mov.u32 %r1, 0; } mov.u32 %r1, 0; ret;")
    assert first.operands[0] != R1
    assert second.operands[0] == R1


def test_a_made_up_name_never_meets_a_written_one() -> None:
    first, second, _ = instructions("{ .reg .b32 t; mov.u32 t, 0; } .reg .b32 t_s1; mov.u32 t_s1, 0; ret;")
    assert first.operands[0] != second.operands[0]


def test_parameters_lie_as_in_the_parameter_block() -> None:
    function = entry(
        "ret;",
        parameters=".param .u32 a, .param .align 8 .b8 s[24],\n.param .u64 .ptr .global .align 1 p, .param .u8 c",
    )
    assert function.parameters == (
        Parameter("a", "u32", 0, 4),
        Parameter("s", "b8", 8, 24),
        Parameter("p", "u64", 32, 8),
        Parameter("c", "u8", 40, 1),
    )


def test_shared_memory_is_laid_out_and_dynamic_arrays_stand_behind_it() -> None:
    function = entry(
        ".shared .align 4 .b8 own[5];\n.shared .align 8 .u64 word;\nmov.u64 %rd1, dyn; ret;",
        module=".shared .align 4 .b8 first[12];\n.extern .shared .align 16 .b8 dyn[];",
    )
    assert {name: (v.offset, v.bytes) for name, v in function.variables.items()} == {
        "first": (0, 12), "own": (12, 5), "word": (24, 8), "dyn": (32, 0),
    }  # fmt: skip
    assert function.shared_bytes == 32


def test_module_variables_keep_their_initial_values() -> None:
    text = (
        ".const .align 4 .b8 t[6] = {1, 255, -1};\n.global .u32 n = 128;\n.global .f32 f[2] = {0f3F800000};\n"
        ".global .align 8 .u64 plain, other;\n.visible .global .attribute(.managed) .b32 managed[2];"
    )
    variables = parse(HEADER + text).variables
    assert variables["t"] == Variable("t", "const", 6, 4, 0, b"\x01\xff\xff\0\0\0")
    assert variables["n"].initial == (128).to_bytes(4, "little")
    assert variables["f"].initial == b"\0\0\x80\x3f\0\0\0\0"
    assert variables["plain"].initial is None
    assert (variables["other"].align, variables["managed"].bytes) == (8, 8)


def test_source_lines_are_the_inner_ones_and_end_at_the_newline() -> None:
    body = ".loc 1 7 3\nmov.u32 %r1, 0;\n.loc 2 40 5, function_name $L0, inlined_at 1 9 3\nmov.u32 %r1, 1;\n"
    body += ".loc 1 0 3\nmov.u32 %r1, 2;\nret;"
    tail = '.file 1 "k.cu"\n.file\t2 "slots.cuh", 0, 0\n.section .debug_str { .b8 1,2 }\n'
    sources = [instruction.source for instruction in instructions(body, tail=tail)]
    assert sources == [SourceLine("k.cu", 7), SourceLine("slots.cuh", 40), None, None]


def test_calls_functions_and_their_parameters() -> None:
    text = (
        HEADER + ".extern .func (.param .b32 r) printf (.param .b64 a, .param .b64 b)\n;\n"
        ".func (.param .b32 r) f(.param .b32 a) .noreturn { st.param.b32 [r+0], 1; ret; }\n"
        ".entry k() { .reg .b32 %r<3>; .reg .b64 %rd<2>;\n"
        "{ .param .b32 p0; .param .b32 q; call.uni (q), f, (p0); }\n"
        "{ .param .b32 p0; call f, (p0, 3); } call f;\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (%r1), %rd1, (%r2), proto; ret; }"
    )
    module = parse(text)
    assert list(module.functions) == ["f", "k"]
    assert list(module.entries) == ["k"]
    assert module.functions["f"].results == (Parameter("r", "b32", 0, 4),)
    assert module.functions["f"].directives == {"noreturn": ()}
    kernel = module.functions["k"]
    assert [instruction.operands for instruction in kernel.blocks[0].instructions[:4]] == [
        (Arguments((Symbol("q_s1"),)), Symbol("f"), Arguments((Symbol("p0_s1"),))),
        (Arguments(()), Symbol("f"), Arguments((Symbol("p0_s2"), Immediate(3)))),
        (Arguments(()), Symbol("f"), Arguments(())),
        (Arguments((R1,)), RD1, Arguments((R2,)), Symbol("proto")),
    ]
    assert kernel.variables["p0_s1"].space == "param"
    assert kernel.labels == {}


def test_an_indirect_branch_carries_its_targets() -> None:
    function = entry("T: .branchtargets A, B;\nbrx.idx %r1, T;\nA: exit;\nB: ret;")
    assert function.blocks[0].instructions[0].operands == (R1, Label("A"), Label("B"))


def test_directives_and_pragmas() -> None:
    text = HEADER + '.weak .entry k()\n.maxntid 128, 2, 1\n.minnctapersm 2\n{ .pragma "nounroll"; ret; }'
    assert parse(text).functions["k"].directives == {"maxntid": (128, 2, 1), "minnctapersm": (2,)}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 %r1 %r2;", r"line 8, column 13: expected ';', found '%r2'"),
        ("mov.u32 %r1, x;", r"line 8, column 14: x is not declared"),
        ("bra NOWHERE;", r"line 8, column 5: there is no label NOWHERE"),
        ("bra %r1;", r"line 8, column 5: there is no label %r1"),
        ("A: ret; A: ret;", r"line 8, column 9: A is declared twice"),
        (".reg .b32 %r1;", r"line 8, column 11: %r1 is declared twice"),
        (".reg .b33 x;", r"line 8, column 6: expected a type, found '.b33'"),
        (".reg .b32 x<999999999>;", r"line 8, column 13: integer is out of range"),
        ("@4 ret;", r"line 8, column 2: expected a register, found '4'"),
        ("ld.u32 %r1, [%rd1+%r1];", r"line 8, column 19: expected '\]', found '%r1'"),
        ("mov.u64 %rd1, 18446744073709551616;", r"line 8, column 15: integer is out of range"),
        ("mov.f32 %r1, 1.5;", r"line 8, column 14: expected an operand, found '1.5'"),
        ("%r1;", r"line 8, column 1: expected an instruction, found '%r1'"),
        (".loc 1 2 3", r"line 8, column 1: there is no .file 1"),
        (".surprise 3;", r"line 8, column 1: .surprise is not supported in a function body"),
        ("brx.idx %r1, A; A: ret;", r"line 8, column 14: A is no list of branch targets"),
        (".shared .align 3 .b8 x[4];", r"line 8, column 16: alignment must be a power of two, not 3"),
        ("{" * 100, r"line 8, column 65: scopes are nested deeper than 64"),
        ("{ ret;", r"expected an instruction, found the end of the text"),
        (".pragma { ; a: ret;", r"line 8, column 13: there is no label a"),
    ],
)
def test_a_broken_body_is_an_error_with_line_and_column(body: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        entry(body)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected '.version' and '.target', found the end of the text"),
        (".version 9.0 .target sm_90 .address_size 32", "column 42: integer is out of range"),
        (HEADER + "nonsense", "line 4, column 1: expected a function or a variable, found 'nonsense'"),
        (HEADER + ".entry k", "line 4, column 9: expected '{', found the end of the text"),
        (HEADER + ".entry k(.param .u32", "line 4, column 21: expected a name"),
        (HEADER + ".entry k() { ret; } .entry k() { ret; }", "line 4, column 28: function k is defined twice"),
        (HEADER + ".global .u64 p = generic(q);", "line 4, column 18: an address as initial value is not supported"),
        (HEADER + ".global .u8 p[2] = {1, 2, 3};", "column 20: 3 bytes of initial value for a variable of 2"),
        (HEADER + ".global .u8 p[2] = {256};", "column 21: integer is out of range"),
        (HEADER + ".global .u64 p[9999999999];", "column 16: integer is out of range"),
        (HEADER + ".func f() { .shared .u32 x; ret; }", "shared memory of its own is supported in kernels only"),
    ],
)
def test_a_broken_module_is_an_error_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(text)


FRAGMENTS = [
    ".version 9.0", ".target sm_90", ".entry", ".func", "k", "(", ")", "{", "}", "[", "]", "<", ">", ";", ":",
    ",", "=", "@", "!", "|", "+", ".reg", ".b32", ".b8", ".pred", ".param", ".shared", ".global", ".align",
    ".ptr", "4", "-1", "08", "99999999999999999999", "%r1", "%r", "L", "L:", "bra", "call", "brx.idx",
    "mov.u32", "ret", "0f3F800000", "1.5", "_", ".branchtargets", ".callprototype", ".pragma", '"s"',
    ".loc 1 2 3\n", ".loc\n", '.file 1 "a"\n', ".attribute", "/*", "generic", "\n", "// x\n",
]  # fmt: skip


@given(st.text(alphabet=st.characters(max_codepoint=0x300)) | st.lists(st.sampled_from(FRAGMENTS)).map(" ".join))
def test_arbitrary_text_is_a_ptx_error(text: str) -> None:
    for source in (text, HEADER + text, f"{HEADER}.entry k() {{ .reg .b32 %r<3>; {text} }}"):
        with contextlib.suppress(PtxError):
            parse(source)
