"""Is there anything to measure on? Must not initialise CUDA."""

from __future__ import annotations

import ctypes


def driver_present() -> bool:
    """Is there a CUDA driver library? Loads it but does not initialise it, so this process may still fork."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
