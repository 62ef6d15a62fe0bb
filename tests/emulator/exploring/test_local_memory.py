"""Arrays of a thread's own while exploring: part of its state, and nobody else's."""

from collections.abc import Sequence

import pytest

from pcietool.check import World
from tests.check.checking import checked, kernel, one, word

READS = kernel(
    """
    u32 mine[4];
    for (u32 i = 0; i < 4; ++i) mine[i] = load_relaxed_sys(a + i);
    out[0] = mine[b & 3] * 10 + mine[(b + 1) & 3];
    """,
    "u32* a, u32 b, u32* out",
)
WRITES = kernel("store_relaxed_sys(a + 1, 5); store_relaxed_sys(a + 2, 7);", "u32* a", "writes")
POSSIBLE = [0, 7, 50, 57]


def verdict(expected: Sequence[int]) -> str:
    """One thread copies an array to read it later, while another one writes two of its words."""

    def reads(w: World) -> None:
        a, out = w.one("a", "u4", 4), w.one("out", "u4", 1, 99)
        w.launch([a, 1, out])
        w.launch([a], kernel=WRITES, stream=1)
        w.expect_that(out, lambda values, rank: values[0] in expected, f"one of {expected}")

    return word(checked(one(READS, reads), engine="explore", quick=True))


@pytest.mark.parametrize("missing", POSSIBLE)
def test_executions_that_differ_in_local_memory_alone_are_told_apart(missing: int) -> None:
    assert verdict(POSSIBLE) == "PASS"
    assert verdict([value for value in POSSIBLE if value != missing]) == "WRONG DATA"
