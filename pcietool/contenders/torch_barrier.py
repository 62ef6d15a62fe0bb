"""PyTorch's symmetric-memory barrier in a CUDA graph. Runs inside a worker, one process a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pcietool.contenders.player import AbsentError, Measurement, Player

_ELEMENTS = 1024


class TorchPlayer(Player):
    """One small symmetric tensor, whose handle has the barrier."""

    def prepare(self) -> dict[str, Any]:
        self.stage("import torch")
        try:
            import torch
            import torch.distributed._symmetric_memory as symmetric_memory
        except ImportError as error:
            raise AbsentError(f"PyTorch with symmetric memory is not installed ({error}): pip install torch") from error
        if not torch.cuda.is_available():
            raise AbsentError(f"torch {torch.__version__} does not see the GPUs: it is a build without CUDA")
        self._torch, self._symmetric_memory = torch, symmetric_memory
        facts = {"library": f"torch {torch.__version__}", "path": torch.__path__[0], "binding": "python"}
        if self.seat.process == 0:
            facts["token"] = str(Path(self.options["folder"]) / "rendezvous")
        return facts

    def init(self, token: str | None) -> None:
        torch, index = self._torch, self.seat.gpus[0]
        torch.cuda.set_device(index)
        device = torch.device("cuda", index)
        self.stage("init_process_group")
        torch.distributed.init_process_group(
            "nccl",
            init_method=f"file://{token}",
            rank=self.seat.process,
            world_size=self.seat.processes,
            device_id=device,
        )
        self.stage("symmetric memory rendezvous")
        tensor = self._symmetric_memory.empty(_ELEMENTS, dtype=torch.float32, device=device)
        self._tensor = tensor
        self._handle = self._symmetric_memory.rendezvous(tensor, torch.distributed.group.WORLD)
        self._stream = torch.cuda.Stream()
        self._graphs: dict[int, Any] = {}

    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        torch, nodes = self._torch, measurement.nodes
        if nodes not in self._graphs:
            self.stage("recording the graph")
            self._graphs[nodes] = self._record(nodes)
        self.stage("graph")
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        samples = []
        with torch.cuda.stream(self._stream):
            for _ in range(repetitions):
                began.record(self._stream)
                self._graphs[nodes].replay()
                ended.record(self._stream)
                ended.synchronize()
                samples.append(began.elapsed_time(ended) * 1e3 / nodes)
        return samples

    def _record(self, nodes: int) -> Any:
        torch = self._torch
        with torch.cuda.stream(self._stream):
            self._handle.barrier()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._stream):
                for _ in range(nodes):
                    self._handle.barrier()
        return graph
