"""Modifiers mean the same in any order, and what is not written has the default of the PTX ISA."""

import itertools

import pytest

from pcietool.emulator.ops import SCOPES, Code, Op
from pcietool.emulator.translate.lower import Lowered, lower
from pcietool.errors import PtxError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.ptx.parser import parse
from tests.emulator.emulated_programs import ptx_kernel, run_ptx

REGISTERS = ".shared .align 16 .b8 space[64];"
MEANING = ("code", "size", "count", "strong", "acquire", "release", "scope", "poll", "returns", "kind")


def lowered(instruction: str) -> Lowered:
    return lower(parse(ptx_kernel(f"{instruction}\nret;", registers=REGISTERS)).functions["k"])


def op_of(instruction: str) -> Op:
    """The request that an instruction makes to the engine."""
    (op,) = (value for value in lowered(instruction).start.__globals__.values() if isinstance(value, Op))
    return op


def meaning(op: Op) -> tuple[object, ...]:
    modified = [op.modify(old, 7, 3) for old in (0, 7, 1 << 31)] if op.modify else []
    return *(getattr(op, name) for name in MEANING), *modified


PERMUTED = {
    "ld.relaxed.sys.global.u32": "%r1, [%a]",
    "ld.acquire.gpu.global.u64": "%rd1, [%a]",
    "ld.volatile.global.u32": "%r1, [%a]",
    "ld.mmio.relaxed.sys.global.u32": "%r1, [%a]",
    "st.release.sys.global.u32": "[%a], %r1",
    "st.relaxed.cta.global.u32": "[%a], %r1",
    "atom.acq_rel.gpu.global.add.u32": "%r1, [%a], %r2",
    "atom.release.sys.global.cas.b64": "%rd1, [%a], %rd2, %rd3",
    "atom.acquire.cta.global.max.s32": "%r1, [%a], %r2",
    "red.relaxed.sys.global.or.b32": "[%a], %r1",
    "fence.acq_rel.gpu": "",
    "fence.sc.sys": "",
    "fence.proxy.async.global": "",
    "bar.red.popc.aligned.u32": "%r1, 0, %p1",
    "cp.async.bulk.commit_group": "",
    "cp.async.bulk.wait_group.read": "1",
    "mbarrier.try_wait.parity.shared::cta.b64": "%p1, [space], 0",
}


@pytest.mark.parametrize("form", PERMUTED)
def test_the_order_of_modifiers_means_nothing(form: str) -> None:
    """All orders, but the type stays last: it is the operand's, not the operation's."""
    opcode, *modifiers = form.split(".")
    last = [modifiers.pop()] if PERMUTED[form] and opcode != "cp" else []
    written = meaning(op_of(f"{form} {PERMUTED[form]};"))
    for order in itertools.permutations(modifiers):
        assert meaning(op_of(f"{'.'.join([opcode, *order, *last])} {PERMUTED[form]};")) == written, order


@pytest.mark.parametrize(
    "form", ["ld.global.v4.ca.u32 {%r1, %r2, %r3, %r4}, [%a];", "st.global.v2.cg.b64 [%a], {%a, %b};"]
)
def test_the_order_of_spaces_vectors_and_hints_means_nothing(form: str) -> None:
    """Weak accesses are done in place: the generated code is compared."""
    head, _, operands = form.partition(" ")
    opcode, *modifiers, kind = head.split(".")
    for order in itertools.permutations(modifiers):
        assert lowered(f"{'.'.join([opcode, *order, kind])} {operands}").source == lowered(form).source


def test_another_modifier_means_something_else() -> None:
    """Negative control."""
    assert meaning(op_of("ld.relaxed.gpu.global.u32 %r1, [%a];")) != meaning(
        op_of("ld.relaxed.sys.global.u32 %r1, [%a];")
    )
    assert meaning(op_of("ld.relaxed.gpu.global.u32 %r1, [%a];")) != meaning(
        op_of("ld.acquire.gpu.global.u32 %r1, [%a];")
    )


CTA, GPU, SYS = (SCOPES[scope] for scope in ("cta", "gpu", "sys"))
DEFAULTS: dict[str, dict[str, object]] = {
    "atom.global.add.u32 %r1, [%a], 1;": {"strong": True, "acquire": False, "release": False, "scope": GPU},
    "red.global.add.u32 [%a], 1;": {"strong": True, "acquire": False, "release": False, "scope": GPU},
    "atom.acq_rel.global.add.u32 %r1, [%a], 1;": {"acquire": True, "release": True, "scope": GPU},
    "atom.global.sys.add.u32 %r1, [%a], 1;": {"acquire": False, "release": False, "scope": SYS},
    "ld.volatile.global.u32 %r1, [%a];": {"strong": True, "acquire": False, "scope": SYS},
    "st.volatile.global.u32 [%a], %r1;": {"strong": True, "release": False, "scope": SYS},
    "ld.mmio.relaxed.sys.global.u32 %r1, [%a];": {"strong": True, "acquire": False, "scope": SYS},
    "ld.relaxed.cluster.global.u32 %r1, [%a];": {"scope": CTA},
    "st.release.cluster.global.u32 [%a], %r1;": {"release": True, "scope": CTA},
    "fence.acq_rel.cluster;": {"kind": "acq_rel", "scope": CTA},
    "membar.cta;": {"kind": "sc", "scope": CTA},
    "membar.gl;": {"kind": "sc", "scope": GPU},
    "membar.sys;": {"kind": "sc", "scope": SYS},
    "fence.sc.cta;": {"kind": "sc", "scope": CTA},
    "fence.acq_rel.sys;": {"kind": "acq_rel", "scope": SYS},
}


@pytest.mark.parametrize("instruction", DEFAULTS)
def test_what_is_not_written_has_its_default(instruction: str) -> None:
    op = op_of(instruction)
    assert {name: getattr(op, name) for name in DEFAULTS[instruction]} == DEFAULTS[instruction]


@pytest.mark.parametrize("form", ["bar.sync 0", "barrier.sync 0", "bar.sync 3", "bar.red.popc.u32 %r1, 3, %p1"])
def test_a_barrier_without_count_expects_all_threads_that_live(form: str) -> None:
    requests = [value for value in lowered(f"{form};").start.__globals__.values() if isinstance(value, tuple)]
    source = lowered(f"{form};").source
    assert op_of(f"{form};").code == Code.BARRIER
    assert all(request[2] == 0 for request in requests)
    assert requests or ", 3, 0, " in source


@pytest.mark.parametrize("instruction", ["ld.global.u32 %r1, [%a];", "ld.weak.global.u32 %r1, [%a];"])
def test_an_access_without_semantics_is_weak(instruction: str) -> None:
    assert not op_of(instruction).strong


@pytest.mark.parametrize(
    "form", ["atom.global.u32 %r1, [%a], 1;", "vote.sync.pred %p1, %p2, -1;", "shfl.sync.b32 %r1, %r2, 0, 0, -1;"]
)
def test_an_operation_has_no_default(form: str) -> None:
    with pytest.raises(PtxError, match="does not know"):
        lowered(form)


def test_a_cache_policy_changes_no_result(emulated: EmulatedMachine) -> None:
    body = """createpolicy.fractional.L2::evict_first.b64 %rd9, 0f3F800000;
        ld.global.L2::cache_hint.u32 %r1, [%a], %rd9; st.global.L2::cache_hint.u32 [%b], %r1, %rd9;
        atom.relaxed.gpu.global.add.L2::cache_hint.u32 %r2, [%b], 5, %rd9;
        red.relaxed.gpu.global.add.L2::cache_hint.u32 [%b], 6, %rd9; st.global.u32 [%b+4], %r2; ret;"""
    assert run_ptx(emulated, body, (100,), 2).tolist() == [111, 100]
