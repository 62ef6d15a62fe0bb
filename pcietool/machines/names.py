"""What launches are called in messages. Must not know any machine."""

from __future__ import annotations

from collections.abc import Sequence

from pcietool.machines.base import CopyStream, Launch


def launch_names(launches: Sequence[Launch]) -> str:
    """Such as "barrier_rounds on GPUs 0, 1"."""
    kernels = ", ".join(dict.fromkeys(launch.kernel.name for launch in launches))
    devices = sorted({launch.device for launch in launches})
    return f"{kernels} on GPU{'s' if len(devices) > 1 else ''} {', '.join(map(str, devices))}"


def round_names(launches: Sequence[Launch], copy_streams: Sequence[CopyStream]) -> str:
    """As `launch_names`, and where copy streams run beside them."""
    copying = ", ".join(str(stream.device) for stream in copy_streams)
    parts = [launch_names(launches)] * bool(launches) + [f"copies by GPU {copying}"] * bool(copy_streams)
    return " with ".join(parts)
