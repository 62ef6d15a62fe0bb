"""What NCCL really did, from its own debug output: transports, and algorithm and protocol by size.

Text in, facts out; must not start NCCL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONNECTIONS = "INIT,GRAPH,P2P,SHM,NET"
"""NCCL_DEBUG_SUBSYS of a run that is timed: lines while connecting, none a call."""
CHOICES = f"{CONNECTIONS},TUNING"
"""Of a run that is only looked at: one line a call."""
_TRANSPORT = re.compile(r"\bvia ((?:P2P|SHM|NET|COLLNET|NVLS)(?:/(?:direct pointer|\w+))*)")
_CHOICE = re.compile(
    r"AllReduce(?: \[Symmetric\])?: (?P<bytes>\d+) Bytes -> "
    r"(?:Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)|Kernel (?P<kernel>\w+))"
)


def transports(text: str) -> list[str]:
    """Such as ["P2P/CUMEM"], in the order of their first mention."""
    return list(dict.fromkeys(_TRANSPORT.findall(text)))


def choices(text: str) -> dict[str, str]:
    """Bytes (as text, since JSON has no other keys) -> "RING LL", or the name of a symmetric kernel."""
    return {
        found["bytes"]: f"symmetric {found['kernel']}"
        if found["kernel"]
        else f"{found['algorithm']} {found['protocol']}"
        for found in _CHOICE.finditer(text)
    }


def debug_settings(folder: Path, subsystems: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that make NCCL tell; none, if the user has settings of that kind, which are kept."""
    if any(name.startswith("NCCL_DEBUG") for name in environment):
        return {}
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": subsystems,
        "NCCL_DEBUG_FILE": str(folder / "nccl.%p.log"),
    }


def read_logs(environment: Mapping[str, str]) -> dict[str, Any]:
    """{"transports", "choices", "log_reason"} of this process, from the file that `environment` names."""
    pattern = environment.get("NCCL_DEBUG_FILE")
    if pattern is None:
        return {"transports": None, "choices": {}, "log_reason": "NCCL_DEBUG is set without NCCL_DEBUG_FILE, and kept"}
    path = Path(pattern.replace("%p", str(os.getpid())))
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return {"transports": None, "choices": {}, "log_reason": f"NCCL wrote no {path.name}: {error.strerror}"}
    found = transports(text)
    reason = None if found else "NCCL's debug output names no transport"
    return {"transports": found or None, "choices": choices(text), "log_reason": reason}
