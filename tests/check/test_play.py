"""What a scenario can describe comes to the kernel as it is written."""

import numpy as np
import pytest

from pcietool.check import HostView, Kernel, World
from pcietool.errors import ScenarioError
from tests.check.checking import PRELUDE, checked, kernel, one, word


def test_grids_and_blocks_of_three_dimensions() -> None:
    body = """
    u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    u32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    u32 threads = blockDim.x * blockDim.y * blockDim.z;
    a[block * threads + thread] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z
        + 1000 * blockIdx.x + 10000 * blockIdx.y + 100000 * blockIdx.z;
    """

    def play(w: World) -> None:
        a = w.one("a", "u4", 2 * 3 * 2 * 2 * 4)
        w.launch([a], grid=(2, 3), block=(2, 2, 4))
        blocks = [1000 * x + 10000 * y for y in range(3) for x in range(2)]
        threads = [x + 10 * y + 100 * z for z in range(4) for y in range(2) for x in range(2)]
        w.expect(a, [block + thread for block in blocks for thread in threads])

    result = checked(one(kernel(body, "u32* a"), play), engine="timing,random", quick=True, seeds=3)
    assert result.details["findings"] == []


def test_structs_tables_and_numbers() -> None:
    structs = """
    struct Both { u32* of[2]; unsigned short small; double real; };
    """
    body = "a.of[rank][0] = a.small + (u32)a.real + *table[1 - rank] + (u32)half;"

    def play(w: World) -> None:
        values = w.each("values", "u4", 2, lambda r: [0, 0])
        other = w.each("other", "u4", 1, lambda r: 100 * (r + 1))
        w.launch(lambda r: [w.struct(values, np.uint16(7), np.float64(3.0)), w.pointers(other), r, 2.5])
        w.expect(values, lambda r: [7 + 3 + 100 * (2 - r) + 2, 0])

    what = kernel(body, "Both a, u32** table, u32 rank, float half")
    assert what.text is not None
    object.__setattr__(what, "text", what.text.replace('extern "C"', structs + 'extern "C"', 1))
    assert word(checked(one(what, play, ranks=2))) == "PASS"


def test_what_the_host_does_between_launches() -> None:
    def play(w: World) -> None:
        a = w.one("a", "u4", 2, [1, 2])

        def doubles(host: HostView) -> None:
            host.write(a, 2 * host.read(a))

        w.launch([a])
        w.expect(a, [2, 2])
        w.between(doubles)
        w.launch([a])
        w.write(a[0], [9, 9])
        w.launch([a])
        w.expect(a, [10, 9])

    assert word(checked(one(kernel("a[0] += 1;", "u32* a"), play))) == "PASS"


def test_a_graph_is_replayed_with_the_arguments_of_the_first_time() -> None:
    def play(w: World) -> None:
        a = w.one("a", "u4", 4)
        with w.graph(replays=3):
            w.launch([a, 2])
        w.expect(a, [0, 0, 3, 0])

    assert word(checked(one(kernel("a[b] += 1;", "u32* a, u32 b"), play))) == "PASS"


def test_part_of_an_array_and_pinned_memory_are_passed() -> None:
    def play(w: World) -> None:
        a, host = w.one("a", "u4", 4), w.pinned("host", "u4", 2)
        w.launch([a[0].at(2), host])
        w.expect(a, [0, 0, 5, 0])
        w.expect(host, [6, 0])

    assert word(checked(one(kernel("*a = 5; *b = 6;", "u32* a, u32* b"), play))) == "PASS"


def test_expectations_of_each_kind_can_fail() -> None:
    def play(w: World, fails: str) -> None:
        a = w.each("a", "f4", 2)
        w.launch(lambda r: [a[r], r])
        if fails == "tolerance":
            w.expect(a, lambda r: [1.0 + 1e-3, 0.0], tolerance=1e-4)
        elif fails == "same":
            w.expect_same(a)
        elif fails == "that":
            w.expect_that(a, lambda values, rank: values[1] > 0.5, "above a half")
        else:
            w.expect_one_of({a: [2.0, 0.0]}, {a: [3.0, 0.0]})

    body = "a[0] = 1; a[1] = r * 1e-5f;"
    for fails in ("tolerance", "same", "that", "one of"):
        scenario = one(kernel(body, "float* a, u32 r"), lambda w: play(w, fails), ranks=2)  # noqa: B023
        assert word(checked(scenario, quick=True)) == "WRONG DATA", fails

    def right(w: World) -> None:
        a = w.each("a", "f4", 2)
        w.launch(lambda r: [a[r], 0])
        w.expect(a, [1.0 + 1e-6, 0.0], tolerance=1e-4)
        w.expect_same(a)

    assert word(checked(one(kernel(body, "float* a, u32 r"), right, ranks=2))) == "PASS"


def test_more_ranks_than_the_fabric_has_gpus_are_refused() -> None:
    def play(w: World) -> None:
        a = w.each("a", "u4")
        w.launch(lambda r: [a[r]])
        w.expect(a, 1)

    with pytest.raises(ScenarioError, match=r"has 6 ranks.*4 GPUs.*--fabric"):
        checked(one(kernel("*a = 1;", "u32* a"), play, ranks=6))


VARIABLES = """
__device__ u32 counter;
__device__ u32 five = 5;
__constant__ u32 table[2] = {1, 3};
extern "C" __global__ void k(u32* a) {
    atomicAdd(&counter, 1u);
    __syncthreads();
    if (threadIdx.x == 0) a[0] = counter + five;
    a[1] = table[1];
}
"""


def test_variables_of_the_module_have_their_values_on_every_rank_and_in_every_run() -> None:
    def play(w: World) -> None:
        a = w.each("a", "u4", 2)
        for _ in range(2):
            w.launch(lambda r: [a[r]], block=2)
        w.expect(a, [4 + 5, 3])

    result = checked(one(Kernel("k.cu", "k", text=PRELUDE + VARIABLES), play, ranks=2))
    assert word(result) == "RACE"  # a[1], by both threads
    assert "a of rank" in result.verdict
    alone = VARIABLES.replace("    a[1] =", "    if (threadIdx.x == 0) a[1] =")
    assert word(checked(one(Kernel("k.cu", "k", text=PRELUDE + alone), play, ranks=2))) == "PASS"
