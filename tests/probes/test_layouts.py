"""The host's mirrors of structs that kernels read and write: every member where the compiler puts it."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from pcietool.compiler import compile_source
from pcietool.data import kernel_source
from pcietool.errors import CompileError
from pcietool.machines import host_agents
from pcietool.machines.base import on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics import counting, undoing
from pcietool.probes.barrier import kernel as barrier
from pcietool.probes.common.structs import struct_of
from pcietool.probes.compare import allreduce_kernel
from pcietool.probes.signal import roles
from pcietool.probes.verify import entry, gates, pushes
from pcietool.probes.watermark import pushing
from pcietool.protocol import expert_order, streams, watch

Layout = np.dtype[Any]
MIRRORS: Mapping[str, Mapping[str, Layout]] = {
    "slots.cuh": {"Watch": watch.WATCH, "WaitRecord": watch.RECORD},
    "allreduce.cu": {"Ranks": allreduce_kernel.RANKS, "Fault": allreduce_kernel.FAULT},
    "atomics.cu": {"Round": counting.ROUND},
    "undone.cu": {"Undoing": undoing.UNDOING, "Report": host_agents.REPORT},
    "barrier.cu": {"Ranks": barrier.RANKS, "Injection": barrier.INJECTION},
    "signal.cu": {"Role": roles.ROLE, "Fault": roles.FAULT, "Result": roles.RESULT},
    "watermark.cu": {"Role": pushing.ROLE, "Endpoint": pushing.ENDPOINT},
    "verify.cuh": {"Endpoint": entry.ENDPOINT},
    "verify_push.cuh": {"Job": pushes.JOB, "Route": streams.ROUTE, "Piece": streams.PIECE},
    "verify_gate.cuh": {"Arrival": expert_order.ARRIVAL},
    "verify_gate.cu": {"GateJob": gates.GATE_JOB},
    "verify_end_to_end.cu": {"EndJob": gates.END_JOB, "Result": gates.RESULT},
}


def assertions(struct: str, layout: Layout) -> Iterator[str]:
    """What the compiler must agree with."""
    for name, (member, offset, *_) in (layout.fields or {}).items():
        yield f"static_assert(__builtin_offsetof({struct}, {name}) == {offset});"
        yield f"static_assert(sizeof({struct}::{name}) == {member.itemsize});"
    yield f"static_assert(sizeof({struct}) == {layout.itemsize});"


def check(source: str, structs: Mapping[str, Layout]) -> None:
    """Raises CompileError where a layout is another one."""
    lines = [line for struct, layout in structs.items() for line in assertions(struct, layout)]
    text = "\n".join([kernel_source(source), *lines])
    compile_source(text, name=source, architecture="sm_90", defines={})


@pytest.mark.parametrize("source", MIRRORS)
def test_the_mirror_is_the_layout_of_the_kernel(source: str) -> None:
    check(source, MIRRORS[source])


LATE = [("rank", "<u4"), ("point", "<u4"), ("ns", "<u8")]


@pytest.mark.parametrize("fields", [[*LATE[:1], ("point", "<u8"), ("ns", "<u4")], LATE[:2]])
def test_another_layout_is_noticed(fields: list[tuple[str, str]]) -> None:
    check("verify.cuh", {"Late": np.dtype(LATE)})
    with pytest.raises(CompileError, match="static assertion failed"):
        check("verify.cuh", {"Late": np.dtype(fields)})


def test_a_struct_has_every_member_and_the_address_of_a_buffer() -> None:
    layout = np.dtype([("where", "<u8"), ("late", LATE), ("count", "<u4")], align=True)
    with EmulatedMachine.open("pcie5-switch4", [0]) as machine:
        buffer = machine.alloc(on_device(0), 64, "any")
        struct = struct_of(layout, where=buffer, late=(1, 2, 3), count=4)
        assert struct.tolist() == (buffer.address, (1, 2, 3), 4)
    assert struct.nbytes == 32
    for members in ({"where": 0, "late": (0, 0, 0)}, {"where": 0, "late": (0, 0, 0), "count": 0, "more": 0}):
        with pytest.raises(KeyError, match="are not the members"):
            struct_of(layout, **members)
    with pytest.raises(OverflowError):
        struct_of(layout, where=0, late=(0, 0, 0), count=2**32)
