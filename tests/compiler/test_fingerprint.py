"""What changes the hashes of a kernel, and what does not."""

import pytest

from pcietool.compiler import compile_source
from pcietool.compiler.fingerprint import source_sha256

HEADER = "constexpr unsigned STEP = 2;\n__device__ __forceinline__ unsigned next(unsigned x) { return x + STEP; }\n"
SOURCE = """#include "step.cuh"
#ifndef TWICE
#define TWICE 0
#endif
extern "C" __global__ void advance(unsigned* word) {
    *word = TWICE ? next(next(*word)) : next(*word);
}
"""


def ptx(header: str = HEADER, source: str = SOURCE, **defines: int) -> str:
    text = source.replace('#include "step.cuh"\n', header)
    return compile_source(text, name="advance.cu", architecture="sm_90", defines=defines).ptx_sha256


@pytest.mark.parametrize(
    ("header", "source"),
    [
        ("// Two at once.\n\n" + HEADER, SOURCE),
        (HEADER, SOURCE.replace("*word = ", "\n        // what comes next\n        *word = ")),
        (HEADER.replace("STEP", "STRIDE"), SOURCE.replace("word", "counter")),
        (HEADER + "constexpr unsigned UNUSED = 7;\n__device__ unsigned idle() { return UNUSED; }\n", SOURCE),
    ],
    ids=["header comment", "comment and lines", "names", "what nobody uses"],
)
def test_what_changes_no_instruction_changes_no_ptx_hash(header: str, source: str) -> None:
    assert ptx(header, source) == ptx()


@pytest.mark.parametrize(
    "changed",
    [
        {"header": HEADER.replace("= 2", "= 3")},
        {"source": SOURCE.replace("next(*word);", "next(*word) + 1;")},
        {"source": SOURCE.replace("unsigned* word", "volatile unsigned* word")},
        {"TWICE": 1},
    ],
    ids=["constant", "arithmetic", "volatile", "define"],
)
def test_what_changes_an_instruction_changes_the_ptx_hash(changed: dict[str, str | int]) -> None:
    assert ptx(**changed) != ptx()  # type: ignore[arg-type]


def test_a_constant_that_is_read_from_memory_counts() -> None:
    table = "__constant__ unsigned TABLE[2] = {1, 2};\n"
    source = SOURCE.replace("next(*word);", "TABLE[*word];")
    assert ptx(table + HEADER, source) != ptx(table.replace("2}", "3}") + HEADER, source)


@pytest.mark.parametrize(
    ("header", "source"),
    [
        ("// Two at once.\n" + HEADER, SOURCE),
        (HEADER, SOURCE.replace("word) {\n    ", "word)\n{ /* once\n or twice */ ")),
        (HEADER, SOURCE.replace("#define TWICE 0", "#define  TWICE \\\n  0 // or 1")),
    ],
    ids=["header comment", "layout", "directive"],
)
def test_comments_and_layout_change_no_source_hash(header: str, source: str) -> None:
    assert source_sha256(source, {"step.cuh": header}) == source_sha256(SOURCE, {"step.cuh": HEADER})


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (HEADER.replace("= 2", "= 3"), SOURCE),
        (HEADER, SOURCE.replace("TWICE 0", "TWICE 1")),
        (HEADER, SOURCE.replace('"C"', '"C++"')),
        (HEADER, SOURCE.replace("#endif\n", "#endif ")),
        (HEADER, SOURCE.replace('#include "step.cuh"\n', "")),
    ],
    ids=["header", "macro", "string", "end of a directive", "include"],
)
def test_tokens_change_the_source_hash(header: str, source: str) -> None:
    assert source_sha256(source, {"step.cuh": header}) != source_sha256(SOURCE, {"step.cuh": HEADER})


def test_a_header_that_is_not_included_does_not_count() -> None:
    headers = {"step.cuh": HEADER, "other.cuh": "int x;"}
    assert source_sha256(SOURCE, headers) == source_sha256(SOURCE, {"step.cuh": HEADER})


def test_headers_include_each_other_once() -> None:
    headers = {"step.cuh": '#pragma once\n#include "base.cuh"\n', "base.cuh": '#include "step.cuh"\nint x;\n'}
    changed = headers | {"base.cuh": headers["base.cuh"].replace("x", "y")}
    assert source_sha256(SOURCE, headers) != source_sha256(SOURCE, changed)
