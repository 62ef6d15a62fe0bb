"""NCCL's own barrier inside a kernel, compiled against the headers that lie beside the loaded libnccl.

Runs inside a worker, one process for all GPUs.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

from pcietool.contenders.nccl_library import INSTALL, Nccl, version_text
from pcietool.contenders.player import AbsentError, Measurement, Player
from pcietool.contenders.wheels import build
from pcietool.machines.cuda.gpu import compute_capability, open_gpus

ORDERS = {"LSA acq_rel": 0, "LSA relaxed": 1}
"""What `lsa_run` takes, by the barrier's name."""
THREADS = 32
_VERSION_CODE = re.compile(r"^#define\s+NCCL_VERSION_CODE\s+(\d+)", re.MULTILINE)


def headers_of(library: Path) -> Path:
    """The include folder that belongs to a libnccl. Raises AbsentError."""
    beside = [library.parent.parent / "include"] if library.is_absolute() else []
    for folder in (*beside, Path("/usr/include")):
        if (folder / "nccl_device.h").is_file():
            return folder
    raise AbsentError(f"no nccl_device.h beside {library}: NCCL has a device API since 2.28, {INSTALL}")


def check_same_version(headers: Path, code: int) -> None:
    """A device communicator's layout changes between versions: raises AbsentError unless both are the same."""
    found = _VERSION_CODE.search((headers / "nccl.h").read_text(encoding="utf-8", errors="replace"))
    if found is None:
        raise AbsentError(f"{headers / 'nccl.h'} does not say its version: {INSTALL}")
    if int(found[1]) != code:
        raise AbsentError(
            f"the headers in {headers} are of NCCL {version_text(int(found[1]))}, the library is {version_text(code)}:"
            f" their device communicators differ; install one version of both, {INSTALL}"
        )


class LsaPlayer(Player):
    """Device communicators of all GPUs, one block a GPU."""

    def prepare(self) -> dict[str, Any]:
        self.stage("loading libnccl")
        self._nccl = Nccl.load()
        headers = headers_of(Path(self._nccl.path))
        check_same_version(headers, self._nccl.code)
        self._gpus = open_gpus(self.seat.gpus)
        self.stage("nvcc")
        library = Path(self._nccl.path)
        options = [f"-I{headers}"]
        if library.is_absolute():  # else the linker knows where it is
            options += [f"-L{library.parent}", "-Xlinker", f"-rpath={library.parent}"]
        options.append(f"-l:{library.name}")
        output = Path(self.options["folder"]) / "nccl_lsa.so"
        self._device_side = ctypes.CDLL(
            str(build("nccl_lsa.cu", output, compute_capability(self._gpus[0].handle), options))
        )
        return {
            "library": f"NCCL {self._nccl.version}, headers {version_text(self._device_side.lsa_headers())}",
            "path": self._nccl.path,
            "binding": "nvcc",
        }

    def init(self, token: str | None) -> None:
        self.stage("ncclCommInitAll")
        self._comms = self._nccl.init_all(self.seat.gpus)
        self.stage("ncclDevCommCreate")
        count = len(self.seat.gpus)
        devices, comms = (ctypes.c_int * count)(*self.seat.gpus), (ctypes.c_void_p * count)(*self._comms)
        result = self._device_side.lsa_open(count, devices, comms)
        if result:
            raise AbsentError(f"ncclDevCommCreate failed ({result}): these GPUs do not reach each other's memory")

    def run(self, measurement: Measurement, repetitions: int, iteration: int) -> list[float]:
        self.stage(measurement.what)
        spans = (ctypes.c_ulonglong * len(self.seat.gpus))()
        samples = []
        for _ in range(repetitions):
            error = self._device_side.lsa_run(ORDERS[measurement.what], THREADS, measurement.rounds, spans)
            if error:
                raise RuntimeError(f"{measurement.what}: CUDA error {error}")
            samples.append(max(spans) / measurement.rounds / 1e3)
        return samples

    def report(self) -> dict[str, Any]:
        return {"transports": ["LSA: loads and stores to peer memory"]}
