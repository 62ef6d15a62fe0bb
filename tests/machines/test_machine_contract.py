"""What every tenant must do; the same functions on the emulator and on real GPUs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from pcietool.errors import CompileError, UsageError
from pcietool.machines.base import (
    HOST,
    Buffer,
    CopyStream,
    Launch,
    Machine,
    Part,
    Place,
    StreamCopy,
    StreamWrite,
    on_device,
)
from pcietool.machines.host_agents import REPORT, HostAgent, Stores
from pcietool.probes.barrier.kernel import DIE, INJECTION, NO_INJECTION, RANKS
from pcietool.probes.common.structs import struct_of

DEADLINE_S = 2.0
Alloc = Callable[..., Buffer]


@pytest.fixture(params=["device", "host"])
def place(request: pytest.FixtureRequest, machine: Machine) -> Place:
    return HOST if request.param == "host" else on_device(machine.devices[-1].index)


@pytest.fixture
def alloc(machine: Machine) -> Iterator[Alloc]:
    """Allocates and frees afterwards."""
    buffers = []

    def allocate(place: Place, nbytes: int, name: str = "test") -> Buffer:
        buffers.append(machine.alloc(place, nbytes, name))
        return buffers[-1]

    yield allocate
    for buffer in buffers:
        buffer.free()


def barrier(
    machine: Machine, alloc: Alloc, world: int = 1, dead_rank: int | None = None, rounds: int = 10, place: Place = HOST
) -> tuple[list[Launch], Buffer]:
    """One launch that carries `world` ranks of kernels/barrier.cu on GPU 0, and their sequence numbers."""
    slots = [alloc(place, 2 * world * 128, f"slots of rank {rank}") for rank in range(world)]
    table = alloc(on_device(0), 8 * world, "table")
    table.write(np.array([one.address for one in slots], np.uint64))
    base, local = alloc(on_device(0), 4 * world), alloc(on_device(0), 8 * world)
    stamps, spans = alloc(on_device(0), 4 * world * (rounds + 1)), alloc(on_device(0), 16 * world)
    kind, rank = (NO_INJECTION, 0) if dead_rank is None else (DIE, dead_rank)
    ranks = struct_of(RANKS, slots=table, base=base, local=local, first_rank=0, world=world)
    args = (ranks, rounds, stamps, spans, struct_of(INJECTION, kind=kind, rank=rank, round=0, delay_ns=0))
    kernel = machine.load("barrier.cu", {"INJECT": 1}).kernel("barrier_rounds")
    return [Launch(0, kernel, world, 32, args, shared=4 * (rounds + 1))], base


def test_devices_say_what_they_are(machine: Machine) -> None:
    assert [device.index for device in machine.devices] == list(range(len(machine.devices)))
    assert len({device.uuid for device in machine.devices}) == len(machine.devices)
    for device in machine.devices:
        assert device.sms > 0
        assert machine.host_link(device.index).native_atomics in ("full", "partial", "none", "unknown")


def test_memory_is_zeroed_and_keeps_what_is_written(alloc: Alloc, place: Place) -> None:
    buffer = alloc(place, 4096)
    assert not buffer.read().any()
    values = np.arange(100, dtype=np.uint32)
    buffer.write(values, offset=64)
    np.testing.assert_array_equal(buffer.read(np.uint32, 100, offset=64), values)
    assert not buffer.read(count=64).any()
    buffer.fill(0xA5)
    assert (buffer.read() == 0xA5).all()


def test_accesses_beyond_a_buffer_are_refused(machine: Machine, alloc: Alloc, place: Place) -> None:
    buffer = alloc(place, 64, "a row")
    part = Part(buffer, 16, 32)
    beyond: list[tuple[Callable[[], object], str]] = [
        (lambda: buffer.read(offset=65, count=0), "a row has 64 bytes, not 0 from byte 65"),
        (lambda: buffer.read(np.uint32, 16, offset=4), "a row has 64 bytes, not 64 from byte 4"),
        (lambda: buffer.read(offset=-1), "a row has 64 bytes, not 65 from byte -1"),
        (lambda: buffer.read(count=-1), "a row has 64 bytes, not -1 from byte 0"),
        (lambda: buffer.write(np.zeros(9, np.uint64)), "a row has 64 bytes, not 72 from byte 0"),
        (lambda: part.read(count=33), "part of a row has 32 bytes, not 33 from byte 0"),
        (lambda: part.write(np.zeros(1, np.uint32), 30), "part of a row has 32 bytes, not 4 from byte 30"),
        (lambda: Part(part, 8, 25), "part of a row has 32 bytes, not 25 from byte 8"),
        (lambda: machine.copy(buffer, part, 33, "copy engine"), "part of a row has 32 bytes, not 33 from byte 0"),
        (lambda: machine.copy(part, buffer, 33, "staged"), "part of a row has 32 bytes, not 33 from byte 0"),
    ]
    for refused, text in beyond:
        with pytest.raises(UsageError, match=f"{text} on; use fewer"):
            refused()
    assert not buffer.read().any()
    assert buffer.read(offset=62, dtype=np.uint32).size == 0, "what does not fit is left out"


def test_a_part_is_a_buffer_of_its_own(alloc: Alloc, place: Place) -> None:
    whole = alloc(place, 64)
    part = Part(Part(whole, 8, 56), 8, 32)
    assert part.address == whole.address + 16
    part.fill(0xA5)
    part.write(np.array([1, 2], np.uint32), 8)
    assert list(part.read(np.uint32, 3, 8)) == [1, 2, 0xA5A5A5A5]
    assert part.read().size == 32
    assert not whole.read(count=16).any()
    assert not whole.read(offset=48).any()


@pytest.mark.parametrize("freed", ["whole", "part"])
def test_freed_memory_is_not_used_again(machine: Machine, alloc: Alloc, place: Place, freed: str) -> None:
    whole, other = machine.alloc(place, 64, "short-lived"), alloc(place, 64)
    part = Part(whole, 0, 32)
    kernel = machine.load_text("nothing", 'extern "C" __global__ void nothing(void*, void*) {}').kernel("nothing")
    launch = Launch(0, kernel, 1, 1, (part,))
    (whole if freed == "whole" else part).free()
    for buffer in (whole, part):
        buffer.free()  # once is enough
        for use in (
            buffer.read,
            lambda: buffer.write(np.zeros(1, np.uint8)),  # noqa: B023 - called at once
            lambda: buffer.fill(0),  # noqa: B023
            lambda: machine.copy(other, buffer, 8, "copy engine"),  # noqa: B023
        ):
            with pytest.raises(UsageError, match=r"short-lived \(\d\d bytes\) was freed; free it after its last use"):
                use()
    with pytest.raises(UsageError, match=r"part of short-lived .* was freed"):
        machine.run([launch], DEADLINE_S)


def test_what_runs_beside_launches_is_checked_before_anything_starts(machine: Machine, alloc: Alloc) -> None:
    word = alloc(HOST, 64, "word")
    launches, base = barrier(machine, alloc)
    beside: list[dict[str, Any]] = [
        {"host_agents": [HostAgent(word, 61, 1)]},
        {"host_agents": [HostAgent(word, 0, stores=Stores(1, 1, report=56))]},
        {"copy_streams": [CopyStream(0, (StreamCopy(word, word, 65),))]},
        {"copy_streams": [CopyStream(0, (StreamWrite(Part(word, 62, 2), 1),))]},
    ]
    for options in beside:
        with pytest.raises(UsageError, match="word has"):
            machine.run(launches, DEADLINE_S, **options)
    assert not base.read().any()


def test_every_round_is_announced(machine: Machine, alloc: Alloc, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, float]] = []
    monkeypatch.setattr(machine, "announce", lambda what, deadline_s: heard.append((what, deadline_s)))
    launches, _ = barrier(machine, alloc)
    machine.run(launches, DEADLINE_S)
    machine.graph(launches).run(1.0)
    words = alloc(HOST, 64)
    machine.run(launches, DEADLINE_S, copy_streams=[CopyStream(0, (StreamWrite(words, 7),))])
    machine.run((), DEADLINE_S, copy_streams=[CopyStream(0, (StreamWrite(words, 7),))])
    rounds = [
        ("barrier_rounds on GPU 0", DEADLINE_S),
        ("graph of barrier_rounds on GPU 0", 1.0),
        ("barrier_rounds on GPU 0 with copies by GPU 0", DEADLINE_S),
        ("copies by GPU 0", DEADLINE_S),
    ]
    assert heard == [one for what, deadline_s in rounds for one in ((what, deadline_s), (what, 0))]
    weak = machine.in_random_order(1)
    assert (weak is None) == (machine.backend == "cuda")
    if weak is not None:
        with weak:
            assert weak.announce is machine.announce


def test_too_much_memory_is_refused(machine: Machine) -> None:
    with pytest.raises(UsageError, match="huge"):
        machine.alloc(on_device(0), 1 << 44, "huge")
    with pytest.raises(UsageError, match="nothing"):
        machine.alloc(on_device(0), 0, "nothing")


@pytest.mark.parametrize("engine", ["copy engine", "staged"])
def test_copies_arrive(machine: Machine, alloc: Alloc, place: Place, engine: Literal["copy engine", "staged"]) -> None:
    src, dst = alloc(on_device(0), 1024), alloc(place, 1024)
    src.write(np.arange(256, dtype=np.uint32))
    assert machine.copy(dst, src, 1024, engine) > 0
    np.testing.assert_array_equal(dst.read(np.uint32), np.arange(256))


def test_unknown_kernels_name_what_there_is(machine: Machine) -> None:
    with pytest.raises(CompileError, match="barrier_rounds"):
        machine.load("barrier.cu", {"INJECT": 1}).kernel("no_such_kernel")


def test_a_round_finishes_and_keeps_its_sequence(machine: Machine, alloc: Alloc, place: Place) -> None:
    launches, base = barrier(machine, alloc, world=2, rounds=10, place=place)
    for repeat in (1, 2):
        outcome = machine.run(launches, DEADLINE_S)
        assert outcome.finished
        assert outcome.elapsed_ns[0] > 0
        assert (base.read(np.uint32) == 10 * repeat).all()


def test_a_dead_rank_is_named_at_the_deadline_and_the_next_round_works(machine: Machine, alloc: Alloc) -> None:
    launches, _ = barrier(machine, alloc, world=2, dead_rank=1)
    outcome = machine.run(launches, 0.2)
    assert outcome.hang is not None
    assert outcome.hang.limit == "device deadline"
    missing = [record for record in outcome.hang.records if record.reason == "deadline"]
    assert [(record.rank, record.row, record.col, record.wanted, record.got) for record in missing] == [(0, 1, 1, 1, 0)]
    launches, _ = barrier(machine, alloc, world=2)
    assert machine.run(launches, DEADLINE_S).finished


def test_a_graph_runs_again_and_again(machine: Machine, alloc: Alloc) -> None:
    if reason := machine.missing("graphs"):
        pytest.skip(reason)
    launches, base = barrier(machine, alloc, world=2, rounds=5)
    graph = machine.graph(launches * 3)
    assert not base.read().any(), "recording runs nothing"
    for repeat in (1, 2):
        assert graph.run(DEADLINE_S).finished
        assert (base.read(np.uint32) == 15 * repeat).all()


@pytest.mark.parametrize(("grid", "block", "shared"), [(0, 32, 0), (1, 0, 0), (1, 1500, 0), (1, 32, 1 << 20)])
def test_launches_of_no_size_or_too_large_are_refused(
    machine: Machine, alloc: Alloc, grid: int, block: int, shared: int
) -> None:
    (launch,), _ = barrier(machine, alloc)
    wrong = replace(launch, grid=grid, block=block, shared=shared, spins=False)
    with pytest.raises(UsageError, match="bytes of shared memory a block" if shared else "cannot launch"):
        machine.run([wrong], DEADLINE_S)


def test_waiting_blocks_beyond_residency_are_refused(machine: Machine, alloc: Alloc) -> None:
    launches, _ = barrier(machine, alloc)
    room = machine.resident_blocks(0, launches[0].kernel, 32, launches[0].shared)
    assert room >= machine.devices[0].sms
    crowd = Launch(0, launches[0].kernel, room + 1, 32, launches[0].args, launches[0].shared)
    with pytest.raises(UsageError, match=f"{room + 1} blocks .* holds only {room}"):
        machine.run([crowd], DEADLINE_S)


def test_wrong_arguments_are_refused_before_anything_starts(machine: Machine, alloc: Alloc) -> None:
    (launch,), base = barrier(machine, alloc)
    ranks, _, *others = launch.args
    for args in (launch.args[:-1], (ranks, 2**32, *others), (*launch.args[:-1], 0)):
        with pytest.raises(UsageError):
            machine.run([Launch(0, launch.kernel, 1, 32, args, launch.shared)], DEADLINE_S)
    assert not base.read().any()


STRUCTS = """
#include "slots.cuh"
struct Corner { unsigned short row; u32 column[3]; };
struct Route { u64* out; double weight; float share; signed char sign; Corner corners[2]; u64 last; };
extern "C" __global__ void unpack(Watch*, u32 pick, Route route, Corner corner)
{
    route.out[0] = route.weight * 4;
    route.out[1] = route.share * 4;
    route.out[2] = (long long)route.sign;
    route.out[3] = route.corners[1].column[2];
    route.out[4] = route.corners[pick].column[pick + 1];
    route.out[5] = route.last;
    route.out[6] = corner.row;
}
"""
CORNER = np.dtype([("row", "u2"), ("column", "u4", 3)], align=True)
ROUTE = np.dtype(
    [("out", "u8"), ("weight", "f8"), ("share", "f4"), ("sign", "i1"), ("corners", CORNER, 2), ("last", "u8")],
    align=True,
)


@pytest.mark.parametrize("recorded", [False, True])
def test_structs_are_passed_by_value(machine: Machine, alloc: Alloc, recorded: bool) -> None:
    out = alloc(on_device(0), 56)
    corners = [(1, (2, 3, 4)), (5, (6, 7, 8))]
    routes = np.array([(out.address, 0.25, 0.5, -3, corners, 2**64 - 1)], ROUTE)
    kernel = machine.load_text("unpack", STRUCTS).kernel("unpack")
    launch = Launch(0, kernel, 1, 1, (1, routes[0], np.array((9, (0, 0, 0)), CORNER).tobytes()))
    routes["weight"] = 100  # too late
    outcome = machine.graph([launch]).run(DEADLINE_S) if recorded else machine.run([launch], DEADLINE_S)
    assert outcome.finished
    assert out.read(np.uint64).tolist() == [1, 2, 2**64 - 3, 8, 8, 2**64 - 1, 9]


def test_structs_of_another_size_are_refused(machine: Machine) -> None:
    kernel = machine.load_text("unpack", STRUCTS).kernel("unpack")
    packed = np.zeros(1, [("row", "u2"), ("column", "u4", 3)])[0]
    with pytest.raises(UsageError, match=r"unpack, argument 3 \(\.b8\[16\]\): takes a struct of 16 bytes, not 14"):
        machine.run([Launch(0, kernel, 1, 1, (1, np.zeros(1, ROUTE), packed))], DEADLINE_S)


def test_a_host_agent_adds(machine: Machine, alloc: Alloc) -> None:
    if reason := machine.missing("host_agent"):
        pytest.skip(reason)
    word = alloc(HOST, 256)
    launches, _ = barrier(machine, alloc)
    outcome = machine.run(launches, DEADLINE_S, [HostAgent(word, 128, 50)])
    assert outcome.finished
    assert len(outcome.host_agents_ns) == 1
    assert word.read(np.uint32, 1, offset=128)[0] == 50
    assert not word.read(count=128).any()


def test_a_host_agent_stores_and_finds_its_stores_there(machine: Machine, alloc: Alloc) -> None:
    if reason := machine.missing("host_agent"):
        pytest.skip(reason)
    word = alloc(HOST, 256)
    launches, _ = barrier(machine, alloc)
    outcome = machine.run(launches, DEADLINE_S, [HostAgent(word, 128, stores=Stores(20, 500, report=64))])
    assert outcome.finished
    assert outcome.host_agents_ns[0] > 0
    assert word.read(np.uint32, 1, offset=128)[0] == 20
    assert word.read(REPORT, 1, 64)[0].tolist() == (1, 20, 0)


def test_text_that_no_file_holds_is_compiled_and_its_errors_name_it(machine: Machine, alloc: Alloc) -> None:
    text = """
    #include "slots.cuh"
    extern "C" __global__ void answer(Watch*, u32* word) { *word = ANSWER; }
    """
    word = alloc(on_device(0), 4)
    kernel = machine.load_text("answer", text, {"ANSWER": 42}).kernel("answer")
    assert machine.run([Launch(0, kernel, 1, 1, (word,))], DEADLINE_S).finished
    assert word.read(np.uint32)[0] == 42
    with pytest.raises(CompileError, match=r"NVRTC refused answer .*answer\(3\)"):
        machine.load_text("answer", text)
    with pytest.raises(CompileError, match="answer has no kernel 'question'"):
        machine.load_text("answer", text, {"ANSWER": 1}).kernel("question")
