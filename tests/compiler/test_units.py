"""What people bring compiles as it is, or one line says what is missing."""

from pathlib import Path

import pytest

from pcietool.compiler import Unit, compile_unit, unit_of_file
from pcietool.errors import CompileError, UsageError

SM = (9, 0)


def unit(text: str, *entries: str, **options: object) -> Unit:
    return Unit("mine.cu", text, entries=entries, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "entry", "name"),
    [
        ('extern "C" __global__ void k(int* a) { *a = 1; }', "k", "k"),
        ("__global__ void k(int* a) { *a = 1; }", "k", "_Z1kPi"),
        ("namespace ns { template <typename T, int N> __global__ void k(T* a) { *a = N; } }", "ns::k<float, 3>", None),
        ("namespace ns { __global__ void k(int* a) { *a = 1; } }", "ns::k", "_ZN2ns1kEPi"),
    ],
)
def test_a_kernel_is_found_by_its_name_in_cpp(text: str, entry: str, name: str | None) -> None:
    compiled = compile_unit(unit(text, entry), SM)
    found = compiled.entries[entry]
    assert f".entry {found}(" in compiled.ptx
    assert name in (None, found)


@pytest.mark.parametrize(
    "text",
    [
        '#include <cuda_fp16.h>\nextern "C" __global__ void k(__half* a) { a[0] = __hadd(a[0], a[1]); }',
        '#include <cstdint>\n#include <vector>\nextern "C" __global__ void k(uint32_t* a) { *a = std::uint32_t(1); }',
        '#include <type_traits>\n#include <algorithm>\nextern "C" __global__ void k(int* a)'
        " { static_assert(std::is_same<int, int>::value); a[0] = std::min(a[1], a[2]); }",
        '#include <cassert>\n#include <cstdio>\nextern "C" __global__ void k(int* a) { assert(a); printf("%d", *a); }',
    ],
)
def test_headers_of_cuda_and_of_the_host_can_be_included(text: str) -> None:
    assert ".entry k(" in compile_unit(unit(text, "k"), SM).ptx


def test_includes_and_macros_are_those_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "far.cuh").write_text("#pragma once\nconstexpr int FAR = 40;\n")
    (tmp_path / "near.cuh").write_text("#pragma once\nconstexpr int NEAR = 2;\n")
    source = tmp_path / "mine.cu"
    source.write_text(
        '#include "near.cuh"\n#include <far.cuh>\n'
        'extern "C" __global__ void k(int* a) { *a = FAR + NEAR + MORE; static_assert(FAR + NEAR + MORE == 45); }'
    )
    of_file = unit_of_file(source)
    options = {"include": (tmp_path / "inc",), "define": {"MORE": 3}}
    found = compile_unit(Unit(of_file.name, of_file.text, entries=("k",), folder=of_file.folder, **options), SM)  # type: ignore[arg-type]
    assert '"mine.cu"' in found.ptx


def test_ptx_is_taken_as_it_is() -> None:
    compiled = compile_unit(unit("__global__ void k(int* a) { *a = 1; }", "k"), SM)
    again = compile_unit(Unit("mine.ptx", compiled.ptx, "ptx", entries=("k", "_Z1kPi")), SM)
    assert again.entries == {"k": "_Z1kPi", "_Z1kPi": "_Z1kPi"}
    assert again.ptx == compiled.ptx


@pytest.mark.parametrize(
    ("text", "entry", "said"),
    [
        ('extern "C" __global__ void k(int* a) { *a = 1; }', "q", "has no kernel 'q'; it has k"),
        ("template <int N> __global__ void k(int* a) { *a = N; }", "q<3>", "has no kernel 'q<3>'"),
        ("template <int N> __global__ void k(int* a) { *a = N; }", "k", "a template needs its arguments"),
        (
            '#include "nope.cuh"\n__global__ void k(int* a) { *a = 1; }',
            "k",
            "there is no nope.cuh to include; searched",
        ),
        ("__global__ void k(int* a) {}\nint main() { k<<<1, 1>>>(nullptr); }", "k", "line 2 launches a kernel"),
        ("__global__ void k(int* a) { *a = b; }", "k", "mine.cu(1): error"),
    ],
)
def test_what_does_not_compile_is_explained_in_its_first_line(text: str, entry: str, said: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_unit(unit(text, entry), SM)
    assert said in str(refused.value).partition("\n")[0]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.o"
    path.write_text("no object")
    with pytest.raises(UsageError, match=r"cannot compile a \.o"):
        unit_of_file(path)
    (tmp_path / "mine.cu").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        unit_of_file(tmp_path / "mine.cu")
