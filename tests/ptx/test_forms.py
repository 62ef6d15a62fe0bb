"""The emulator knows every instruction form that NVRTC 12.9, 13.0 and 13.5 emit for sm_80, 90, 100 and 120.

What the other NVRTCs emit lies in forms/, written by scripts/ptx_forms.py; the installed one is asked.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from pcietool.compiler import compile_source, nvrtc_info
from pcietool.data import kernels_dir
from pcietool.emulator.translate.lower import lower
from pcietool.errors import PtxError
from pcietool.ptx.parser import parse
from scripts import ptx_forms

FORMS = Path(__file__).parent / "forms"
PLACES = """.version 8.5
.target sm_90
.address_size 64
.const .align 16 .b8 const_variable[64];
.func (.param .b32 result) module_symbol(.param .b32 argument) { ret; }
.entry k(.param .align 8 .b8 parameter[64])
{
    .reg .pred %pred;
    .reg .b16 %b16;
    .reg .b32 %b32;
    .reg .b64 %b64;
    .shared .align 16 .b8 shared_variable[64];
    .local .align 16 .b8 local_variable[64];
    .param .b32 param_variable;
label:
"""


def listed(name: str) -> set[str]:
    lines = (FORMS / name).read_text(encoding="utf-8").splitlines()
    return {line for line in lines if not line.startswith("#")}


def is_known(form: str) -> bool:
    try:
        form = (
            form.replace(", 1;", ", 16;") if form.startswith("cp.async") else form
        )  # its size, listed as any number is
        lower(parse(f"{PLACES}{form}\nret;\n}}\n").functions["k"])
    except PtxError:
        return False
    return True


VERSIONS = sorted(path.name for path in FORMS.glob("nvrtc-*.txt"))


def test_there_is_a_list_for_each_version() -> None:
    assert VERSIONS == ["nvrtc-12.9.txt", "nvrtc-13.0.txt", "nvrtc-13.5.txt"]
    assert all(len(listed(name)) > 500 for name in VERSIONS)


@pytest.mark.parametrize("name", VERSIONS)
def test_every_form_is_known_or_said_not_to_be(name: str) -> None:
    unknown = {form for form in listed(name) if not is_known(form)}
    assert unknown <= listed("not-emulated.txt")


def test_what_is_said_not_to_be_emulated_is_emitted_and_unknown() -> None:
    emitted = set().union(*map(listed, VERSIONS))
    for form in listed("not-emulated.txt"):
        assert form in emitted
        assert not is_known(form)


def test_an_invented_form_is_unknown() -> None:
    """Negative control, with one that differs by its modifier only."""
    assert is_known("add.u32 %b32, %b32, 1;")
    assert not is_known("add.frob.u32 %b32, %b32, 1;")
    assert not is_known("frobnicate.u32 %b32, %b32, 1;")


def lowered_forms(texts: Iterable[str]) -> set[str]:
    """The forms in these PTX texts, each of which the emulator can run: operands, parameters and loops too."""
    forms: set[str] = set()
    for ptx in texts:
        for kernel in parse(ptx).entries.values():
            lower(kernel)
        forms |= ptx_forms.forms_of(ptx)
    return forms


def check_listed(forms: set[str]) -> None:
    """The list of the installed NVRTC, if there is one, has all of these."""
    name = "nvrtc-{}.{}.txt".format(*nvrtc_info().version)
    assert name not in VERSIONS or forms <= listed(name), "write the list again: scripts/ptx_forms.py"


KERNELS = [path.name for path in sorted(kernels_dir().rglob("*.cu")) if path.parent.name != "contenders"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_installed_nvrtc_emits_what_is_known_for_every_variant(kernel: str) -> None:
    forms = lowered_forms(ptx_forms.compiled(kernel, "sm_90"))
    assert forms.isdisjoint(listed("not-emulated.txt"))
    check_listed(forms)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_100", "sm_120"])
def test_the_installed_nvrtc_emits_what_is_known_for_every_architecture(architecture: str) -> None:
    texts = (ptx for kernel in KERNELS for ptx in ptx_forms.compiled(kernel, architecture, all_variants=False))
    forms = lowered_forms(texts)
    assert forms.isdisjoint(listed("not-emulated.txt"))
    stress = compile_source(ptx_forms.STRESS.read_text(), name="stress.cu", architecture=architecture, defines={})
    forms |= ptx_forms.forms_of(stress.ptx)
    check_listed(forms)
    assert {form for form in forms if not is_known(form)} <= listed("not-emulated.txt")
