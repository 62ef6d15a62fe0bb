"""Whatever is written to global memory, by whomever, lands through one door, which traces and faults may hook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from pcietool.emulator.engine.core import Core
from pcietool.emulator.ops import Stamp, Write
from pcietool.machines.base import HOST, Buffer, CopyStream, Launch, StreamCopy, StreamWrite, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.machines.host_agents import HostAgent
from tests.emulator.emulated_programs import ptx_program

BULK = """.shared .align 16 .b8 shared[16]; .reg .b32 %s; mov.u32 %s, shared; st.shared.u32 [shared], 1;
    fence.proxy.async.shared::cta; cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 16;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;"""
KERNELS = {
    "a store across a link": "st.global.u32 [%a], 1; ret;",
    "a strong store": "st.relaxed.sys.global.u32 [%a], 1; ret;",
    "an atomic": "red.sys.global.add.u32 [%a], 1; ret;",
    "a bulk copy": BULK,
}


def launch(body: str) -> Callable[[EmulatedMachine, Buffer, Buffer], object]:
    kernel = ptx_program(body).kernel("k")
    return lambda machine, word, source: machine.run([Launch(0, kernel, 1, 1, (word, source))], 0.01)


WRITERS: dict[str, Callable[[EmulatedMachine, Buffer, Buffer], object]] = {
    **{what: launch(body) for what, body in KERNELS.items()},
    "a copy": lambda machine, word, source: machine.copy(word, source, 16, "copy engine"),
    "a staged copy": lambda machine, word, source: machine.copy(word, source, 16, "staged"),
    "a stream's copy": lambda machine, word, source: machine.run(
        [], 0.01, copy_streams=[CopyStream(0, (StreamCopy(word, source, 16),))]
    ),
    "a stream's store": lambda machine, word, source: machine.run(
        [], 0.01, copy_streams=[CopyStream(0, (StreamWrite(word, 1),))]
    ),
}


@contextmanager
def landed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The addresses of all that lands on machines that are opened meanwhile."""
    land, addresses = Core.land, list[int]()

    def noted(core: Core, write: Write, stamp: Stamp) -> None:
        segment, offset = write[1]
        addresses.append(segment.address + offset)
        land(core, write, stamp)

    with monkeypatch.context() as patched:
        patched.setattr(Core, "land", noted)
        yield addresses


@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.parametrize("fabric", ["pcie5-switch4", "h200-nvlink2"])
def test_what_is_written_lands_through_the_door(monkeypatch: pytest.MonkeyPatch, fabric: str, what: str) -> None:
    with landed(monkeypatch) as addresses, EmulatedMachine.open(fabric) as machine:
        word, source = (machine.alloc(on_device(gpu), 16, "words") for gpu in (1, 0))
        source.write(np.ones(4, np.uint32))
        WRITERS[what](machine, word, source)
        assert word.read(np.uint32, 1)[0] == 1
        assert addresses == [word.address]


def test_so_does_what_the_host_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    with landed(monkeypatch) as addresses, EmulatedMachine.open() as machine:
        word = machine.alloc(HOST, 16, "word")
        machine.run([], 0.01, host_agents=[HostAgent(word, 4, 3)])
        assert word.read(np.uint32)[1] == 3
        assert addresses == [word.address + 4] * 3


def test_what_is_done_in_place_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a weak store of a GPU to its own memory, which nobody polls, needs no engine."""
    with landed(monkeypatch) as addresses, EmulatedMachine.open() as machine:
        word = machine.alloc(on_device(0), 16, "word")
        launch("st.global.u32 [%a], 1; ret;")(machine, word, word)
        assert word.read(np.uint32, 1)[0] == 1
        assert addresses == []
