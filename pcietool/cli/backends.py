"""Which machine a command runs on, and how a probe gets there. No CUDA here: GPUs are a child process's business."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pcietool.cli.options import BackendChoice, Common
from pcietool.cli.recorder import Recorder
from pcietool.errors import NothingToRunError, UsageError

if TYPE_CHECKING:
    from pcietool.contract.config import Config
    from pcietool.machines.base import Backend


class Runner(Protocol):
    """Runs one probe on one machine, and reports the machine and every finished part to the recorder."""

    def __call__(self, probe: str, config: Config, common: Common, recorder: Recorder) -> None: ...


def choose_backend(common: Common) -> tuple[Backend, str]:
    """(backend, why). Raises UsageError where real GPUs are to do what only the emulator can."""
    backend, why = _chosen(common)
    if common.trace is not None and backend == "cuda":
        raise UsageError(
            f"--trace {common.trace}: {why}, and a GPU keeps no record of its memory events; choose --backend emulated"
        )
    return backend, why


def _chosen(common: Common) -> tuple[Backend, str]:
    if common.fabric is not None:
        return "emulated", f"--fabric {common.fabric}"
    if common.backend is BackendChoice.cuda:
        return "cuda", "--backend cuda"
    if common.backend is BackendChoice.emulated:
        return "emulated", "--backend emulated"
    from pcietool.machines.presence import driver_present

    if driver_present():
        return "cuda", "this machine has an NVIDIA driver"
    return "emulated", "this machine has no NVIDIA driver"


def run_on_gpus(probe: str, config: Config, common: Common, recorder: Recorder) -> None:
    """In a child process, which may hang without taking this one with it. Where the user left the choice open and
    the driver has no GPU to offer, the emulator takes over."""
    from pcietool.supervision.child import run_in_child

    try:
        run_in_child(
            probe,
            config,
            recorder,
            "pcietool.probes:PROBES",
            gpus=common.gpu_names,
            num_gpus=common.num_gpus,
            seed=common.seed,
        )
    except NothingToRunError as nothing:
        if common.backend is not BackendChoice.auto or recorder.machine is not None:
            raise
        recorder.opening = f"emulated backend ({nothing})"
        run_emulated(probe, config, common, recorder)


def run_emulated(probe: str, config: Config, common: Common, recorder: Recorder) -> None:
    """In this process: an emulated hang ends by itself."""
    from pcietool.emulator.engine.trace import EventTrace
    from pcietool.machines import open_machine
    from pcietool.machines.description import describe
    from pcietool.probes import PROBES

    _, run = PROBES[probe]
    recorder.trace = EventTrace() if common.trace else None
    opened = open_machine(
        "emulated", common.gpu_names, common.num_gpus, common.fabric, common.seed, trace=recorder.trace
    )
    with opened as machine:
        recorder.describe(describe(machine))
        try:
            run(machine, config, recorder)
        finally:
            recorder.describe(describe(machine))  # with the kernels that it loaded


RUNNERS: dict[Backend, Runner] = {"cuda": run_on_gpus, "emulated": run_emulated}
