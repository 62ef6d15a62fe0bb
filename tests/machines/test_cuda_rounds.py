"""How a round ends, against GPUs that are scripted: no driver needed."""

import pytest

from pcietool.contract.outcomes import WaitRecord
from pcietool.errors import DriverError
from pcietool.machines.cuda import rounds
from pcietool.machines.cuda.rounds import StuckError, run_round

RECORD = WaitRecord("deadline", 0, 1, 1, 5, 4, 5, 0, 1, 1000)
NEVER = 1 << 60


class FakeGpu:
    """Ends after `polls` looks at it; `log` is shared, to see what happened in which order."""

    began, ended = "began", "ended"

    def __init__(self, index, log, polls=3, waits=0, broken=False):
        self.index, self.log, self.polls, self.waits, self.broken = index, log, polls, waits, broken

    def arm_watch(self, deadline_s):
        self.log.append(("arm", self.index))

    def record(self, event):
        self.log.append((event, self.index))

    def has_ended(self):
        if self.broken:
            raise DriverError(f"GPU {self.index}: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
        self.polls -= 1
        return self.polls <= 0

    def elapsed_ns(self):
        return 100.0 + self.index

    def read_watch(self):
        self.log.append(("read", self.index))
        return self.waits > 0, self.waits

    def wait_records(self, taken=1):
        return (RECORD,) * min(taken, 1)


@pytest.fixture(autouse=True)
def _short_margin(monkeypatch):
    monkeypatch.setattr(rounds, "JOIN_MARGIN_S", 0.05)


def run(gpus, log, submit=None):
    launches = [lambda gpu=gpu: log.append(("launch", gpu.index)) for gpu in gpus]
    return run_round(gpus, submit or launches, 0.05, [], "spin on GPUs 0, 1")


def test_everything_is_launched_back_to_back():
    log = []
    outcome = run([FakeGpu(0, log), FakeGpu(1, log, polls=9)], log)
    assert outcome.finished
    assert outcome.elapsed_ns == {0: 100.0, 1: 101.0}
    steps = ("arm", "began", "launch", "ended", "read")
    assert log == [(step, index) for step in steps for index in (0, 1)]


def test_a_wait_that_gave_up_is_a_hang_at_the_device_deadline():
    log = []
    hang = run([FakeGpu(0, log, waits=3), FakeGpu(1, log)], log).hang
    assert (hang.limit, hang.records, hang.dropped_records) == ("device deadline", (RECORD,), 2)


def test_a_kernel_that_outlives_its_deadline_is_left_alone():
    log = []
    outcome = run([FakeGpu(0, log), FakeGpu(1, log, polls=NEVER)], log)
    assert outcome.hang.limit == "host join timeout"
    assert outcome.hang.records == (RECORD, RECORD)
    assert ("read", 1) not in log


def test_a_broken_context_makes_the_machine_stuck():
    with pytest.raises(StuckError, match=r"spin on GPUs 0, 1 failed on GPU 1: CUDA_ERROR_ILLEGAL_ADDRESS"):
        run([FakeGpu(0, []), FakeGpu(1, [], broken=True)], [])


@pytest.mark.parametrize("error", [DriverError("refused"), KeyboardInterrupt()])
def test_what_already_runs_ends_before_an_error_goes_on(error):
    gpus, log = [FakeGpu(0, []), FakeGpu(1, [], polls=20)], []

    def refuse():
        raise error

    with pytest.raises(type(error)):
        run(gpus, log, [lambda: None, refuse])
    assert all(gpu.polls <= 0 for gpu in gpus)


def test_what_never_ends_after_a_refused_launch_is_stuck():
    def refuse():
        raise DriverError("refused")

    with pytest.raises(StuckError, match="still running"):
        run([FakeGpu(0, [], polls=NEVER)], [], [refuse])


class FakeQueue:
    """A copy queue that ends after `polls` looks at it."""

    def __init__(self, polls=5):
        self.polls = polls

    def has_ended(self):
        self.polls -= 1
        return self.polls <= 0

    def elapsed_ns(self):
        return 7.0


def test_copy_queues_are_waited_for_too():
    log, queue = [], FakeQueue()
    outcome = run_round([FakeGpu(0, log)], [], 0.05, [], "copies by GPU 0", [queue])
    assert queue.polls <= 0
    assert outcome.copy_streams_ns == (7.0,)
    stuck = run_round([], [], 0.05, [], "copies by GPU 0", [FakeQueue(NEVER)])
    assert stuck.hang.limit == "host join timeout"
