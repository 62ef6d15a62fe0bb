"""Calls into the CUDA driver: every result is checked, every failure names the call and what to do.

Must hold no policy beyond that, and must stay the only module that calls cuInit in a process with kernels of ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from cuda.bindings import driver

from pcietool.errors import DriverError, NothingToRunError, UsageError
from pcietool.machines.presence import driver_present
from pcietool.machines.selection import visible_devices_note

SUCCESS = 0
OUT_OF_MEMORY = 2
STUB_LIBRARY = 34
NO_DEVICE = 100
NOT_READY = 600
PEER_ACCESS_ALREADY_ENABLED = 704

_ADVICE: Mapping[int, str] = {
    OUT_OF_MEMORY: "not enough GPU memory: end other processes on it, see nvidia-smi",
    205: "the memory could not be mapped: check the IOMMU settings and `ulimit -l`",
    217: "these two GPUs have no peer access: use --transport host",
    222: "the kernel was compiled for a newer CUDA than this driver knows: update the driver or install an older NVRTC",
    209: "the kernel was compiled for another GPU architecture",
    700: "a kernel accessed memory that is not there; this is a bug in the kernel or its arguments",
    702: "a display watchdog ended the kernel: use a shorter --timeout",
    711: "a GPU has a limited number of peers, usually 8: use fewer GPUs",
    716: "a kernel accessed a misaligned address; this is a bug in the kernel or its arguments",
    720: "not all blocks fit on the GPU at once: use fewer or smaller blocks, or end other processes on it",
    802: "the NVSwitch fabric is not ready: start nvidia-fabricmanager",
    803: "kernel module and driver library have different versions: reboot, or reinstall the driver",
    804: "this GPU does not support the CUDA compatibility package: update the driver",
    999: "the driver reports an unknown error: see dmesg for Xid lines; a GPU reset or a reboot may help",
}

_SERIALISING_VARIABLES = ("CUDA_INJECTION64_PATH",)
_SERIALISING_PREFIXES = ("NV_COMPUTE_PROFILER_", "NV_SANITIZER_INJECTION_")


def attempt(function: Callable[..., tuple[Any, ...]], *args: Any) -> tuple[int, Any]:
    """The call's code and its value (a tuple if there are several, None if there is none)."""
    result, *values = function(*args)
    return int(result), values[0] if len(values) == 1 else tuple(values) or None


def call(function: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
    """The call's value. Raises DriverError."""
    code, value = attempt(function, *args)
    if code != SUCCESS:
        raise failure(function.__name__, code)
    return value


def failure(what: str, code: int) -> DriverError:
    """The error for a call, or anything else the driver reported on, that ended with `code`."""
    advice = _ADVICE.get(code)
    return DriverError(f"{what}: {error_name(code)} ({code})" + (f"; {advice}" if advice else ""))


def error_name(code: int) -> str:
    """CUDA's name of a result code; codes newer than the bindings have none."""
    try:
        return str(driver.CUresult(code).name)
    except ValueError:
        return "CUDA_ERROR"


def refuse_serialised_launches(environment: Mapping[str, str]) -> None:
    """Raises UsageError if something makes the driver run one kernel after the other: kernels that wait for each
    other would then never end."""
    if environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        raise UsageError("CUDA_LAUNCH_BLOCKING is set, and kernels that wait for each other hang with it: unset it")
    for name in environment:
        if name in _SERIALISING_VARIABLES or name.startswith(_SERIALISING_PREFIXES):
            raise UsageError(
                f"{name} is set: profilers and sanitizers run one kernel after the other, and kernels that wait for"
                " each other hang then; run without them"
            )


def initialise() -> int:
    """Initialises CUDA in this process and returns how many GPUs it shows, at least 1.

    Raises NothingToRunError exactly if there is no driver or no GPU, DriverError if the driver is broken.
    """
    refuse_serialised_launches(os.environ)
    if not driver_present():
        raise NothingToRunError("no NVIDIA driver found (libcuda.so.1); without GPUs use --backend emulated")
    # Loading a kernel lazily may wait for the GPU, and so for ever while another kernel spins there.
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    code, _ = attempt(driver.cuInit, 0)
    if code == STUB_LIBRARY:
        raise NothingToRunError(
            "libcuda.so.1 is the toolkit's stub, not a driver; take its folder out of LD_LIBRARY_PATH, or use"
            " --backend emulated"
        )
    if code not in (SUCCESS, NO_DEVICE):
        raise failure("cuInit", code)
    count = int(call(driver.cuDeviceGetCount)) if code == SUCCESS else 0
    if count == 0:
        hint = visible_devices_note(os.environ) or "see nvidia-smi"
        raise NothingToRunError(f"the NVIDIA driver shows no GPU ({hint}); without GPUs use --backend emulated")
    return count
