"""What a kernel has that the emulator does not know: named as its author wrote it, all of it in one line."""

import pytest

from pcietool.errors import PtxError
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program

HELPER = "__device__ __noinline__ unsigned helper(unsigned a) { return a ? helper(a - 1) * a + a : 1; }"
WRITTEN = {
    "malloc": ("", "*(void**)out = malloc(8);", r"malloc in a kernel \(allocate before the launch\)"),
    "a function": (HELPER, "out[0] = helper(out[1]);", "calls of functions that call themselves: _Z6helperj"),
    "a pointer to a function": (
        "typedef unsigned (*Function)(unsigned);",
        "out[0] = (*(Function*)(out + 2))(out[0]);",
        "calls through a pointer",
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_calls_are_named_as_they_were_written(emulated: EmulatedMachine, what: str) -> None:
    before, statement, named = WRITTEN[what]
    text = f'{before}\nextern "C" __global__ void k(unsigned* out) {{\n    {statement}\n}}\n'
    with pytest.raises(PtxError, match=named) as error:
        emulated.load_text("calls.cu", text)
    assert f"calls.cu:{1 if 'themselves' in named else 3}" in str(error.value)
    assert " more in this kernel" not in str(error.value), "what goes with the call is no form of its own"


def test_all_that_is_unknown_is_named_at_once() -> None:
    text = """tanh.approx.f16 %r1, %r2;
        cvt.rz.f32.u32 %r1, %r2;
        tanh.approx.f16 %r3, %r4;
        mov.u32 %r1, %nwarpid;
        @%p1 frob.u32 %r1, %r2;
        ret;"""
    with pytest.raises(PtxError) as error:
        ptx_program(text)
    message = str(error.value)
    assert "instruction form tanh.approx.f16 in 'tanh.approx.f16 %r1, %r2'" in message
    assert "and 3 more in this kernel: cvt.rz.f32.u32, mov.u32, frob.u32; report them" in message
    assert "\n" not in message


def test_a_call_comes_first_and_does_not_hide_the_rest() -> None:
    text = "tanh.approx.f16 %r1, %r2; call.uni %rd1; cvta.local.u64 %rd1, %rd2; ret;"
    with pytest.raises(PtxError, match=r"through a pointer .* and 1 more in this kernel: tanh\.approx\.f16; report"):
        ptx_program(text)


def test_what_needs_other_hardware_says_which_and_hides_nothing() -> None:
    tensor = "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r3];"
    multimem = "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];"
    with pytest.raises(
        PtxError, match=r"tensor maps, which the driver makes, .* 2 more in this kernel: multimem.*frob"
    ):
        ptx_program(f"{tensor} {multimem} frob.u32 %r1, %r2; ret;")
    with pytest.raises(PtxError, match="multimem, which NVLink multicast is needed for"):
        ptx_program(f"{multimem} ret;")


def test_too_many_are_counted() -> None:
    forms = "".join(f"frob{n}.u32 %r1, %r2;\n" for n in range(20))
    with pytest.raises(PtxError, match=r"and 19 more in this kernel: frob1\.u32, .*frob8\.u32, \.\.\.; report"):
        ptx_program(f"{forms}ret;")
