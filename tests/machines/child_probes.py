"""Probes that the child process runs in tests: each ends in another way."""

import os
import signal
import sys
import time

import numpy as np
from pydantic import BaseModel

from pcietool.errors import CompileError, UsageError
from pcietool.machines.cuda.rounds import StuckError
from pcietool.probes.base import ProbeResult, Status


class Config(BaseModel):
    value: int = 1


def finished(machine, config, observer):
    sys.stdout.write("a library writes to stdout\n")
    observer.progress("measuring")
    rows = [{"one_way_us": np.float64(config.value), "count": np.uint32(3)}]
    samples = {"rounds": np.arange(6, dtype=np.uint16).reshape(2, 3)}
    observer.result(ProbeResult("finished", Status.PASS, "fine", "peer", "by hand", rows=rows, samples=samples))


def refused(machine, config, observer):
    raise CompileError("the compiler refused it")


def stuck_kernel(machine, config, observer):
    raise StuckError("a kernel broke its context")


def broken(machine, config, observer):
    return [][config.value]


def crashes(machine, config, observer):
    sys.stderr.write("last words\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def silent(machine, config, observer):
    observer.result(ProbeResult("silent", Status.PASS, "first part", "host", "by hand"))
    machine._announce("spin_forever on GPU 0", 0.2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)


def interruptible(machine, config, observer):
    observer.result(ProbeResult("interruptible", Status.PASS, "first part", "host", "by hand"))
    observer.progress("now")
    time.sleep(60)


def usage(machine, config, observer):
    raise UsageError("that makes no sense")


PROBES = {
    probe.__name__: (Config, probe)
    for probe in (finished, refused, stuck_kernel, broken, crashes, silent, interruptible, usage)
}
