"""Which GPUs the user means: by index, UUID, UUID prefix or PCI address.

Pure text against a list; must not ask any driver. CUDA_VISIBLE_DEVICES is applied by the CUDA driver itself, so
here it is only explained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pcietool.errors import UsageError

_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.IGNORECASE)
_UUID_KINDS = ("gpu-", "mig-")


@dataclass(frozen=True)
class GpuIdentity:
    """The names one GPU answers to; `index` is the one CUDA gives it in this process."""

    index: int
    uuid: str
    pci: str

    def __str__(self) -> str:
        return f"{self.index} ({self.uuid}, {self.pci})"


def select_gpus(
    names: Sequence[str] | None,
    count: int | None,
    gpus: Sequence[GpuIdentity],
    elsewhere: Callable[[int], str] = lambda count: "",
) -> tuple[GpuIdentity, ...]:
    """The GPUs that `names` ("0", "GPU-ab", "01:00.0") mean, in that order, or the first `count`, or all.

    Raises UsageError for a name that fits no GPU or several, for a GPU named twice, and for more than there are, with
    what `elsewhere` says of so many.
    """
    if names is not None and count is not None:
        raise UsageError("--gpus and --num-gpus exclude each other: give one of them")
    if names is not None:
        return _named(names, gpus)
    if count is None:
        return tuple(gpus)
    if not 1 <= count <= len(gpus):
        raise UsageError(f"--num-gpus {count}: {_available(gpus)}{elsewhere(count)}")
    return tuple(gpus[:count])


def _named(names: Sequence[str], gpus: Sequence[GpuIdentity]) -> tuple[GpuIdentity, ...]:
    chosen: dict[GpuIdentity, str] = {}
    for name in names:
        gpu = _resolve(name, gpus)
        if gpu in chosen:
            raise UsageError(f"--gpus: {chosen[gpu]!r} and {name!r} are the same GPU {gpu}; name it once")
        chosen[gpu] = name
    return tuple(chosen)


def _resolve(name: str, gpus: Sequence[GpuIdentity]) -> GpuIdentity:
    matching = [gpu for gpu in gpus if _answers_to(gpu, name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(f"--gpus {name}: fits {len(matching)} GPUs; {_available(matching)}")
    raise UsageError(f"--gpus: no GPU {name!r}; {_available(gpus)}")


def _answers_to(gpu: GpuIdentity, name: str) -> bool:
    if name.isascii() and name.isdigit():
        return str(gpu.index) == (name.lstrip("0") or "0")
    if name.lower().startswith(_UUID_KINDS):
        return gpu.uuid.lower().startswith(name.lower())
    wanted, own = _PCI_ADDRESS.fullmatch(name), _PCI_ADDRESS.fullmatch(gpu.pci)
    if wanted is None or own is None:
        return False
    # Domain and function may be left out, and NVML writes the domain with 8 digits where CUDA writes 4.
    return all(w is None or int(w, 16) == int(o or "0", 16) for w, o in zip(wanted.groups(), own.groups(), strict=True))


def _available(gpus: Sequence[GpuIdentity]) -> str:
    return "there is " + (", ".join(map(str, gpus)) or "none")


def visible_devices_note(environment: Mapping[str, str]) -> str | None:
    """What CUDA_VISIBLE_DEVICES does to the list of GPUs, with what to do; None if it is not set."""
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    first = value.split(",")[0].strip()
    if first == "" or first == "-1" or first.lower() == "nodevfiles":
        return f'CUDA_VISIBLE_DEVICES="{value}" hides all GPUs: unset it'
    if first.lower().startswith("mig-"):
        return f'CUDA_VISIBLE_DEVICES="{value}" shows one MIG instance only, which has no peer access: unset it'
    return f'CUDA_VISIBLE_DEVICES="{value}" hides the other GPUs and renumbers these from 0'
