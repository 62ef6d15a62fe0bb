"""Opening a machine: real GPUs or the emulator, each imported only when it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcietool.emulator.engine.trace import EventTrace
    from pcietool.machines.base import Backend, Machine


def open_machine(
    backend: Backend,
    gpus: Sequence[str] | None = None,
    num_gpus: int | None = None,
    fabric: str | None = None,
    seed: int = 0,
    trace: EventTrace | None = None,
) -> Machine:
    """The machine with the GPUs that `gpus` ("0", "GPU-ab") or `num_gpus` select, all of them by default.

    Memory events go to `trace`, which only the emulator can fill. Initialises CUDA for "cuda": only for a process that
    may be killed (see `supervision.child`).
    """
    if backend == "cuda":
        from pcietool.machines.cuda.machine import CudaMachine

        return CudaMachine.open(gpus, num_gpus)
    from pcietool.emulator.fabric.fabric import fabrics_with
    from pcietool.machines.emulated.machine import DEFAULT_FABRIC, EmulatedMachine
    from pcietool.machines.selection import GpuIdentity, select_gpus

    fabric = fabric or DEFAULT_FABRIC
    whole = EmulatedMachine.open(fabric, seed=seed)
    identities = [GpuIdentity(device.index, device.uuid, device.pci) for device in whole.devices]
    chosen = select_gpus(gpus, num_gpus, identities, fabrics_with)
    machine = EmulatedMachine.open(fabric, [gpu.index for gpu in chosen], seed, trace=trace)
    machine.devices = tuple(
        replace(device, machine_index=gpu.index) for device, gpu in zip(machine.devices, chosen, strict=True)
    )
    return machine
