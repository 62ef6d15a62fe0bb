"""Probes that the child process runs in tests: each ends in another way."""

import os
import signal
import sys
import time

import numpy as np
from pydantic import BaseModel

from pcietool.contract.results import ProbeResult, Status
from pcietool.errors import CompileError, UsageError
from pcietool.machines.cuda.rounds import StuckError


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


def grown(observer, transport="peer"):
    """A part in progress, with a row that was announced by what came after it, and one that was not."""
    result = ProbeResult("growing", Status.PASS, "", transport, "by hand")
    observer.begin(result)
    result.rows.append({"one_way_us": np.float64(1.5)})
    observer.progress("one row")
    result.checks.append({"name": "guards", "passed": True, "text": "untouched"})
    result.rows.append({"one_way_us": 2.5})
    return result


def growing_then_finished(machine, config, observer):
    result = grown(observer)
    result.verdict = "fine"
    observer.result(result)


def growing_then_error(machine, config, observer):
    grown(observer)
    raise CompileError("the compiler refused it")


def growing_then_interrupted(machine, config, observer):
    grown(observer)
    observer.progress("now")
    time.sleep(60)


def growing_then_silent(machine, config, observer):
    grown(observer)
    machine._announce("spin_forever on GPU 0", 0.2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)


def orphaned(machine, config, observer):
    observer.progress(str(os.getpid()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)


def usage(machine, config, observer):
    raise UsageError("that makes no sense")


PROBES = {
    probe.__name__: (Config, probe)
    for probe in (
        finished,
        refused,
        stuck_kernel,
        broken,
        crashes,
        silent,
        interruptible,
        usage,
        growing_then_finished,
        growing_then_error,
        growing_then_interrupted,
        growing_then_silent,
        orphaned,
    )
}
