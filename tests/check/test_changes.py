"""What counts as one step weaker, and as stronger, instruction by instruction."""

import pytest

from pcietool.check import Kernel, World
from pcietool.check.changing import widths
from pcietool.check.changing.changes import changes
from pcietool.check.changing.edits import Edit
from pcietool.check.changing.strengthen import strengthenings
from pcietool.check.changing.weaken import weakenings
from pcietool.check.running.sources import Sources
from pcietool.ptx.model import Instruction
from tests.check.checking import checked, forms_after, kernel, module_of, one, word


@pytest.mark.parametrize(
    ("instruction", "weaker"),
    [
        ("st.release.sys.global.u32 [%0], 1;", {"st.relaxed.sys.global.u32", "st.release.gpu.global.u32"}),
        ("st.relaxed.gpu.global.u32 [%0], 1;", {"st.global.u32", "st.relaxed.cta.global.u32"}),
        ("st.volatile.global.u32 [%0], 1;", {"st.global.u32"}),
        ("st.global.u32 [%0], 1;", set()),
        (
            "red.release.gpu.global.add.u32 [%0], 1;",
            {"red.relaxed.gpu.global.add.u32", "red.release.cta.global.add.u32"},
        ),
        ("fence.acq_rel.cta;", {""}),
        ("fence.acq_rel.gpu;", {"", "fence.acq_rel.cta"}),
        ("fence.sc.gpu;", {"", "fence.sc.cta", "fence.acq_rel.gpu"}),
        ("membar.sys;", {"", "fence.sc.gpu"}),
        ("fence.proxy.async;", {""}),
        ("bar.sync 0;", {""}),
        ("bar.warp.sync 0xffffffff;", {""}),
    ],
)
def test_an_ordering_is_weakened_by_one_step(instruction: str, weaker: set[str]) -> None:
    _, module = module_of(f'asm volatile("{instruction}" :: "l"(a) : "memory");')
    assert {edit.form for edit in weakenings(module)} == weaker


def test_both_halves_of_acq_rel_are_asked_for() -> None:
    body = 'u32 r; asm volatile("atom.acq_rel.sys.global.add.u32 %0, [%1], 1;" : "=r"(r) : "l"(a) : "memory"); *b = r;'
    _, module = module_of(body)
    assert [edit.about for edit in weakenings(module)] == [
        "acq_rel -> acquire",
        "acq_rel -> release",
        "system scope -> GPU scope",
    ]


def test_copies_of_one_line_are_changed_together_and_calls_apart() -> None:
    unrolled = "#pragma unroll\nfor (int i = 0; i < 3; ++i) store_release_sys(a + i, 2);"
    ptx, module = module_of(f"store_release_sys(a, 1);\nstore_release_sys(b, 1);\n{unrolled}")
    relaxed = [edit for edit in weakenings(module) if edit.about == "release -> relaxed"]
    assert [edit.site.own_place for edit in relaxed] == ["k.cu:3", "k.cu:4", "k.cu:6"]
    assert [len(edit.site.copies) for edit in relaxed] == [1, 1, 3]
    after = forms_after(ptx, relaxed[2])
    assert (after.count("st.relaxed.sys.global.u32"), after.count("st.release.sys.global.u32")) == (3, 2)


def test_a_predicated_instruction_keeps_its_predicate() -> None:
    guarded = "{ .reg .pred p; setp.eq.u64 p, %0, 0; @!p st.release.sys.global.u32 [%0], 1; }"
    ptx, module = module_of(f'asm volatile("{guarded}" :: "l"(a) : "memory");')
    relaxed = next(edit for edit in weakenings(module) if edit.about == "release -> relaxed")
    assert relaxed.of("@!p st.release.sys.global.u32 [%rd1], 1", 7) == "@!p st.relaxed.sys.global.u32 [%rd1], 1"
    assert "st.relaxed.sys.global.u32" in forms_after(ptx, relaxed)


def test_a_weak_load_may_become_an_acquire_or_have_a_fence_or_barrier_beside_it() -> None:
    ptx, module = module_of("*b = *a;")
    found = [edit for edit in strengthenings(module, ("sys",)) if edit.site.instruction.form.startswith("ld.global")]
    assert {edit.form or edit.before or edit.after for edit in found} == {
        "ld.acquire.sys.global.u32",
        "bar.sync 0",
        "bar.warp.sync 0xffffffff",
        "fence.acq_rel.sys",
    }
    assert [edit.cost for edit in found] == sorted(edit.cost for edit in found)
    for edit in found:
        assert forms_after(ptx, edit) != forms_after(ptx, Edit(edit.site, "the same"))


def test_kernels_of_the_file_that_are_not_launched_are_left_alone() -> None:
    text = (
        '#include "slots.cuh"\nextern "C" __global__ void k(u32* a) { store_release_sys(a, 1); }\n'
        'extern "C" __global__ void other(u32* a) { store_release_sys(a, 2); }\n'
    )

    def plays(w: World) -> None:
        a = w.one("a", "u4")
        w.launch([a])
        w.expect(a, 1)

    scenario = one(Kernel("two.cu", "k", text=text), plays)
    sources = Sources(scenario.described(scenario.sizes()[0]), (9, 0))
    assert {change.edits[0].site.own_place for change in changes(sources, weakenings)} == {"two.cu:2"}


@pytest.mark.parametrize(
    ("instruction", "parts"),
    [
        (
            "st.relaxed.sys.global.v2.u32 [%rd1+8], {%r1, %r2}",
            "st.relaxed.sys.global.u32 [%rd1+8], %r1; st.relaxed.sys.global.u32 [%rd1+12], %r2",
        ),
        (
            "@%p1 ld.volatile.global.v2.u64 {%rd1, %rd2}, [%rd1]",
            "@%p1 ld.volatile.global.u64 %rd2, [%rd1+8]; @%p1 ld.volatile.global.u64 %rd1, [%rd1]",
        ),
        (
            "st.release.sys.global.u64 [%rd1], %rd2",
            ".reg .b32 %lower_9, %upper_9; mov.b64 {%lower_9, %upper_9}, %rd2;"
            " st.release.sys.global.b32 [%rd1], %lower_9; st.release.sys.global.b32 [%rd1+4], %upper_9",
        ),
        (
            "@!%p1 ld.acquire.sys.global.b64 %rd2, [%rd1+16]",
            ".reg .b32 %lower_9, %upper_9; @!%p1 ld.acquire.sys.global.b32 %lower_9, [%rd1+16];"
            " @!%p1 ld.acquire.sys.global.b32 %upper_9, [%rd1+20]; @!%p1 mov.b64 %rd2, {%lower_9, %upper_9}",
        ),
    ],
)
def test_one_access_in_parts(instruction: str, parts: str) -> None:
    bare = instruction.rpartition("@")[2].partition(" ")[2] if instruction.startswith("@") else instruction
    opcode, _, modifiers = bare.partition(" ")[0].partition(".")
    found = Instruction(opcode, tuple(modifiers.split(".")), (), None, 9, instruction)
    assert widths.parts(found, instruction, 9) == parts


PACKET = """
    if (rank == 0) {
        STORE
    } else {
        u32 value, flag;
        do {
            LOAD
        } while (flag != 1);
        *out = value;
    }
"""
VECTORS = (
    'asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1, %2};" :: "l"(packet), "r"(77), "r"(1) : "memory");',
    'asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];" : "=r"(value), "=r"(flag) : "l"(packet) : "memory");',
)
WORDS = (
    'asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(packet), "l"(77ull | 1ull << 32) : "memory");',
    'u64 both; asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(both) : "l"(packet) : "memory");'
    " value = (u32)both; flag = both >> 32;",
)


@pytest.mark.parametrize("accesses", [VECTORS, WORDS])
def test_data_and_flag_in_one_access_need_its_width(accesses: tuple[str, str]) -> None:
    body = PACKET.replace("STORE", accesses[0]).replace("LOAD", accesses[1])

    def send(w: World) -> None:
        packet, out = w.one("packet", "u8", rank=1), w.one("out", "u4", rank=1)
        w.launch(lambda r: [packet, out, r])
        w.expect(out, 77)

    result = checked(one(kernel(body, "u64* packet, u32* out, u32 rank"), send, ranks=2))
    assert word(result) == "PASS"
    widths_needed = [one["is"] for one in result.details["orderings"] if one["change"] == "in 2 accesses, not one"]
    assert widths_needed == ["needed", "needed"]
