"""Do the GPUs still work, after a contender hung and was killed? A fresh process opens each of them and uses it.

`python -m pcietool.machines.cuda.gpu_check N`; `gpus_answer` runs it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

_DEADLINE_S = 30.0


def gpus_answer(count: int, environment: Mapping[str, str]) -> tuple[str, bool]:
    """(what is to say about the first `count` GPUs that `environment` shows, can they be used)."""
    command = [sys.executable, "-m", "pcietool.machines.cuda.gpu_check", str(count)]
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a fresh process could not use the GPUs within {_DEADLINE_S:g} s: look at nvidia-smi and dmesg", False
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return f"a fresh process cannot use the GPUs: {reason}", False
    return "a fresh process can use all GPUs", True


def main() -> None:
    from cuda.bindings import driver

    from pcietool.machines.cuda.driver import call, initialise

    initialise()
    for index in range(int(sys.argv[1])):
        context = call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, index))
        call(driver.cuCtxSetCurrent, context)
        memory = call(driver.cuMemAlloc, 4096)
        call(driver.cuMemsetD8, memory, 1, 4096)
        call(driver.cuCtxSynchronize)


if __name__ == "__main__":
    main()
