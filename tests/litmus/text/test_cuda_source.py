"""That a litmus test becomes the PTX it stands for, and what cannot become a kernel says why."""

import re
from pathlib import Path

import pytest

from pcietool.compiler import compile_source
from pcietool.litmus.text.cuda_source import cuda_source, gpus_of, has_loop, inexpressible, result_rows
from pcietool.litmus.text.library import load, packaged
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import LitmusTest

EXPRESSIBLE = [path for path in packaged() if not inexpressible(load(path))]


def litmus_test(
    body: str, condition: str = "exists (x = 0)", initial: str = "x=0; y=0;", places: str = "P0@cta 0,gpu 0"
) -> LitmusTest:
    return parse_litmus(f"PTX test\n{{ {initial} }}\n{places} ;\n{body}\n{condition}\n")


def ptx_of(test: LitmusTest) -> list[str]:
    """Every PTX instruction on global memory, and every fence, in the order of the text."""
    ptx = compile_source(cuda_source(test), name="test", architecture="sm_90", defines={}).ptx
    body = ptx[ptx.index(".entry gpu0") :]
    return re.findall(r"^\s*((?:ld|st|atom|red|fence|membar)\b\S*(?:global\.)?\S*)", body, re.MULTILINE)


@pytest.mark.parametrize(
    ("litmus", "ptx"),
    [
        ("ld.weak r0, x", "ld.global.u32"),
        ("ld.volatile r0, x", "ld.volatile.global.u32"),
        ("ld.relaxed.cta r0, x", "ld.relaxed.cta.global.u32"),
        ("ld.sys.acquire r0, x", "ld.acquire.sys.global.u32"),
        ("st.weak x, 1", "st.global.u32"),
        ("st.volatile x, 1", "st.volatile.global.u32"),
        ("st.relaxed.gpu x, 1", "st.relaxed.gpu.global.u32"),
        ("st.release.sys x, 1", "st.release.sys.global.u32"),
        ("atom.add r0, x, 1", "atom.relaxed.gpu.global.add.u32"),
        ("atom.acq_rel.sys.exch r0, x, 1", "atom.acq_rel.sys.global.exch.b32"),
        ("atom.acquire.cta.cas r0, x, 0, 1", "atom.acquire.cta.global.cas.b32"),
        ("atom.release.sys.or r0, x, 1", "atom.release.sys.global.or.b32"),
        ("red.release.sys.sub x, 1", "red.release.sys.global.add.u32"),
        ("red.xor x, 1", "red.relaxed.gpu.global.xor.b32"),
        ("fence.acq_rel.gpu", "fence.acq_rel.gpu;"),
        ("fence.sc.sys", "fence.sc.sys;"),
        ("membar.gl", "membar.gl;"),
    ],
)
def test_every_instruction_is_the_ptx_it_stands_for(litmus: str, ptx: str) -> None:
    """Beside what the harness itself does, which the same test with an addition instead shows."""
    without, having = (ptx_of(litmus_test(f"{one} ;")) for one in ("add r5, 1, 1", litmus))
    assert having.count(ptx) == without.count(ptx) + 1


@pytest.mark.parametrize("path", EXPRESSIBLE, ids=lambda path: path.stem)
def test_every_packaged_test_compiles(path: Path) -> None:
    test = load(path)
    compiled = compile_source(cuda_source(test), name=path.name, architecture="sm_90", defines={})
    assert compiled.log == ""
    assert all(f".entry gpu{number}(" in compiled.ptx for number in range(len(gpus_of(test))))


def test_a_packaged_test_is_kept_from_machines_by_what_they_have_no_instruction_for() -> None:
    left_out = {path.stem: inexpressible(load(path)) for path in packaged() if path not in EXPRESSIBLE}
    families = {"bar": "block barrier", "barrier": "block barrier", "bulk": "bulk copies", "rmw": "not native"}
    assert {name.split("-")[0] for name in left_out} == set(families)
    assert all(families[name.split("-")[0]] in (reason or "") for name, reason in left_out.items())
    assert "bar-sync-mp-cta" in left_out
    assert 100 < len(EXPRESSIBLE) < len(packaged())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("bar.cta.sync 0 ;", "may block"),
        ("red.exch x, 1 ;", "red.exch"),
    ],
)
def test_what_no_kernel_can_stand_for_says_why(body: str, reason: str) -> None:
    assert reason in (inexpressible(litmus_test(body)) or "")


def test_a_branch_back_is_a_loop_and_gives_up_at_the_deadline() -> None:
    forwards = litmus_test("beq 0, 1, LC00 ; st.weak x, 1 ; LC00: ;")
    backwards = litmus_test("LC00: ld.weak r0, x ; beq r0, 0, LC00 ;")
    assert (has_loop(forwards), has_loop(backwards)) == (False, True)
    assert "too_late(deadline, 0, ++jumps)" in cuda_source(backwards)
    assert "too_late" not in cuda_source(forwards)


def test_threads_keep_their_blocks_and_gpus() -> None:
    places = "P0@cta 1,gpu 3 | P1@cta 0,gpu 1 | P2@cta 1,gpu 3 | P3@cta 2,gpu 3"
    row = " | ".join(["ld.weak r0, x"] * 4)
    test = litmus_test(f"{row} ;", "exists (P3:r0 = 0 /\\ x = 0 /\\ P0:r0 = 0)", places=places)
    assert [gpu.blocks for gpu in gpus_of(test)] == [((1,),), ((0, 2), (3,))]
    assert [[item.name for item in rows] for rows in result_rows(test)] == [[], ["P3:r0", "P0:r0"]]
