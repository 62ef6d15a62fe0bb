"""Which programs may have outcomes that the model does not show. That no others have: test_against_axioms."""

import pytest

from pcietool.litmus.gaps import LOAD_BUFFERING, RACING_RMWS, RACING_WRITES, gaps
from pcietool.litmus.text.library import find, load
from pcietool.litmus.text.parse import parse_litmus


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lb-relaxed.sys-gpus", [LOAD_BUFFERING]),
        ("mp-release.sys-acquire.sys-gpus", []),
        ("mp-spin-gpus", []),
        ("2+2w-weak-gpus", [RACING_WRITES]),
        ("2+2w-relaxed.sys-gpus", []),
        ("rmw-add.sys-gpus", []),
        ("rmw-add.gpu-gpus", [RACING_RMWS]),
        ("rmw-weak-store-between-gpus", [RACING_RMWS]),
        ("barrier-slots-gpus", []),
        ("election-3-blocks-3-consumers", []),
        ("bulk-wait_group-gpus", []),
    ],
)
def test_gaps_of(name: str, expected: list[str]) -> None:
    assert gaps(load(find([name])[0])) == expected


@pytest.mark.parametrize(("place", "expected"), [("y", [RACING_WRITES]), ("x", [])])
def test_a_copy_and_a_store_of_its_own_thread_may_race(place: str, expected: list[str]) -> None:
    rows = "\n".join(f"{row} ;" for row in (f"st.weak {place}, 1", "cp.async.bulk [y], [x]"))
    assert gaps(parse_litmus(f"PTX t\n{{ x=0; y=0; }}\nP0@cta 0,gpu 0 ;\n{rows}\nexists (y=0)")) == expected


@pytest.mark.parametrize(
    ("body", "buffers"),
    [
        ("st.relaxed.sys y, r0 ; LC00: ld.relaxed.sys r0, x ;", False),
        ("LC00: st.relaxed.sys y, r0 ; ld.relaxed.sys r0, x ; goto LC00 ;", True),
    ],
)
def test_a_branch_back_lets_a_store_follow_a_load(body: str, buffers: bool) -> None:
    other = "ld.relaxed.sys r0, y ; st.relaxed.sys x, 1 ; ld r1, 0 ;"
    rows = [" | ".join(pair) + " ;" for pair in zip(body.split(";")[:-1], other.split(";"), strict=False)]
    text = "PTX loop\n{ x=0; y=0; P0:r0=0; }\nP0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n" + "\n".join(rows) + "\nexists (x=0)"
    assert (LOAD_BUFFERING in gaps(parse_litmus(text))) is buffers
