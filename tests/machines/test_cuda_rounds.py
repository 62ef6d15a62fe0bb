"""How a round ends, against GPUs that are scripted: no driver needed."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import pytest

from pcietool.contract.outcomes import Outcome, WaitRecord
from pcietool.errors import DriverError
from pcietool.machines.cuda import rounds
from pcietool.machines.cuda.copies import CopyQueue
from pcietool.machines.cuda.gpu import WatchedGpu
from pcietool.machines.cuda.rounds import StuckError, run_round
from tests.clock import Clock

RECORD = WaitRecord("deadline", 0, 1, 1, 5, 4, 5, 0, 1, 1000)
NEVER = 1 << 60
Log = list[tuple[str, int]]


class FakeGpu:
    """Ends after `polls` looks at it; `log` is shared, to see what happened in which order."""

    began, ended = "began", "ended"

    def __init__(self, index: int, log: Log, polls: int = 3, waits: int = 0, broken: bool = False) -> None:
        self.index, self.log, self.polls, self.waits, self.broken = index, log, polls, waits, broken

    def arm_watch(self, deadline_s: float) -> None:
        self.log.append(("arm", self.index))

    def record(self, event: str) -> None:
        self.log.append((event, self.index))

    def begin(self) -> None:
        self.record(self.began)

    def end(self) -> None:
        self.record(self.ended)

    def has_ended(self) -> bool:
        if self.broken:
            raise DriverError(f"GPU {self.index}: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
        self.polls -= 1
        return self.polls <= 0

    def elapsed_ns(self) -> float:
        return 100.0 + self.index

    def read_watch(self) -> tuple[bool, int]:
        self.log.append(("read", self.index))
        return self.waits > 0, self.waits

    def wait_records(self, taken: int = 1) -> tuple[WaitRecord, ...]:
        return (RECORD,) * min(taken, 1)


@pytest.fixture(autouse=True)
def _its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "time", Clock(1e-5))


def run(gpus: Sequence[FakeGpu], log: Log, submit: Sequence[Callable[[], None]] | None = None) -> Outcome:
    launches = [partial(log.append, ("launch", gpu.index)) for gpu in gpus]
    return run_round(cast(Sequence[WatchedGpu], gpus), submit or launches, 0.05, [], "spin on GPUs 0, 1")


def test_everything_is_launched_back_to_back() -> None:
    log: Log = []
    outcome = run([FakeGpu(0, log), FakeGpu(1, log, polls=9)], log)
    assert outcome.finished
    assert outcome.elapsed_ns == {0: 100.0, 1: 101.0}
    steps = ("arm", "began", "launch", "ended", "read")
    assert log == [(step, index) for step in steps for index in (0, 1)]


def test_a_wait_that_gave_up_is_a_hang_at_the_device_deadline() -> None:
    log: Log = []
    hang = run([FakeGpu(0, log, waits=3), FakeGpu(1, log)], log).hang
    assert hang is not None
    assert (hang.limit, hang.records, hang.dropped_records) == ("device deadline", (RECORD,), 2)


def test_a_kernel_that_outlives_its_deadline_is_left_alone() -> None:
    log: Log = []
    outcome = run([FakeGpu(0, log), FakeGpu(1, log, polls=NEVER)], log)
    assert outcome.hang is not None
    assert outcome.hang.limit == "host join timeout"
    assert outcome.hang.records == (RECORD, RECORD)
    assert ("read", 1) not in log


def test_a_broken_context_makes_the_machine_stuck() -> None:
    with pytest.raises(StuckError, match=r"spin on GPUs 0, 1 failed on GPU 1: CUDA_ERROR_ILLEGAL_ADDRESS"):
        run([FakeGpu(0, []), FakeGpu(1, [], broken=True)], [])


@pytest.mark.parametrize("error", [DriverError("refused"), KeyboardInterrupt()])
def test_what_already_runs_ends_before_an_error_goes_on(error: BaseException) -> None:
    gpus = [FakeGpu(0, []), FakeGpu(1, [], polls=20)]

    def refuse() -> None:
        raise error

    with pytest.raises(type(error)):
        run(gpus, [], [lambda: None, refuse])
    assert all(gpu.polls <= 0 for gpu in gpus)


def test_what_never_ends_after_a_refused_launch_is_stuck() -> None:
    def refuse() -> None:
        raise DriverError("refused")

    with pytest.raises(StuckError, match="still running"):
        run([FakeGpu(0, [], polls=NEVER)], [], [refuse])


class FakeQueue:
    """A copy queue that ends after `polls` looks at it."""

    def __init__(self, polls: int = 5) -> None:
        self.polls = polls

    def has_ended(self) -> bool:
        self.polls -= 1
        return self.polls <= 0

    def elapsed_ns(self) -> float:
        return 7.0


def copies(gpus: Sequence[FakeGpu], queue: FakeQueue) -> Outcome:
    queues = cast(Sequence[CopyQueue], [queue])
    return run_round(cast(Sequence[WatchedGpu], gpus), [], 0.05, [], "copies by GPU 0", queues)


def test_copy_queues_are_waited_for_too() -> None:
    queue = FakeQueue()
    outcome = copies([FakeGpu(0, [])], queue)
    assert queue.polls <= 0
    assert outcome.copy_streams_ns == (7.0,)
    stuck = copies([], FakeQueue(NEVER))
    assert stuck.hang is not None
    assert stuck.hang.limit == "host join timeout"
