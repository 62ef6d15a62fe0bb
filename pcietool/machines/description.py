"""A machine as JSON: what every result says about where it comes from."""

from __future__ import annotations

from dataclasses import asdict
from itertools import permutations
from typing import Any

from pcietool.compiler import nvrtc_info
from pcietool.machines.base import Machine


def describe(machine: Machine) -> dict[str, Any]:
    """backend, label, devices, links (ordered pairs), host_links and facts, with the kernels loaded so far; JSON values
    only."""
    nvrtc = nvrtc_info()
    indices = [device.index for device in machine.devices]
    return {
        "backend": machine.backend,
        "label": machine.label,
        "devices": [asdict(device) for device in machine.devices],
        "links": [asdict(machine.link(src, dst)) for src, dst in permutations(indices, 2)],
        "host_links": [asdict(machine.host_link(index)) for index in indices],
        "facts": {
            **machine.facts(),
            "kernels_sha256": loaded_kernels(machine),
            "nvrtc": {"path": nvrtc.path, "version": ".".join(map(str, nvrtc.version))},
        },
    }


def loaded_kernels(machine: Machine) -> dict[str, Any]:
    """`Machine.kernels_sha256`, sorted: in which order probes load is nobody's business."""
    return {
        name: {"source": known["source"], "ptx": dict(sorted(known["ptx"].items()))}
        for name, known in sorted(machine.kernels_sha256.items())
    }
