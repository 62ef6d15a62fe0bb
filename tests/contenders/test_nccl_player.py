"""NCCL's player with a pretended NCCL and GPUs in host memory: where data lies, and that wrong data is found."""

import ctypes

import numpy as np
import pytest

from pcietool.contenders import nccl
from pcietool.contenders.player import Measurement, Seat, WrongDataError


class FakeGpu:
    """GPU memory is host memory; everything takes 40 us."""

    def __init__(self, index):
        self.index = index
        self.stream_address = 100 + index
        self._memory = []

    def make_current(self):
        pass

    synchronise = record_begin = record_end = make_current

    def alloc(self, nbytes):
        self._memory.append(ctypes.create_string_buffer(nbytes))
        return ctypes.addressof(self._memory[-1])

    def write(self, address, values):
        ctypes.memmove(address, values.ctypes.data, values.nbytes)

    def fill(self, address, byte, nbytes):
        ctypes.memset(address, byte, nbytes)

    def read(self, address, count):
        values = np.empty(count, np.float32)
        ctypes.memmove(values.ctypes.data, address, values.nbytes)
        return values

    def elapsed_us(self):
        return 40.0 + self.index


class FakeGraphs:
    def __init__(self, gpus, submit):
        self.launch = submit


class FakeNccl:
    version, path = "2.28.9", "libnccl.so.2"
    spoil = 0.0
    registered = 0

    def init_all(self, devices):
        return list(devices)

    def alloc(self, nbytes):
        return FakeGpu.alloc(self.gpu, nbytes)

    def register_symmetric(self, comms, addresses, nbytes, enter):
        self.registered = nbytes

    def all_reduce(self, sends, receives, count, comms, streams):
        values = [np.ctypeslib.as_array((ctypes.c_float * count).from_address(address)) for address in sends]
        total = sum(values[1:], values[0].copy())
        total[-1] += self.spoil
        for address in receives:
            ctypes.memmove(address, total.ctypes.data, total.nbytes)


@pytest.fixture
def fake(monkeypatch):
    library = FakeNccl()
    library.gpu = FakeGpu(0)
    monkeypatch.setattr(nccl.Nccl, "load", lambda: library)
    monkeypatch.setattr(nccl, "open_gpus", lambda indices: [FakeGpu(index) for index in indices])
    monkeypatch.setattr(nccl, "Graphs", FakeGraphs)
    return library


def player(symmetric=False):
    options = {"symmetric": symmetric, "max_bytes": 4096, "nodes": 20}
    made = nccl.NcclPlayer(Seat(0, 1, (0, 1)), options, lambda text: None)
    made.prepare()
    made.init(None)
    return made


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("nbytes", [4, 132, 4096])
def test_every_node_reduces_its_own_input(fake, symmetric, mode, nbytes):
    samples = player(symmetric).run(Measurement("all-reduce", mode, nbytes, 20), 2, 7)
    assert samples == [2.0, 2.0], "the shortest GPU, divided by the nodes"
    assert bool(fake.registered) is symmetric


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_one_wrong_element_is_found(fake, mode):
    fake.spoil = 1.0
    with pytest.raises(WrongDataError, match=r"NCCL, rank 0, all-reduce 0 of 20: 1 of 33 elements .* first is 32"):
        player().run(Measurement("all-reduce", mode, 132, 20), 1, 7)
