"""Who can take part: each contender's player, how many processes it has, its settings, and what it can run.

Must not start anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pcietool.contenders.player import Measurement

P2P_DISABLED = {"NCCL_P2P_DISABLE": "1"}


@dataclass(frozen=True)
class Contender:
    """`path`: the transport of ours that uses the same links."""

    name: str
    title: str
    player: str
    """module:class."""
    path: Literal["peer", "host"] = "peer"
    process_a_gpu: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    symmetric: bool = False
    barriers: tuple[Measurement, ...] = ()
    """Empty: it reduces, at every size and in every mode that launches."""

    def seats(self, gpus: int) -> list[list[int]]:
        """The GPUs of each process."""
        return [[gpu] for gpu in range(gpus)] if self.process_a_gpu else [list(range(gpus))]

    def cannot(self, mode: str) -> str | None:
        """Why this contender cannot be measured that way, or None."""
        if mode == "graph" and not self.barriers and not self.process_a_gpu:
            return "no graph of one process for all GPUs: CUDA does not instantiate it (error 900, measured)"
        return None

    def contradicted(self, environment: Mapping[str, str]) -> str | None:
        """The user's variable that forbids this contender's own setting, since the user's are kept; or None."""
        for name, value in self.environment.items():
            if environment.get(name, value) != value:
                return f"it needs {name}={value}, but {name}={environment[name]} is set and kept"
        return None


_NCCL = "pcietool.contenders.nccl:NcclPlayer"
_IN_KERNEL = "in-kernel"

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender("nccl", "NCCL, one process", _NCCL),
        Contender("nccl-ranks", "NCCL, one process a GPU", _NCCL, process_a_gpu=True),
        Contender("nccl-symmetric", "NCCL, symmetric window", _NCCL, symmetric=True),
        Contender(
            "nccl-lsa",
            "NCCL's barrier inside a kernel",
            "pcietool.contenders.nccl_lsa:LsaPlayer",
            barriers=(Measurement("LSA acq_rel", _IN_KERNEL), Measurement("LSA relaxed", _IN_KERNEL)),
        ),
        Contender("nccl-host", "NCCL without P2P, one process", _NCCL, "host", environment=P2P_DISABLED),
        Contender(
            "nccl-host-ranks",
            "NCCL without P2P, one process a GPU",
            _NCCL,
            "host",
            process_a_gpu=True,
            environment=P2P_DISABLED,
        ),
        Contender(
            "nvshmem",
            "NVSHMEM",
            "pcietool.contenders.nvshmem:NvshmemPlayer",
            process_a_gpu=True,
            barriers=(
                Measurement("sync_all_block", _IN_KERNEL),
                Measurement("barrier_all_block", _IN_KERNEL),
                Measurement("barrier_all_on_stream", "eager"),
            ),
        ),
        Contender(
            "torch",
            "torch symmetric memory",
            "pcietool.contenders.torch_barrier:TorchPlayer",
            process_a_gpu=True,
            barriers=(Measurement("barrier", "graph"),),
        ),
    )
}
