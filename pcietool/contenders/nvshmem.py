"""NVSHMEM's barriers inside a kernel and on a stream. Runs inside a worker, one process a GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from pcietool.contenders.player import AbsentError, Measurement, Player
from pcietool.contenders.wheels import build, folders_of
from pcietool.machines.cuda.gpu import compute_capability, open_gpus

INSTALL = "pip install nvidia-nvshmem-cu13"
THREADS = 32
IN_KERNEL = {"barrier_all_block": 0, "sync_all_block": 1}
"""What `shmem_in_kernel` takes, by the barrier's name."""


def shmem_home() -> Path:
    """The wheel's folder. Raises AbsentError."""
    for folder in folders_of("nvshmem"):
        if (folder / "include" / "nvshmemx.h").is_file() and (folder / "lib" / "libnvshmem_device.a").is_file():
            return folder
    raise AbsentError(f"NVSHMEM is not installed: {INSTALL}")


class NvshmemPlayer(Player):
    """One block a GPU; the barrier of all processes."""

    def prepare(self) -> dict[str, Any]:
        home = shmem_home()
        self._gpu = open_gpus(self.seat.gpus)[0]
        self.stage("nvcc")
        host = next(path.name for path in sorted((home / "lib").glob("libnvshmem_host.so*")))
        options = ["-rdc=true", f"-I{home}/include", f"-L{home}/lib", "-lnvshmem_device", f"-l:{host}"]
        options += ["-Xlinker", f"-rpath={home}/lib"]
        output = Path(self.options["folder"]) / f"nvshmem_barrier_{self.seat.process}.so"
        self._shmem = ctypes.CDLL(
            str(build("nvshmem_barrier.cu", output, compute_capability(self._gpu.handle), options))
        )
        version = [ctypes.c_int() for _ in range(3)]
        self._shmem.shmem_version(*map(ctypes.byref, version))
        facts = {
            "library": "NVSHMEM " + ".".join(str(part.value) for part in version),
            "path": str(home),
            "binding": "nvcc",
        }
        if self.seat.process == 0:
            self.stage("nvshmemx_get_uniqueid")
            token = ctypes.create_string_buffer(self._shmem.shmem_token_bytes())
            error = self._shmem.shmem_token(token)
            if error:
                raise AbsentError(f"nvshmemx_get_uniqueid failed ({error}): its bootstrap library is missing")
            facts["token"] = token.raw.hex()
        return facts

    def init(self, token: str | None) -> None:
        self.stage("nvshmemx_init_attr")
        raw = bytes.fromhex(token or "")
        error = self._shmem.shmem_open(self._gpu.index, self.seat.process, self.seat.processes, raw)
        if error:
            raise AbsentError(f"nvshmemx_init_attr failed ({error}): these GPUs do not reach each other's memory")

    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        self.stage(measurement.what)
        once = self._in_kernel if measurement.what in IN_KERNEL else self._on_stream
        return [once(measurement) for _ in range(repetitions)]

    def close(self) -> None:
        self._shmem.shmem_close()

    def _in_kernel(self, measurement: Measurement) -> float:
        span = ctypes.c_ulonglong()
        is_sync = IN_KERNEL[measurement.what]
        error = self._shmem.shmem_in_kernel(is_sync, THREADS, measurement.rounds, ctypes.byref(span))
        if error:
            raise RuntimeError(f"{measurement.what}: error {error}")
        return span.value / measurement.rounds / 1e3

    def _on_stream(self, measurement: Measurement) -> float:
        each_us = ctypes.c_float()
        error = self._shmem.shmem_on_stream(measurement.nodes, ctypes.byref(each_us))
        if error:
            raise RuntimeError(f"{measurement.what}: error {error}")
        return each_us.value
