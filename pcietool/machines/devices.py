"""What a machine says about its devices, their links and the host: plain data.

Must not know who found it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

NativeAtomics = Literal["full", "partial", "none", "unknown"]


@dataclass(frozen=True)
class Device:
    """One GPU as the machine numbers it; `index` is what every other call takes."""

    index: int
    name: str
    uuid: str
    pci: str
    compute_capability: tuple[int, int]
    sms: int
    memory_bytes: int
    max_threads_per_block: int = 1024
    machine_index: int | None = None
    """What the whole machine calls it, the number that --gpus takes."""
    kernel_timeout: bool = False
    """A display watchdog ends kernels on this GPU after a few seconds."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More facts for the result file (link generation and width, clocks, ...), JSON values only."""


@dataclass(frozen=True)
class Link:
    """What the driver says about one ordered pair: `src` stores to and reads from memory of `dst`."""

    src: int
    dst: int
    kind: Literal["pcie", "nvlink", "unknown"]
    access: bool
    native_atomics: NativeAtomics
    atomic_ops: Mapping[str, str] = field(default_factory=dict)
    """Per operation, where the driver knows ("add": "u32 u64"); empty where it does not say."""
    reason: str | None = None
    """Why there is no access."""


@dataclass(frozen=True)
class HostLink:
    """What the driver says about one device and mapped host memory."""

    device: int
    native_atomics: NativeAtomics
    atomic_ops: Mapping[str, str] = field(default_factory=dict)
