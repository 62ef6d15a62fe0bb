from threading import Event

import pytest

from pcietool.compiler import Compiled, compile_source, nvrtc_info
from pcietool.compiler.compile import ended
from pcietool.errors import CompileError
from pcietool.ptx.parser import parse

STORE = """#include "slots.cuh"
#ifndef VALUE
#define VALUE 1
#endif
extern "C" __global__ void store(u32* word) { store_release_sys(word, VALUE); }
"""


def test_one_compile_gives_ptx_and_cubin() -> None:
    compiled = compile_source(STORE, name="store.cu", architecture=(9, 0), defines={"VALUE": 4711})
    assert compiled.architecture == "sm_90"
    assert ".target sm_90" in compiled.ptx
    assert "st.release.sys.global.u32" in compiled.ptx
    assert "4711" in compiled.ptx
    assert "\0" not in compiled.ptx
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.nvrtc == nvrtc_info()
    assert compiled.nvrtc.version[0] >= 12


def test_needs_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = compile_source(STORE, name="store.cu", architecture="sm_80", defines={}).ptx
    for variable in ("CUDA_HOME", "CUDA_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert compile_source(STORE, name="store.cu", architecture="sm_80", defines={}).ptx == expected


def test_line_information_names_the_sources_plainly() -> None:
    compiled = compile_source(STORE, name="store.cu", architecture="sm_90", defines={})
    kernel = parse(compiled.ptx).functions["store"]
    sources = {i.source.file for block in kernel.blocks for i in block.instructions if i.source}
    assert sources == {"store.cu", "slots.cuh"}


def test_an_error_names_file_and_line_first_and_the_log_follows() -> None:
    with pytest.raises(CompileError) as caught:
        compile_source("\nint f() { return missing; }", name="bad.cu", architecture="sm_90", defines={})
    first, *log = str(caught.value).splitlines()
    assert first == 'NVRTC refused bad.cu for sm_90: bad.cu(2): error: identifier "missing" is undefined'
    assert any("1 error detected" in line for line in log)


def test_an_include_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(CompileError, match=r"bad\.cu\(1\): catastrophic error: .*cstdint"):
        compile_source("#include <cstdint>\n", name="bad.cu", architecture="sm_90", defines={})


def test_a_misspelt_instruction_is_traced_to_its_cuda_line() -> None:
    source = STORE.replace(
        "store_release_sys(word, VALUE);", '\n    asm volatile("st.releese.sys.global.u32 [%0], 1;" ::"l"(word));'
    )
    with pytest.raises(CompileError, match=r"bad\.cu\(6\): error: .*'\.releese' in `st\.releese\.sys"):
        compile_source(source, name="bad.cu", architecture="sm_90", defines={})


def test_a_gpu_newer_than_nvrtc() -> None:
    with pytest.raises(CompileError, match=r"^NVRTC \d+\.\d+ supports up to sm_\d+, GPU is sm_990: pip install -U"):
        compile_source(STORE, name="store.cu", architecture=(99, 0), defines={})


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ("sm_20", "supports sm_.. and newer, GPU is sm_20"),
        ("sm_91", "does not know sm_91; it knows .*sm_90"),
        ("compute_90", "is no GPU architecture"),
        ("sm_90 --help", "is no GPU architecture"),
    ],
)
def test_an_architecture_that_cannot_be(architecture: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_source(STORE, name="store.cu", architecture=architecture, defines={})


def test_a_warning_stays_in_the_log() -> None:
    source = STORE.replace("{ store", "{ int unused; store")
    assert "unused" in compile_source(source, name="store.cu", architecture="sm_90", defines={}).log
    assert compile_source(STORE, name="store.cu", architecture="sm_90", defines={}).log == ""


def test_what_takes_too_long_is_given_up() -> None:
    forever = Event()

    def never() -> Compiled:
        forever.wait()
        raise AssertionError

    with pytest.raises(CompileError, match=r"^mine.cu after 0.01 s$"):
        ended(never, "mine.cu after {limit}", limit_s=0.01)
    forever.set()
