"""Probes that the child process runs in tests: each ends in another way."""

import os
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np

from pcietool.contract.config import Config as ProbeConfig
from pcietool.contract.results import Observer, ProbeResult, Status
from pcietool.errors import CompileError, UsageError
from pcietool.machines.base import Machine
from pcietool.machines.cuda.rounds import StuckError


@dataclass(frozen=True, kw_only=True)
class Config(ProbeConfig):
    value: int = 1


def finished(machine: Machine, config: Config, observer: Observer) -> None:
    sys.stdout.write("a library writes to stdout\n")
    machine.load("placement.cu")
    observer.progress("measuring")
    rows = [{"one_way_us": np.float64(config.value), "count": np.uint32(3)}]
    samples = {"rounds": np.arange(6, dtype=np.uint16).reshape(2, 3)}
    observer.result(ProbeResult("finished", Status.PASS, "fine", "peer", "by hand", rows=rows, samples=samples))


def refused(machine: Machine, config: Config, observer: Observer) -> None:
    raise CompileError("the compiler refused it")


def stuck_kernel(machine: Machine, config: Config, observer: Observer) -> None:
    raise StuckError("a kernel broke its context")


def broken(machine: Machine, config: Config, observer: Observer) -> int:
    nothing: list[int] = []
    return nothing[config.value]


def crashes(machine: Machine, config: Config, observer: Observer) -> None:
    sys.stderr.write("last words\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def silent(machine: Machine, config: Config, observer: Observer) -> None:
    observer.result(ProbeResult("silent", Status.PASS, "first part", "host", "by hand"))
    machine.announce("spin_forever on GPU 0", 0.2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)


def interruptible(machine: Machine, config: Config, observer: Observer) -> None:
    observer.result(ProbeResult("interruptible", Status.PASS, "first part", "host", "by hand"))
    observer.progress("now")
    time.sleep(60)
    observer.result(ProbeResult("interruptible", Status.PASS, "nobody interrupted it", "host", "by hand"))


def grown(observer: Observer, transport: str = "peer") -> ProbeResult:
    """A part in progress, with a row that was announced by what came after it, and one that was not."""
    result = ProbeResult("growing", Status.PASS, "", transport, "by hand")
    observer.begin(result)
    result.rows.append({"one_way_us": np.float64(1.5)})
    observer.progress("one row")
    result.checks.append({"name": "guards", "passed": True, "text": "untouched"})
    result.rows.append({"one_way_us": 2.5})
    return result


def growing_then_finished(machine: Machine, config: Config, observer: Observer) -> None:
    result = grown(observer)
    result.verdict = "fine"
    observer.result(result)


def growing_then_error(machine: Machine, config: Config, observer: Observer) -> None:
    grown(observer)
    raise CompileError("the compiler refused it")


def growing_then_interrupted(machine: Machine, config: Config, observer: Observer) -> None:
    grown(observer)
    observer.progress("now")
    time.sleep(60)


def growing_then_silent(machine: Machine, config: Config, observer: Observer) -> None:
    grown(observer)
    machine.announce("spin_forever on GPU 0", 0.2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)


def orphaned(machine: Machine, config: Config, observer: Observer) -> None:
    observer.progress(str(os.getpid()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)


def usage(machine: Machine, config: Config, observer: Observer) -> None:
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
