"""Which changes of kernels make a recording stale."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pcietool import data
from pcietool.compiler import nvrtc_info
from pcietool.litmus.text.cuda_source import cuda_source
from pcietool.litmus.text.library import load
from pcietool.machines import open_machine
from pcietool.machines.description import describe
from scripts import recordings
from scripts.recordings import why_stale


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A copy of kernels/, to be changed."""
    copy = tmp_path / "kernels"
    shutil.copytree(data.kernels_dir(), copy)
    monkeypatch.setattr(data, "kernels_dir", lambda: copy)
    forget()
    yield copy
    forget()


def forget() -> None:
    """What the program that is tested remembers: files do not change while it runs."""
    recordings.sources.cache_clear()
    recordings.ptx_sha256.cache_clear()


def recorded() -> dict[str, Any]:
    """The `tool` of a run that loads two forms of the barrier, in one of two orders of memory, and a litmus test."""
    test = data.configs_dir() / "litmus" / "mp-release.sys-acquire.sys-gpus.litmus"
    with open_machine("emulated", None, None, None, 0) as machine:
        weakest = machine.in_random_order(0)
        assert weakest is not None
        machine.load("barrier.cu")
        weakest.load("barrier.cu", {"ORDER": 1, "THREADS": 64})
        machine.load_text(test.name, cuda_source(load(test)))
        facts = describe(machine)["facts"]
    return {name: facts[name] for name in ("kernels_sha256", "nvrtc")}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    forget()


def test_a_run_names_what_it_loaded_and_nothing_else(kernels: Path) -> None:
    tool = recorded()
    assert list(tool["kernels_sha256"]) == ["barrier.cu", "mp-release.sys-acquire.sys-gpus.litmus"]
    forms = list(tool["kernels_sha256"]["barrier.cu"]["ptx"])
    assert [form.partition(" ")[2] for form in forms] == ["", "ORDER=1 THREADS=64"]
    assert why_stale(tool) is None


def test_a_comment_a_new_function_and_another_kernel_age_nothing(kernels: Path) -> None:
    tool = recorded()
    edit(kernels / "barrier.cu", "#include", "// A barrier.\n#include")
    assert why_stale(tool) is None
    edit(kernels / "slots.cuh", "struct Watch", "__device__ inline u32 one_more(u32 x) { return x + 1; }\nstruct Watch")
    edit(kernels / "signal.cu", "signal_slot(", "store_relaxed_sys(")
    assert why_stale(tool) is None


@pytest.mark.parametrize("instruction", ["st.release.sys.global.u32", "ld.acquire.sys.global.u32"])
def test_another_instruction_of_a_header_ages_what_uses_it(kernels: Path, instruction: str) -> None:
    tool = recorded()
    edit(kernels / "slots.cuh", instruction, instruction.replace("sys", "gpu"))
    assert why_stale(tool) == f"barrier.cu is other code, as {next(iter(tool['kernels_sha256']['barrier.cu']['ptx']))}"


def test_only_the_forms_that_ran_count(kernels: Path) -> None:
    tool = recorded()
    del tool["kernels_sha256"]["barrier.cu"]["ptx"][next(iter(tool["kernels_sha256"]["barrier.cu"]["ptx"]))]
    edit(kernels / "slots.cuh", "st.release.sys.global.u32", "st.release.gpu.global.u32")
    assert why_stale(tool) is None  # order 1 is relaxed


def test_litmus_tests_are_kernels_too(kernels: Path) -> None:
    tool = recorded()
    del tool["kernels_sha256"]["barrier.cu"]
    assert why_stale(tool) is None
    edit(kernels / "litmus.cuh", "* all.stride", "* 2 * all.stride")
    assert "is other code" in (why_stale(tool) or "")


def test_a_kernel_that_is_gone_or_broken_is_other_code(kernels: Path) -> None:
    tool = recorded()
    edit(kernels / "barrier.cu", "extern", "extrn")
    assert "barrier.cu is other code" in (why_stale(tool) or "")
    (kernels / "barrier.cu").unlink()
    forget()
    assert why_stale(tool) == "there is no barrier.cu any more"


def test_another_nvrtc_compares_the_source_and_says_so(kernels: Path) -> None:
    major, minor = nvrtc_info().version
    tool = recorded() | {"nvrtc": {"version": f"{major}.{minor + 1}"}}
    edit(kernels / "barrier.cu", "#include", "// A barrier.\n#include")
    assert why_stale(tool) is None
    edit(kernels / "slots.cuh", "struct Watch", "__device__ inline u32 one_more(u32 x) { return x + 1; }\nstruct Watch")
    assert why_stale(tool) == (
        f"barrier.cu reads otherwise; whether it is other code, only NVRTC {major}.{minor + 1} tells"
    )


def test_recordings_of_one_hash_for_all_kernels_are_stale() -> None:
    assert why_stale({"kernels_sha256": "ab12", "nvrtc": {"version": "13.0"}}) is not None


@pytest.mark.parametrize("name", ["barrier.cu", "overlap.litmus", "vectors.litmus"])
def test_whatever_a_run_compiles_is_found_again(name: str) -> None:
    """Kernels, litmus tests, and the tests that no file holds."""
    assert all("__global__" in text for text in recordings.sources(name))
    assert recordings.sources(name)
