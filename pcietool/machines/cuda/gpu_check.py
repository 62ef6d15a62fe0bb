"""Do the GPUs still work? A fresh process opens each of them and uses it; started only by `contenders.team`."""

from __future__ import annotations

from typing import IO

from cuda.bindings import driver

from pcietool.machines.cuda.driver import call, initialise


def main(answers: IO[bytes], count: str) -> None:
    """Says nothing; ends in an error unless the first `count` GPUs work."""
    initialise()
    for index in range(int(count)):
        context = call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, index))
        call(driver.cuCtxSetCurrent, context)
        memory = call(driver.cuMemAlloc, 4096)
        call(driver.cuMemsetD8, memory, 1, 4096)
        call(driver.cuCtxSynchronize)
