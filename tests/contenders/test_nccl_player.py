"""NCCL's player with a pretended NCCL and GPUs in host memory: where data lies, and that wrong data is found."""

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from pcietool.contenders import nccl
from pcietool.contenders.nccl_library import Nccl
from pcietool.contenders.player import Measurement, Seat, WrongDataError

Array = npt.NDArray[np.float32]


class FakeGpu:
    """GPU memory is host memory; everything takes 40 us."""

    began, ended = "began", "ended"

    def __init__(self, index: int) -> None:
        self.index = index
        self.stream = 100 + index
        self._memory: list[ctypes.Array[ctypes.c_char]] = []

    def make_current(self) -> None:
        pass

    synchronise = make_current

    def record(self, event: str) -> None:
        pass

    def alloc(self, nbytes: int, name: str) -> int:
        self._memory.append(ctypes.create_string_buffer(nbytes))
        return ctypes.addressof(self._memory[-1])

    def write(self, address: int, values: Array) -> None:
        ctypes.memmove(address, values.ctypes.data, values.nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        ctypes.memset(address, byte, nbytes)

    def read_into(self, values: Array, address: int) -> None:
        ctypes.memmove(values.ctypes.data, address, values.nbytes)

    def elapsed_ns(self) -> float:
        return 40_000.0 + self.index


class FakeGraphs:
    def __init__(self, gpus: list[FakeGpu], executables: list[Callable[[], None]]) -> None:
        (self.launch,) = executables


class FakeNccl:
    version, path = "2.28.9", "libnccl.so.2"
    spoil = 0.0
    registered = 0

    def __init__(self) -> None:
        self.gpu = FakeGpu(0)

    def init_all(self, devices: Sequence[int]) -> list[int]:
        return list(devices)

    def alloc(self, nbytes: int) -> int:
        return self.gpu.alloc(nbytes, "NCCL")

    def register_symmetric(self, comms: list[int], addresses: list[int], nbytes: int, enter: object) -> None:
        self.registered = nbytes

    def all_reduce(
        self, sends: list[int], receives: list[int], count: int, comms: list[int], streams: list[int]
    ) -> None:
        values = [np.ctypeslib.as_array((ctypes.c_float * count).from_address(address)) for address in sends]
        total: Array = np.sum(values, axis=0, dtype=np.float32)
        total[-1] += self.spoil
        for address in receives:
            ctypes.memmove(address, total.ctypes.data, total.nbytes)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeNccl:
    library = FakeNccl()
    monkeypatch.setattr(Nccl, "load", lambda: library)
    monkeypatch.setattr(nccl, "open_gpus", lambda indices: [FakeGpu(index) for index in indices])
    monkeypatch.setattr(nccl, "capture", lambda gpus, submit: submit)
    monkeypatch.setattr(nccl, "Graphs", FakeGraphs)
    return library


def player(symmetric: bool = False) -> nccl.NcclPlayer:
    options = {"symmetric": symmetric, "max_bytes": 4096, "nodes": 20}
    made = nccl.NcclPlayer(Seat(0, 1, (0, 1)), options, lambda text: None)
    made.prepare()
    made.init(None)
    return made


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("nbytes", [4, 132, 4096])
def test_every_node_reduces_its_own_input(fake: FakeNccl, symmetric: bool, mode: str, nbytes: int) -> None:
    samples = player(symmetric).run(Measurement("all-reduce", mode, nbytes, 20), 2, 7)
    assert samples == [2.0, 2.0], "the shortest GPU, divided by the nodes"
    assert bool(fake.registered) is symmetric


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_one_wrong_element_is_found(fake: FakeNccl, mode: str) -> None:
    fake.spoil = 1.0
    with pytest.raises(WrongDataError, match=r"NCCL, rank 0, all-reduce 0 of 20: 1 of 33 elements .* first is 32"):
        player().run(Measurement("all-reduce", mode, 132, 20), 1, 7)
