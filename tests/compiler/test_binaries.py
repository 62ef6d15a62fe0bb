"""PTX out of binaries, as nvcc keeps it: which of several a GPU would be given, and what is said without any."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from cuda.bindings import nvfatbin

from pcietool.compiler import compile_source, compile_unit, unit_of_file
from pcietool.compiler.binaries import cuobjdump, ptx_of_binary
from pcietool.errors import CompileError
from tests.cli.program import pcietool

SOURCE = '#include "slots.cuh"\nextern "C" __global__ void NAME(u32* a) { a[0] = 7 + VALUE; }\n'


def fat_binary(path: Path, *images: tuple[str, int | str, bool], name: str = "k", packed: bool = True) -> Path:
    """`images`: kind, architecture, and whether its kernel is called `name`, else "other"."""
    options = [] if packed else ["-compress=false"]
    handle = nvfatbin.create(options, len(options))
    for kind, architecture, is_named in images:
        called = name if is_named else "other"
        source = SOURCE.replace("NAME", called).replace("VALUE", str(architecture).strip("a"))
        made = compile_source(source, name="mine.cu", architecture=f"sm_{architecture}", defines={})
        if kind == "ptx":
            text = made.ptx.encode()
            nvfatbin.add_ptx(handle, text, len(text), str(architecture), f"{called}.ptx", "")
        else:
            nvfatbin.add_cubin(handle, made.cubin, len(made.cubin), str(architecture), f"{called}.cubin")
    content = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, content)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("target", "taken"), [("sm_80", 80), ("sm_89", 80), ("sm_90", 90), ("sm_100", 90)])
def test_a_gpu_is_given_the_newest_that_is_not_too_new(tmp_path: Path, target: str, taken: int, packed: bool) -> None:
    path = fat_binary(tmp_path / "mine.fatbin", ("ptx", 80, True), ("sass", 80, True), ("ptx", 90, True), packed=packed)
    (text,) = ptx_of_binary(path, target)
    assert f".target sm_{taken}" in text
    assert text.startswith(".version")
    assert text.count(".visible .entry k(") == 1


def test_only_newer_ptx_is_refused(tmp_path: Path) -> None:
    path = fat_binary(tmp_path / "mine.fatbin", ("ptx", 90, True))
    with pytest.raises(CompileError, match=r"mine.fatbin has PTX for sm_90 only, which sm_80 cannot take"):
        ptx_of_binary(path, "sm_80")


def test_what_is_made_for_one_architecture_alone_is_for_no_newer_one(tmp_path: Path) -> None:
    path = fat_binary(tmp_path / "mine.fatbin", ("ptx", 80, True), ("ptx", "90a", True))
    for target, taken in (("sm_90", "sm_90a"), ("sm_100", "sm_80")):
        (text,) = ptx_of_binary(path, target)
        assert re.search(rf"\.target {taken}\b", text)


def test_a_binary_without_ptx_says_what_it_has_and_how_to_keep_it(tmp_path: Path) -> None:
    path = fat_binary(tmp_path / "mine.fatbin", ("sass", 90, True))
    with pytest.raises(CompileError, match=r"no PTX inside, only machine code for sm_90; nvcc -gencode"):
        ptx_of_binary(path, "sm_90")
    path.write_bytes(b"\x7fELF" + bytes(60))
    with pytest.raises(CompileError, match="no PTX inside, nor any other code for GPUs"):
        ptx_of_binary(path, "sm_90")


def test_of_several_sources_the_one_with_the_kernel_is_taken(tmp_path: Path) -> None:
    path = fat_binary(tmp_path / "mine.bin", ("ptx", 90, True), ("ptx", 90, False))
    unit = unit_of_file(path)
    for name in ("k", "other"):
        compiled = compile_unit(replace(unit, entries=(name,)), "sm_90")
        assert f".entry {name}(" in compiled.ptx
        assert compiled.ptx.count(".version") == 1
    with pytest.raises(CompileError, match="no kernel 'third'; it has k, other"):
        compile_unit(replace(unit, entries=("third",)), "sm_90")


def test_without_cuobjdump_it_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fat_binary(tmp_path / "mine.fatbin", ("ptx", 90, True))
    monkeypatch.setattr("pcietool.compiler.binaries.cuobjdump", lambda: None)
    with pytest.raises(CompileError, match=r"pip install 'pcietool\[binaries\]'"):
        ptx_of_binary(path, "sm_90")


def test_cuobjdump_comes_from_its_package() -> None:
    assert cuobjdump() is not None


def test_check_runs_the_kernel_of_a_binary(tmp_path: Path) -> None:
    fat_binary(tmp_path / "libmine.so", ("ptx", 80, True), ("ptx", 80, False))
    scenario = tmp_path / "check_mine.py"
    scenario.write_text(
        "from pcietool.check import Kernel, scenario\n"
        '@scenario(Kernel("libmine.so", "k"), ranks=1, block=1)\n'
        "def mine(w):\n    a = w.one('a', 'u4')\n    w.launch([a])\n"
        '    w.launch([a], kernel=Kernel("libmine.so", "other"))\n    w.expect(a, 87)\n'
    )
    done = pcietool("check", str(scenario), "--backend", "emulated")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS  mine" in done.stdout
