"""The litmus format: what is read, and what the error says, with line and column, for what cannot be."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcietool.errors import ConfigError
from pcietool.litmus.text.operations import ATOMICS
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import (
    Arithmetic,
    Barrier,
    Branch,
    Commit,
    Copy,
    Fence,
    Load,
    Operand,
    ProxyFence,
    Rmw,
    Scope,
    Store,
    WaitForCopies,
)

MP = """PTX MP+release+acquire
"Message passing,
 between two GPUs. expect: forbidden. Because."
"More."
{ x=0; y=7; P1:r1=5; }  // comment
 P0@cta 0,gpu 0      | P1@cta 3,gpu 1       ;
 st.weak x, 1        | ld.acquire.sys r0, y ; (* comment *)
 st.release.sys y, 1 | ld.weak r1, x        ;
locations [x; P1:r0;]
exists (P1:r0 == 1 /\\ 1:r1 = 0)
"""


def one_column(*lines: str, condition: str = "exists (x = 0)", init: str = "x=0; P0:r9=9;") -> str:
    body = "\n".join(f"{line} ;" for line in lines)
    return f"PTX one\n{{ {init} }}\nP0@cta 0,gpu 0 ;\n{body}\n{condition}\n"


def instruction(line: str) -> object:
    return parse_litmus(one_column(line)).threads[0].code[0]


def test_a_whole_test() -> None:
    test = parse_litmus(MP)
    assert test.name == "MP+release+acquire"
    assert test.description == "Message passing, between two GPUs. expect: forbidden. Because. More."
    assert (test.expectation.verdict, test.expectation.hangs, test.expectation.stated) == ("forbidden", False, True)
    assert (test.locations, test.memory) == (("x", "y"), (0, 7))
    assert [(thread.gpu, thread.cta) for thread in test.threads] == [(0, 0), (1, 3)]
    reader = test.threads[1]
    assert dict(zip(reader.registers, reader.initial, strict=True)) == {"r1": 5, "r0": 0}
    assert [one.text for one in reader.code] == ["ld.acquire.sys r0, y", "ld.weak r1, x"]
    assert [one.line for one in reader.code] == [7, 8]
    assert {item.name for item in test.question.items} == {"x", "P1:r0", "P1:r1"}


@pytest.mark.parametrize(
    ("line", "strong", "acquire", "release", "scope"),
    [
        ("ld.weak r0, x", False, False, False, Scope.SYS),
        ("ld r0, x", False, False, False, Scope.SYS),
        ("ld.volatile r0, [x]", True, False, False, Scope.SYS),
        ("ld.gpu.acquire r0, x", True, True, False, Scope.GPU),
        ("st.relaxed.cluster x, 1", True, False, False, Scope.CTA),
        ("st.release.sys x, r9", True, False, True, Scope.SYS),
        ("atom.add r0, x, 1", True, False, False, Scope.GPU),
        ("atom.cas.sys.acq_rel r0, x, 0, 1", True, True, True, Scope.SYS),
        ("red.release.cta.xor x, r9", True, False, True, Scope.CTA),
    ],
)
def test_what_an_access_means(line: str, strong: bool, acquire: bool, release: bool, scope: Scope) -> None:
    access = instruction(line)
    assert isinstance(access, Load | Store | Rmw)
    assert (access.strong, access.acquire, access.release, access.scope) == (strong, acquire, release, scope)


@pytest.mark.parametrize(
    ("line", "sequential", "scope"),
    [
        ("fence.acq_rel.gpu", False, Scope.GPU),
        ("fence.sys", False, Scope.SYS),
        ("fence.sc.cta", True, Scope.CTA),
        ("membar.gl", True, Scope.GPU),
    ],
)
def test_fences(line: str, sequential: bool, scope: Scope) -> None:
    fence = instruction(line)
    assert isinstance(fence, Fence)
    assert (fence.sequential, fence.scope) == (sequential, scope)


def test_moves_arithmetic_and_branches() -> None:
    code = (
        parse_litmus(one_column("LC00: ld r0, 1", "div r1, r0, -2", "LC01: bge r1, r9, LC00", "goto LC01"))
        .threads[0]
        .code
    )
    assert all(isinstance(one, kind) for one, kind in zip(code, (Arithmetic, Arithmetic, Branch, Branch), strict=True))
    assert [one.target for one in code if isinstance(one, Branch)] == [0, 2]
    division = code[1]
    assert isinstance(division, Arithmetic)
    assert [division.combine(*pair) for pair in ((7, 2), (-7, 2), (7, -2))] == [3, -3, -3]


@pytest.mark.parametrize(
    ("operation", "result"), [("add", 9), ("sub", 3), ("and", 2), ("or", 7), ("xor", 5), ("exch", 3)]
)
def test_what_an_rmw_writes(operation: str, result: int) -> None:
    rmw = instruction(f"atom.relaxed.sys.{operation} r0, x, 3")
    assert isinstance(rmw, Rmw)
    assert rmw.combine(6, 3) == result


def test_barriers() -> None:
    plain = instruction("bar.cta.sync 4")
    assert isinstance(plain, Barrier)
    assert (plain.waits, plain.instance, plain.barrier, plain.quorum) == (True, 4, Operand(None, 4), None)
    counted = instruction("bar.cta.arrive 0, r9, 2")
    assert isinstance(counted, Barrier)
    assert (counted.waits, counted.barrier.register is None, counted.quorum) == (False, False, Operand(None, 2))


def test_bulk_copies() -> None:
    copy = instruction("cp.async.bulk [y], [x]")
    assert isinstance(copy, Copy)
    assert (copy.location, copy.source, copy.strong) == (1, 0, False)
    waits = [instruction(f"cp.async.bulk.wait_group{read} 1") for read in ("", ".read")]
    assert [(one.left, one.reads_only) for one in waits if isinstance(one, WaitForCopies)] == [(1, False), (1, True)]
    assert isinstance(instruction("cp.async.bulk.commit_group"), Commit)
    assert isinstance(instruction("fence.proxy.async"), ProxyFence)


def test_a_location_without_native_atomics() -> None:
    test = parse_litmus(one_column("st.weak y, 1", init="x=0; y=3 without native atomics;"))
    assert (test.memory, {location for location, _ in test.not_native}) == ((0, 3), {1})
    assert {operation for _, operation in test.not_native} == set(ATOMICS)
    assert not parse_litmus(MP).not_native
    some = parse_litmus(one_column("st.weak x, 1", init="x=0 without native min, xor;"))
    assert some.not_native == {(0, "min"), (0, "xor")}


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    [
        ("exists (x = 1 /\\ P0:r9 == 2)", (1, 2), True),
        ("exists (x = 1 /\\ P0:r9 == 2)", (1, 3), False),
        ("exists (x = 1 \\/ [x] = 2 /\\ 0:r9 = 3)", (1, 0), True),
        ("exists ((x = 1 \\/ x = 2) /\\ P0:r9 = 3)", (1, 0), False),
        ("~exists (~(x = P0:r9))", (1, 2), True),
        ("forall (x = P0:r9)", (1, 2), True),
        ("forall (x != P0:r9);", (1, 2), False),
    ],
)
def test_what_is_looked_for(condition: str, values: tuple[int, ...], holds: bool) -> None:
    question = parse_litmus(one_column("st.weak x, r9", condition=condition)).question
    by_name = dict(zip(("x", "P0:r9"), values, strict=True))
    assert question.proposition({item: by_name[item.name] for item in question.items}) is holds


@pytest.mark.parametrize(
    ("condition", "verdict"), [("exists (x=0)", None), ("~exists (x=0)", "forbidden"), ("forall (x=0)", "forbidden")]
)
def test_what_a_quantifier_expects(condition: str, verdict: str | None) -> None:
    expectation = parse_litmus(one_column("st.weak x, 1", condition=condition)).expectation
    assert (expectation.verdict, expectation.stated) == (verdict, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected the title line PTX NAME, found the end of the text"),
        ("AArch64 MP\n", "line 1, column 1: expected the title line"),
        (MP.replace("exists", "sometimes"), "line 10, column 1: expected exists, ~exists or forall, found 'sometimes'"),
        (MP.replace("forbidden", "maybe"), "line 3, column 28: expected allowed or forbidden, found 'maybe'"),
        (MP.replace("P1@", "P2@"), "line 6, column 24: expected P1: columns are numbered from the left"),
        (MP.replace("st.weak", "st.wek"), "line 7, column 2: st takes no .wek"),
        (MP.replace("st.weak", "stt.weak"), "line 7, column 2: unknown opcode 'stt'"),
        (MP.replace("acquire.sys", "acquire"), "line 7, column 24: ld.acquire needs one of .cta, .cluster, .gpu, .sys"),
        (MP.replace("ld.acquire", "ld.release"), "line 7, column 24: ld takes no .release"),
        (MP.replace("ld.weak r1", "ld.weak.gpu r1"), "ld takes no .gpu"),
        (MP.replace("r1, x  ", "r1, r2 "), "r2 is a register; an address must be a location's name"),
        (MP.replace("1:r1 = 0", "1:r2 = 0"), "line 10, column 25: P1 has no register r2"),
        (MP.replace("1:r1 = 0", "2:r1 = 0"), "there is no thread P2; the last one is P1"),
        (MP.replace("1:r1 = 0", "r1 = 0"), "which thread's r1? Write it as P0:r1"),
        (MP.replace("1:r1 = 0", "z = 0"), "no thread uses a location z"),
        (MP.replace("1:r1 = 0", "1:r1 0"), "expected =, == or !=, found '0'"),
        (MP + "x", "expected /\\, \\/ or the end of the text, found 'x'"),
        (MP.replace("x=0;", "x=0; x=1;"), "line 5, column 8: location x is initialised twice"),
        (MP.replace("P1:r1=5", "P7:r1=5"), "there is no thread P7"),
        (MP.replace("{ x=0; ", "{ x=0 "), "line 5, column 7: expected ; or }, found 'y'"),
        (MP.replace("y ;", "y | ld.weak r2, x ;"), "the row has more cells than the 2 columns"),
        (MP.replace("\nlocations", "\nlocations["), "expected"),
        (MP.replace("sys y, 1", "sys y, $"), "unexpected character '$'"),
        (one_column("st.weak x, r3"), "line 4, column 12: nothing sets register r3 in this thread"),
        (one_column("goto LC5"), "line 4, column 6: there is no label LC5 in this column"),
        (one_column("L: ld r0, 1", "L: ld r0, 2"), "line 5, column 1: label L stands twice"),
        (one_column("bar.sync 0"), "bar.sync needs one of .cta"),
        (one_column("bar.cta.sync r9"), "expected an integer, found 'r9'"),
        (one_column("atom.relaxed.sys r0, x, 1"), "needs one of .add"),
        (one_column("red.acq_rel.sys.add x, 1"), "red takes no .acq_rel"),
        (one_column("add x, 1, 2"), "expected a register such as r0, found 'x'"),
        (one_column("st.weak x, y"), "expected a register or a constant, found 'y'"),
        (MP.replace("expect:", "expect: allowed. expect:"), "line 3, column 37: a second expectation; a test has one"),
        (MP.replace("PTX ", "PTX \x1b[31m"), "line 1, column 5: control character U+001B; remove it"),
        (one_column("cp.bulk [y], [x]"), "cp.bulk needs one of .async"),
        (one_column(*["st.weak x, 1"] * 1_001), "line 1004, column 1: more than 1,000 instructions"),
        (MP.replace("P0@cta 0,gpu 0", " | ".join(f"P{n}@cta {n},gpu 0" for n in range(65))), "more than 64 threads"),
        (one_column("cp.async.bulk [y]"), "expected ','"),
        (one_column("cp.async.bulk.wait_group"), "expected an integer"),
        (one_column("cp.async.bulk.commit_group.read"), "cp takes no .read"),
        (one_column("fence.proxy"), "fence.proxy needs one of .async"),
        (one_column("st.weak x, 1", init="x=0 without atomics;"), "expected 'native', found 'atomics'"),
    ],
)
def test_broken_tests_are_named_by_line_and_column(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_litmus(text, "mine.litmus")
    assert message in str(error.value)
    assert str(error.value).startswith("mine.litmus line ")
    assert "\n" not in str(error.value)


@given(st.integers(0, len(MP)), st.integers(0, len(MP)), st.text(max_size=3))
def test_any_damage_is_a_test_or_a_config_error(start: int, end: int, text: str) -> None:
    damaged = MP[:start] + text + MP[end:]
    with suppress(ConfigError):
        parse_litmus(damaged)


@pytest.mark.parametrize("opening", ["(", "~"])
def test_a_question_nests_only_so_deep(opening: str) -> None:
    closing = ")" if opening == "(" else ""
    parse_litmus(one_column("st.weak x, 1", condition=f"exists {opening * 50}x = 1{closing * 50}"), "t")
    with pytest.raises(ConfigError, match="t line 5, column 58: more than 50 parentheses"):
        parse_litmus(one_column("st.weak x, 1", condition=f"exists {opening * 9000}x = 1{closing * 9000}"), "t")
