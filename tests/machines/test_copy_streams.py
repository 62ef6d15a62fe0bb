"""Copy streams, on the emulator and on real GPUs: what they copy arrives, and their stores come after it."""

from collections.abc import Iterator

import numpy as np
import pytest

from pcietool.errors import UsageError
from pcietool.machines.base import HOST, CopyStream, Machine, StreamCopy, StreamWrite, on_device
from pcietool.machines.base import Part as PartOfBuffer
from pcietool.probes.common.options import Transport
from pcietool.probes.common.world import why_not
from pcietool.probes.watermark.pushing import Pusher
from pcietool.probes.watermark.streams import Shape
from pcietool.protocol.chunks import ChunkPlan

DEADLINE_S = 2.0
ROWS = 128
SHAPE = Shape(ROWS, row_bytes=1024, threads=128, groups=2, consumer_blocks=2)


@pytest.mark.parametrize("place", ["device", "host"])
def test_steps_are_made_in_order(machine: Machine, place: str) -> None:
    target = HOST if place == "host" else on_device(machine.devices[-1].index)
    src, dst = machine.alloc(on_device(0), 4096, "from"), machine.alloc(target, 4096, "to")
    words = machine.alloc(target, 256, "words")
    values = np.arange(1024, dtype=np.uint32)
    src.write(values)
    halves = [
        StreamCopy(PartOfBuffer(dst, start, 2048), PartOfBuffer(src, 2048 - start, 2048), 2048) for start in (0, 2048)
    ]
    writes = [StreamWrite(PartOfBuffer(words, 128, 4), value) for value in (6, 7)]
    steps = (halves[0], writes[0], halves[1], writes[1])
    outcome = machine.run((), DEADLINE_S, copy_streams=[CopyStream(0, steps)])
    assert outcome.finished
    assert outcome.copy_streams_ns[0] > 0
    np.testing.assert_array_equal(dst.read(np.uint32), np.roll(values, 512))
    assert words.read(np.uint32, 1, offset=128)[0] == 7
    assert np.count_nonzero(words.read()) == 1
    for buffer in (src, dst, words):
        buffer.free()


def test_a_round_of_nothing_is_refused(machine: Machine) -> None:
    if machine.backend == "emulated":
        pytest.skip("the emulator has nothing to wait for")
    with pytest.raises(UsageError, match="at least one launch"):
        machine.run((), DEADLINE_S)


@pytest.fixture(params=["peer", "host", "self"])
def pusher(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Pusher]:
    transport: Transport = request.param
    if reason := why_not(machine, transport):
        pytest.skip(reason)
    pusher = Pusher(machine, transport, "one-to-one", 2, SHAPE, ROWS, seed=0)
    yield pusher
    pusher.free()


def test_a_kernel_consumes_what_is_copied_meanwhile(pusher: Pusher) -> None:
    assert pusher.engine_refusal() is None
    for chunk in (1, 8, 50, ROWS, 8):
        pushed = pusher.push_by_engine(ChunkPlan(ROWS, chunk, chunk))
        assert pushed.wrong is None
        # In the model a copy inside one GPU takes no time.
        assert pushed.producer_ns > 0 or (pusher.machine.backend, pusher.world.transport) == ("emulated", "self")
        assert pushed.first_release_ns is not None
    assert not pusher.world.damaged_guards()


def test_signals_before_the_copies_are_found(pusher: Pusher) -> None:
    """Also in the second launch, where good rows of the first one still lie there; and the next one is right again."""
    plan = ChunkPlan(ROWS, 64, 64)
    assert pusher.push_by_engine(plan).wrong is None
    assert pusher.push_by_engine(plan, injection="early").wrong is not None
    assert pusher.push_by_engine(plan).wrong is None


def test_kernels_and_the_copy_engine_take_turns(pusher: Pusher) -> None:
    for chunk in (16, 64):
        plan = ChunkPlan(ROWS, chunk, 8)
        assert pusher.push("vector", plan, 2).wrong is None
        assert pusher.push_by_engine(plan).wrong is None
