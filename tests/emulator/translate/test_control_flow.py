"""Lowered control flow does what the PTX says, whatever its shape."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcietool.emulator.translate.control_flow import Cases, _nested, cycles_avoiding, natural_loops
from pcietool.emulator.translate.lower import lower
from pcietool.errors import EmulationError, PtxError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.machines.emulated.program import EmulatedProgram
from pcietool.ptx.model import Function
from tests.emulator.emulated_programs import ptx_kernel, ptx_program, run_ptx
from tests.emulator.translate.structured_programs import REGISTERS, Program, Writer, interpret, programs

words = st.integers(0, 0xFFFFFFFF)
BlockOrder = Callable[[list[str]], list[str]]


@pytest.fixture(scope="module")
def machine() -> Iterator[EmulatedMachine]:
    with EmulatedMachine.open("h200-nvlink2") as opened:
        yield opened


def run_with_registers(
    machine: EmulatedMachine, program: Program, values: tuple[int, ...], order: BlockOrder
) -> list[int]:
    writer = Writer()
    text = writer.text(program, order)
    seen = run_ptx(machine, text, values, REGISTERS + 1, registers=writer.registers, deadline_s=1.0)
    return [int(word) for word in seen]


@settings(max_examples=60)
@given(program=programs, values=st.tuples(*[words] * REGISTERS), shuffle=st.randoms(use_true_random=False))
def test_random_programs_do_what_python_does(
    machine: EmulatedMachine, program: Program, values: tuple[int, ...], shuffle: Random
) -> None:
    expected, steps = interpret(program, values)
    orders: tuple[BlockOrder, ...] = (
        list,
        lambda labels: labels[::-1],
        lambda labels: shuffle.sample(labels, len(labels)),
    )
    for order in orders:
        assert run_with_registers(machine, program, values, order) == [*expected, steps]


def test_the_comparison_sees_a_difference(machine: EmulatedMachine) -> None:
    """Negative control: one operation more in the PTX than in what Python interprets."""
    program = [("loop", 3, [("set", 0, 0, 1, "add.u32")])]
    expected, steps = interpret(program, (0, 5, 0, 0))
    assert expected[0] == 15
    assert run_with_registers(machine, [*program, program[0]], (0, 5, 0, 0), list) != [*expected, steps]


SHAPES = {
    "nested loops": ("""
        mov.u32 %r1, 0; mov.u32 %r2, 0;
        OUTER: mov.u32 %r3, 0;
        INNER: add.u32 %r1, %r1, 1; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 4; @%p1 bra INNER;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5; @%p1 bra OUTER;
        st.global.u32 [%b], %r1; ret;""", 20),
    "out of two loops at once": ("""
        mov.u32 %r1, 0;
        OUTER: mov.u32 %r3, 0;
        INNER: add.u32 %r1, %r1, 1; setp.eq.u32 %p2, %r1, 7; @%p2 bra DONE;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 4; @%p1 bra INNER; bra OUTER;
        DONE: st.global.u32 [%b], %r1; ret;""", 7),
    "a loop whose body stands behind the end": ("""
        mov.u32 %r1, 0; bra TEST;
        DONE: st.global.u32 [%b], %r1; ret;
        BODY: add.u32 %r1, %r1, 3;
        TEST: setp.lt.u32 %p1, %r1, 10; @%p1 bra BODY; bra DONE;""", 12),
    "guarded return": ("""
        mov.u32 %r1, 1;
        AGAIN: st.global.u32 [%b], %r1; setp.eq.u32 %p1, %r1, 6; @%p1 ret; add.u32 %r1, %r1, 1; bra AGAIN;""", 6),
    "into the middle of a loop": ("""
        mov.u32 %r1, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra MIDDLE;
        HEAD: add.u32 %r1, %r1, 100;
        MIDDLE: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 150; @%p1 bra HEAD;
        st.global.u32 [%b], %r1; ret;""", 203),
    "two ways into each other": ("""
        mov.u32 %r1, 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra ONE;
        TWO: add.u32 %r1, %r1, 10; setp.gt.u32 %p2, %r1, 40; @%p2 bra DONE;
        ONE: add.u32 %r1, %r1, 1; bra TWO;
        DONE: st.global.u32 [%b], %r1; ret;""", 43),
    "falls off the end": ("""
        mov.u32 %r1, 5; setp.eq.u32 %p1, %r1, 5; st.global.u32 [%b], %r1; @%p1 bra END; st.global.u32 [%b], 0;
        END:""", 5),
    "guarded instructions, both ways": ("""
        mov.u32 %r1, 5; setp.eq.u32 %p1, %r1, 5; @%p1 add.u32 %r1, %r1, 1; @!%p1 add.u32 %r1, %r1, 100;
        st.global.u32 [%b], %r1; ret;""", 6),
    "two instructions a line, one address each": ("""
        mov.u32 %r1, 7; st.relaxed.sys.global.u32 [%b], %r1; ld.relaxed.sys.global.u32 %r2, [%a];
        add.u32 %r1, %r1, %r2; st.relaxed.sys.global.u32 [%b], %r1; ret;""", 7),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(machine: EmulatedMachine, shape: str) -> None:
    body, expected = SHAPES[shape]
    assert run_ptx(machine, body)[0] == expected


def test_a_kernel_without_requests_ends(machine: EmulatedMachine) -> None:
    assert run_ptx(machine, "mov.u32 %r1, 1; ret;")[0] == 0


def test_registers_that_differ_only_in_the_percent_sign(machine: EmulatedMachine) -> None:
    body = "{ .reg .b32 r1; mov.u32 %r1, 1; mov.u32 r1, 2; st.global.u32 [%b], %r1; } ret;"
    assert run_ptx(machine, body)[0] == 1


def function_of(body: str, **options: Any) -> Function:
    return ptx_program(body, **options).module.entries["k"]


def test_loops_and_cases() -> None:
    function = function_of(SHAPES["out of two loops at once"][0])
    cases = Cases.of(function)
    assert len(natural_loops(function)) == 2
    assert [list(cases.body(case)) for case in range(len(cases))] == [[0], [1], [2, 3, 4], [5]]
    assert cases.spans == ((1, 2), (2, 2))


def test_cycles_are_silent_only_without_what_asks() -> None:
    function = function_of("""
        HEAD: setp.eq.u32 %p1, %r1, 0; @%p1 bra NEXT;
        st.relaxed.sys.global.u32 [%b], 1;
        NEXT: add.u32 %r1, %r1, 1; bra HEAD;""")
    assert cycles_avoiding(function, {2}) == {3: {1, 3}}, "the way around the store closes a cycle"
    assert cycles_avoiding(function, {1}) == {}


ENDLESS = {
    "arithmetic": "A: add.u32 %r1, %r1, 1; bra A;",
    "shared memory": "A: ld.volatile.shared.u32 %r1, [word]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; ret;",
    "shared atomics": "A: atom.shared.add.u32 %r1, [word], 1; bra A;",
    "a request on one way only": """mov.u32 %r1, 0;
        A: setp.ne.u32 %p1, %r1, 0; @%p1 bra B; bra A; B: st.relaxed.sys.global.u32 [%b], 1; bra A;""",
    "sleep": "A: nanosleep.u32 100; bra A;",
    "requests": "A: st.relaxed.sys.global.u32 [%b], 1; bra A;",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_program_ends_as_an_error(emulated: EmulatedMachine, kind: str) -> None:
    emulated.engine.max_events = 2000
    with pytest.raises(EmulationError, match="endless program"):
        run_ptx(emulated, ENDLESS[kind], registers=".shared .align 4 .b32 word;", deadline_s=1e9)


UNKNOWN = {
    "instruction": ("tanh.approx.f16 %r1, %r2;", r"form tanh\.approx\.f16"),
    "modifier of an instruction": ("add.sat.u32 %r1, %r2, %r3;", r"form add\.sat\.u32"),
    "modifier of a load": ("ld.global.unified.u32 %r1, [%a];", r"modifier \.unified"),
    "modifier of a store": ("st.async.weak.global.u32 [%a], %r1;", r"modifier \.async"),
    "read-modify-write": ("atom.global.min.noftz.f16x2 %r1, [%a], %r2;", r"f16x2"),
    "two operations at once": ("red.global.add.max.u32 [%a], %r2;", r"red \.global\.add\.max\.u32"),
    "barrier": ("barrier.cluster.arrive.acquire;", r"modifier \.acquire"),
    "conversion": ("cvt.rz.f32.u32 %r1, %r2;", r"conversion cvt\.rz\.f32\.u32"),
    "fence": ("fence.proxy.alias;", r"modifier \.alias"),
    "vote": ("vote.all.pred %p1, %p2;", r"form vote\.all\.pred"),
    "number of operands": ("add.u32 %r1, %r2;", "number of operands"),
    "call": ("call.uni function_of_others;", r"the function function_of_others, which this module does not have"),
    "call through a pointer": ("call.uni %rd1;", "through a pointer"),
    "operand": ("mov.u64 %rd1, module_function;", "module_function, a function,"),
    "special register": ("mov.u32 %r1, %nwarpid;", "register %nwarpid"),
    "register read, never declared": ("add.u32 %r1, %r2, %never;", "register %never"),
    "register written, never declared": ("add.u32 %never, %r1, %r2;", "register %never"),
    "register of a guard, never declared": ("@%never add.u32 %r1, %r1, %r2;", "register %never"),
    "special register as a result": ("mov.u32 %tid.x, %r1;", "destination .*tid"),
    "strong access to local memory": ("st.relaxed.cta.local.u32 [own], %r1;", "strong access to local memory"),
    "store to constant memory": ("st.const.u32 [constants], %r1;", "store to constant memory"),
    "redux of a type it has not": ("redux.sync.and.u32 %r1, %r2, -1;", r"form redux\.sync\.and\.u32"),
    "wide access": ("ld.global.v8.u64 {%a, %a, %a, %a, %a, %a, %a, %a}, [%a];", "64 byte access"),
    "wide access to shared memory": ("ld.shared.v4.u64 {%a, %a, %a, %a}, [%r1];", "32 byte access"),
    "bulk reduction": (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a], [%r1], 16;",
        "cp.reduce, a copy that adds to what is there",
    ),
    "fence of some memory": (
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        r"fence of some memory only \(\.sync_restrict, for clusters\)",
    ),
    "flushing where nothing is flushed": ("selp.ftz.f32 %r1, %r1, %r2, %p1;", r"form selp\.ftz\.f32"),
    "carry of a short type": ("add.cc.u16 %r1, %r2, %r3;", r"form add\.cc\.u16"),
    "sums of vectors in shared memory": ("red.shared.add.v2.f32 [%r1], {%r2, %r3};", "red.shared.add.v2.f32 here"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_the_emulator_does_not_know_is_an_error_at_load(what: str) -> None:
    text, named = UNKNOWN[what]
    ptx = ptx_kernel(f"mov.u32 %r1, 0;\n{text}\nret;", registers=".local .b32 own;").replace(
        ".visible",
        ".const .b32 constants = 5;\n.global .b32 variable;\n.func module_function() { ret; }\n"
        ".extern .func function_of_others();\n.visible",
    )
    with pytest.raises(PtxError, match=named) as error:
        EmulatedProgram("test.ptx", {}, ptx)
    message = str(error.value)
    assert "\n" not in message
    assert f"PTX line {ptx.splitlines().index(text) + 1}" in message
    assert text.rstrip(";") in message


def test_the_same_program_without_it_loads() -> None:
    """Negative control."""
    parameters = ptx_program("mov.u32 %r1, 0;\nret;").kernel("k").parameters
    assert [parameter.type for parameter in parameters] == ["u64", "u64", "u64"]


def test_every_line_of_generated_code_knows_its_instruction() -> None:
    lowered = lower(function_of("mov.u32 %r1, 5; st.global.u32 [%b], %r1; ret;"))
    texts = lowered.source.splitlines()
    named = {lowered.instructions[n].opcode for n, text in enumerate(texts, 1) if n in lowered.instructions and text}
    assert named == {"ld", "mov", "st", "ret"}


@pytest.mark.parametrize(
    ("spans", "nested"),
    [
        ({(0, 2), (1, 3)}, ((0, 3),)),
        ({(0, 2), (2, 4), (4, 5)}, ((0, 5),)),
        ({(0, 3), (1, 2)}, ((0, 3), (1, 2))),
        ({(0, 1), (2, 3)}, ((0, 1), (2, 3))),
    ],
)
def test_loops_that_overlap_partly_are_one(spans: set[tuple[int, int]], nested: tuple[tuple[int, int], ...]) -> None:
    """Those within one another stay two."""
    assert _nested(spans) == nested
