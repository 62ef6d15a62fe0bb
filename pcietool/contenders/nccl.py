"""NCCL's all-reduce: eager and in a graph, of one process for all GPUs or one process a GPU, plain or symmetric memory.

Options: `symmetric`, `max_bytes`, `nodes`. Runs inside a worker; must not choose what is compared. Communicators end
with the process: to destroy them one by one can wait for ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pcietool.contenders.nccl_library import Nccl
from pcietool.contenders.nccl_log import read_logs
from pcietool.contenders.player import Measurement, Player, WrongDataError
from pcietool.machines.cuda.gpu import Gpu, open_gpus
from pcietool.machines.cuda.graph import Graphs, capture
from pcietool.protocol.payload import NODE_SHIFT, first_wrong, input_elements, output_stride, payload

_FLOAT_BYTES = 4
_ALIGNMENT = 4096
"""Of windows, and more than anything else needs."""


def _shortest_us(gpus: Sequence[Gpu], submit: Callable[[], None]) -> float:
    """What `submit` takes on the GPU where that is shortest: the others also waited for the last one to be started."""
    for gpu in gpus:
        gpu.record(gpu.began)
    submit()
    for gpu in gpus:
        gpu.record(gpu.ended)
    for gpu in gpus:
        gpu.synchronise()
    return min(gpu.elapsed_ns() for gpu in gpus) / 1e3


class NcclPlayer(Player):
    """Inputs, then outputs, in one allocation a GPU; out of place, every node with other inputs."""

    def prepare(self) -> dict[str, Any]:
        self.stage("loading libnccl")
        self._nccl = Nccl.load()
        self.stage("opening the GPUs")
        self._gpus = open_gpus(self.seat.gpus)
        facts = {
            "library": f"NCCL {self._nccl.version}",
            "path": self._nccl.path,
            "binding": "ctypes",
            "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith("NCCL_")},
        }
        if self.seat.processes > 1 and self.seat.process == 0:
            self.stage("ncclGetUniqueId")
            facts["token"] = self._nccl.unique_id().hex()
        return facts

    def init(self, token: str | None) -> None:
        if token is None:
            self.stage("ncclCommInitAll")
            self._comms = self._nccl.init_all(self.seat.gpus)
        else:
            self.stage("ncclCommInitRank")
            self._gpus[0].make_current()
            self._comms = [self._nccl.init_rank(self.seat.ranks, bytes.fromhex(token), self.seat.process)]
        self._streams = [int(gpu.stream) for gpu in self._gpus]
        self._graphs: dict[int, Graphs] = {}
        self._allocate(self.options["max_bytes"] // _FLOAT_BYTES, self.options["nodes"])

    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        elements, nodes = measurement.nbytes // _FLOAT_BYTES, measurement.nodes
        what = f"all-reduce of {measurement.nbytes} bytes"
        self.stage(f"{what}, eager")
        submit = self._submitter(elements, nodes)
        if measurement.mode == "graph":
            graph = self._graphs.get(elements)
            if graph is None:
                submit()  # connects: a graph must not
                for gpu in self._gpus:
                    gpu.synchronise()
                self.stage(f"{what}, recording the graph")
                graph = self._graphs[elements] = Graphs(self._gpus, capture(self._gpus, [submit]))
            self.stage(f"{what}, graph")
            submit = graph.launch
        samples = []
        for repetition in range(repetitions):
            self._write_inputs(iteration + repetition, elements, nodes)
            samples.append(_shortest_us(self._gpus, submit) / nodes)
            self._check(iteration + repetition, elements, nodes)
        return samples

    def report(self) -> dict[str, Any]:
        return read_logs(os.environ)

    def _allocate(self, elements: int, nodes: int) -> None:
        inputs = -(-input_elements(elements, nodes) * _FLOAT_BYTES // _ALIGNMENT) * _ALIGNMENT
        nbytes = inputs + -(-output_stride(elements) * nodes * _FLOAT_BYTES // _ALIGNMENT) * _ALIGNMENT
        if not self.options["symmetric"]:
            self._inputs = [gpu.alloc(nbytes, "all-reduce buffers") for gpu in self._gpus]
        else:
            self.stage("ncclMemAlloc")
            self._inputs = []
            for gpu in self._gpus:
                gpu.make_current()
                self._inputs.append(self._nccl.alloc(nbytes))
            self.stage("ncclCommWindowRegister")
            enter = [gpu.make_current for gpu in self._gpus]
            self._nccl.register_symmetric(self._comms, self._inputs, nbytes, enter)
        self._outputs = [address + inputs for address in self._inputs]

    def _submitter(self, elements: int, nodes: int) -> Any:
        step, shift = output_stride(elements) * _FLOAT_BYTES, NODE_SHIFT * _FLOAT_BYTES
        calls = [
            ([address + node * shift for address in self._inputs], [address + node * step for address in self._outputs])
            for node in range(nodes)
        ]

        def submit() -> None:
            for sends, receives in calls:
                self._nccl.all_reduce(sends, receives, elements, self._comms, self._streams)

        return submit

    def _write_inputs(self, iteration: int, elements: int, nodes: int) -> None:
        for position, gpu in enumerate(self._gpus):
            values = payload(iteration, self._rank(position), input_elements(elements, nodes)).astype(np.float32)
            gpu.write(self._inputs[position], values)
            gpu.fill(self._outputs[position], 0xFF, nodes * output_stride(elements) * _FLOAT_BYTES)

    def _check(self, iteration: int, elements: int, nodes: int) -> None:
        for position, gpu in enumerate(self._gpus):
            got = np.empty(nodes * output_stride(elements), np.float32)
            gpu.read_into(got, self._outputs[position])
            wrong = first_wrong(got, elements, iteration, self.seat.ranks)
            if wrong:
                raise WrongDataError(f"NCCL, rank {self._rank(position)}, {wrong}")

    def _rank(self, position: int) -> int:
        return self.seat.process if self.seat.processes > 1 else position
