"""What the CUDA driver says about the GPUs, their pairs and the host, as the contract's plain data.

Must not create contexts, nor change anything but peer access where it is asked to.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from cuda.bindings import driver

from pcietool.machines.cuda.driver import PEER_ACCESS_ALREADY_ENABLED, SUCCESS, attempt, call, failure
from pcietool.machines.cuda.gpu import Gpu, WatchedGpu, compute_capability
from pcietool.machines.cuda.telemetry import Telemetry
from pcietool.machines.devices import Device, HostLink, Link, NativeAtomics
from pcietool.machines.selection import GpuIdentity


def identities(count: int) -> list[GpuIdentity]:
    """The GPUs of this process in CUDA's order."""
    return [_identity(index, call(driver.cuDeviceGet, index)) for index in range(count)]


def _identity(index: int, handle: Any) -> GpuIdentity:
    raw = bytes(call(driver.cuDeviceGetUuid, handle).bytes)
    return GpuIdentity(index, f"GPU-{uuid.UUID(bytes=raw)}", _text(call(driver.cuDeviceGetPCIBusId, 32, handle)))


def describe_device(index: int, identity: GpuIdentity, handle: Any, telemetry: Telemetry) -> Device:
    """`index` numbers only the selected GPUs; `machine_index` is CUDA's."""
    return Device(
        index=index,
        name=_text(call(driver.cuDeviceGetName, 256, handle)),
        uuid=identity.uuid,
        pci=identity.pci,
        compute_capability=compute_capability(handle),
        sms=_attribute("MULTIPROCESSOR_COUNT", handle),
        memory_bytes=int(call(driver.cuDeviceTotalMem, handle)),
        max_threads_per_block=_attribute("MAX_THREADS_PER_BLOCK", handle),
        kernel_timeout=bool(_attribute("KERNEL_EXEC_TIMEOUT", handle)),
        machine_index=identity.index,
        details=telemetry.read(identity.pci),
    )


def connect(src: WatchedGpu, dst: WatchedGpu, telemetry: Telemetry) -> Link:
    """Lets kernels on `src` access memory of `dst`, if the driver allows it, and describes this direction."""
    access = bool(call(driver.cuDeviceCanAccessPeer, src.handle, dst.handle))
    reason = None if access else "the driver reports no peer access; see `nvidia-smi topo -p2p r`"
    if access:
        src.make_current()
        code, _ = attempt(driver.cuCtxEnablePeerAccess, dst.context, 0)
        if code not in (SUCCESS, PEER_ACCESS_ALREADY_ENABLED):
            access, reason = False, str(failure("cuCtxEnablePeerAccess", code))
    kind = telemetry.link_kind(src.device.pci, dst.device.pci) if access else "unknown"
    return Link(src.index, dst.index, kind, access, _peer_atomics(src, dst), _peer_operations(src, dst), reason)


def describe_host_link(gpu: Gpu) -> HostLink:
    full = bool(_attribute("HOST_NATIVE_ATOMIC_SUPPORTED", gpu.handle))
    partial = bool(_optional_attribute("ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED", gpu.handle))
    function = getattr(driver, "cuDeviceGetHostAtomicCapabilities", None)
    return HostLink(gpu.index, _native(full, partial), _operations(function, gpu.handle))


def _peer_atomics(src: Gpu, dst: Gpu) -> NativeAtomics:
    def has(name: str) -> bool:
        attribute = getattr(driver.CUdevice_P2PAttribute, f"CU_DEVICE_P2P_ATTRIBUTE_{name}", None)
        if attribute is None:
            return False
        code, value = attempt(driver.cuDeviceGetP2PAttribute, attribute, src.handle, dst.handle)
        return code == SUCCESS and bool(value)

    return _native(has("NATIVE_ATOMIC_SUPPORTED"), has("ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED"))


def _peer_operations(src: Gpu, dst: Gpu) -> dict[str, str]:
    return _operations(getattr(driver, "cuDeviceGetP2PAtomicCapabilities", None), src.handle, dst.handle)


def _native(full: bool, partial: bool) -> NativeAtomics:
    return "full" if full else "partial" if partial else "none"


def _operations(function: Any, *handles: Any) -> dict[str, str]:
    """The native operations with their types; empty if bindings or driver are too old to tell."""
    if function is None:
        return {}
    operations = [one for one in driver.CUatomicOperation if one.name != "CU_ATOMIC_OPERATION_MAX"]
    try:
        code, capabilities = attempt(function, operations, len(operations), *handles)
    except (RuntimeError, ValueError):  # the driver lacks the function, or sets a bit newer than the bindings
        return {}
    if code != SUCCESS:
        return {}
    return {
        operation.name.removeprefix("CU_ATOMIC_OPERATION_").removeprefix("INTEGER_").lower(): _types(
            operation.name, int(mask)
        )
        or "none"
        for operation, mask in zip(operations, capabilities, strict=True)
    }


def _types(operation: str, mask: int) -> str:
    """Such as "s32 u32 s64 u64": what an operation's capability bits cover."""
    named = {capability.name: bool(int(capability) & mask) for capability in driver.CUatomicOperationCapability}
    widths = [bits for bits in (32, 64, 128) if named.get(f"CU_ATOMIC_CAPABILITY_SCALAR_{bits}")]
    if "FLOAT" in operation:
        return " ".join(f"f{bits}" for bits in widths)
    signs = [sign for sign, name in (("s", "SIGNED"), ("u", "UNSIGNED")) if named.get(f"CU_ATOMIC_CAPABILITY_{name}")]
    return " ".join(f"{sign}{bits}" for bits in widths for sign in signs or ["b"])


def _attribute(name: str, handle: Any) -> int:
    attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call(driver.cuDeviceGetAttribute, attribute, handle))


def _optional_attribute(name: str, handle: Any) -> int:
    """0 where the bindings or the driver do not know it yet."""
    attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
    if attribute is None:
        return 0
    code, value = attempt(driver.cuDeviceGetAttribute, attribute, handle)
    return int(value) if code == SUCCESS else 0


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode()


def common_name(devices: Iterable[Device]) -> str:
    """Such as "2 x NVIDIA H200"."""
    names = [device.name for device in devices]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
