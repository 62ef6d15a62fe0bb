"""One round: everything is started at once, then the host only looks, until the end or until it gives up.

Order of limits: the kernels' own deadline < JOIN_MARGIN_S later the host's < later still the parent's kill.
While a kernel may spin, nothing here may synchronise, allocate, free or load.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from pcietool.contract.outcomes import Hang, Outcome
from pcietool.errors import DriverError
from pcietool.machines.base import JOIN_MARGIN_S
from pcietool.machines.cuda.agents import AgentThread
from pcietool.machines.cuda.copies import CopyQueue
from pcietool.machines.cuda.gpu import WatchedGpu
from pcietool.machines.host_agents import HostAgent

_BUSY_POLL_S = 0.002
_POLL_INTERVAL_S = 50e-6


class StuckError(DriverError):
    """The context is broken or a kernel never ends: this process must leave CUDA alone from now on."""


def run_round(
    gpus: Sequence[WatchedGpu],
    submit: Sequence[Callable[[], None]],
    deadline_s: float,
    host_agents: Sequence[HostAgent],
    what: str,
    copy_queues: Sequence[CopyQueue] = (),
) -> Outcome:
    """Submits everything back to back on `gpus` and `copy_queues` and polls for the end. `what` names the kernels in
    errors.

    Returns a hang with limit "host join timeout" if a kernel outlives its deadline; the machine is stuck then.
    Raises StuckError if a kernel broke its context.
    """
    for gpu in gpus:
        gpu.arm_watch(deadline_s)
    go = threading.Event()
    agents = [AgentThread(agent, go, deadline_s) for agent in host_agents]
    join_s = deadline_s + JOIN_MARGIN_S
    try:
        _start(gpus, submit)
        go.set()
        joined = _join([*gpus, *copy_queues], agents, join_s, what)
    except StuckError:
        raise
    except BaseException:
        # A refused launch or Ctrl-C: what already runs ends by its own deadline, and nothing may be freed before.
        for agent in agents:
            agent.cancel()
        if not _join([*gpus, *copy_queues], agents, join_s, what):
            raise StuckError(f"{what}: still running {join_s:.1f} s after its launch was interrupted") from None
        raise
    if not joined:
        records = tuple(record for gpu in gpus for record in gpu.wait_records())
        return Outcome({}, Hang("host join timeout", records))
    return _outcome(gpus, agents, copy_queues)


def _start(gpus: Sequence[WatchedGpu], submit: Sequence[Callable[[], None]]) -> None:
    for gpu in gpus:
        gpu.begin()
    try:
        for launch in submit:
            launch()
    finally:
        for gpu in gpus:
            gpu.end()


def _join(
    queues: Sequence[WatchedGpu | CopyQueue], agents: Sequence[AgentThread], deadline_s: float, what: str
) -> bool:
    """Has everything ended within `deadline_s`?"""
    began = time.monotonic()
    running = list(queues)
    while running or any(agent.is_running for agent in agents):
        try:
            running = [queue for queue in running if not queue.has_ended()]
        except DriverError as error:
            raise StuckError(f"{what} failed on {error}") from None
        waited = time.monotonic() - began
        if waited > deadline_s:
            return False
        # An agent needs the interpreter lock, so with agents the host never polls without a pause.
        if agents or waited > _BUSY_POLL_S:
            time.sleep(_POLL_INTERVAL_S)
    return True


def _outcome(gpus: Sequence[WatchedGpu], agents: Sequence[AgentThread], copy_queues: Sequence[CopyQueue]) -> Outcome:
    elapsed = {gpu.index: gpu.elapsed_ns() for gpu in gpus}
    watches = [(gpu, *gpu.read_watch()) for gpu in gpus]
    hang = None
    if any(gave_up for _, gave_up, _ in watches):
        records = tuple(record for gpu, _, taken in watches for record in gpu.wait_records(taken))
        hang = Hang("device deadline", records, sum(taken for _, _, taken in watches) - len(records))
    copying = tuple(queue.elapsed_ns() for queue in copy_queues)
    return Outcome(elapsed, hang, tuple(agent.elapsed_ns for agent in agents), copying)
