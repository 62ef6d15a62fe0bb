"""What NVML says about a GPU: PCIe link, clocks, power, use. Joined with CUDA's devices by PCI address only.

Must not touch CUDA. What cannot be read is None, and a reason says why: never an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

try:
    from cuda.bindings import nvml
except ImportError:  # older 13.x bindings have none
    nvml = None

# nvml.h; the bindings renamed these members between 13.x versions.
_CLOCK_SM, _CLOCK_MEM = 1, 2
_P2P_OVER_NVLINK, _P2P_OVER_PCIE = 2, 4
_P2P_OK = 0


class Telemetry:
    """One NVML session; `unavailable` says why there is none."""

    def __init__(self) -> None:
        self.unavailable: str | None = None
        if nvml is None:
            self.unavailable = "this version of cuda-bindings has no NVML"
            return
        try:
            nvml.init_v2()
        except Exception as error:  # whatever is wrong with NVML, measuring works without it
            self.unavailable = _reason(error)

    def driver_version(self) -> str | None:
        version: str | None = self._try(lambda: str(nvml.system_get_driver_version()), {}, "driver")
        return version

    def read(self, pci: str) -> dict[str, Any]:
        """Link, clocks (MHz), power (W), utilisation (%) and other processes of one GPU, right now; JSON values.
        `unreadable` has the reason for each None."""
        unreadable: dict[str, str] = {}
        handle = self._try(lambda: nvml.device_get_handle_by_pci_bus_id_v2(pci), unreadable, "device")
        readers: dict[str, Callable[[], Any]] = {
            "link_generation": lambda: int(nvml.device_get_curr_pcie_link_generation(handle)),
            "link_width": lambda: int(nvml.device_get_curr_pcie_link_width(handle)),
            "max_link_generation": lambda: int(nvml.device_get_max_pcie_link_generation(handle)),
            "max_link_width": lambda: int(nvml.device_get_max_pcie_link_width(handle)),
            "sm_clock_mhz": lambda: int(nvml.device_get_clock_info(handle, _CLOCK_SM)),
            "memory_clock_mhz": lambda: int(nvml.device_get_clock_info(handle, _CLOCK_MEM)),
            "throttle_reasons": lambda: _throttle_reasons(int(nvml.device_get_current_clocks_event_reasons(handle))),
            "power_w": lambda: nvml.device_get_power_usage(handle) / 1000,
            "utilisation_percent": lambda: int(nvml.device_get_utilization_rates(handle).gpu),
            "other_processes": lambda: _other_processes(nvml.device_get_compute_running_processes_v3(handle)),
        }
        if handle is None:
            return dict.fromkeys(readers) | {"unreadable": unreadable}
        return {key: self._try(reader, unreadable, key) for key, reader in readers.items()} | {"unreadable": unreadable}

    def link_kind(self, src_pci: str, dst_pci: str) -> Literal["pcie", "nvlink", "unknown"]:
        """Which way peer accesses between two GPUs take."""

        def is_ok(capability: int) -> bool:
            handles = [nvml.device_get_handle_by_pci_bus_id_v2(pci) for pci in (src_pci, dst_pci)]
            return int(nvml.device_get_p2p_status(*handles, capability)) == _P2P_OK

        if self._try(lambda: is_ok(_P2P_OVER_NVLINK), {}, "nvlink"):
            return "nvlink"
        return "pcie" if self._try(lambda: is_ok(_P2P_OVER_PCIE), {}, "pcie") else "unknown"

    def close(self) -> None:
        if self.unavailable is None:
            self._try(nvml.shutdown, {}, "shutdown")

    def _try(self, read: Callable[[], Any], unreadable: dict[str, str], key: str) -> Any:
        if self.unavailable is not None:
            unreadable[key] = self.unavailable
            return None
        try:
            return read()
        except Exception as error:  # NVML raises one class per code, and drivers differ in what they support
            unreadable[key] = _reason(error)
            return None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"


def _throttle_reasons(mask: int) -> list[str]:
    return sorted(
        reason.name.lower().removeprefix("event_reason_").removeprefix("throttle_reason_")
        for reason in nvml.ClocksEventReasons
        if int(reason) & mask
    )


def _other_processes(processes: Any) -> list[int]:
    """Ids of the other processes with a context on the GPU; in a container they are those of the host."""
    return sorted({int(pid) for pid in np.atleast_1d(processes.pid)} - {os.getpid()})
