"""Work on several cores: the same answers in the same order, errors that arrive, and nothing left behind."""

import multiprocessing
import os
import signal

import pytest

from pcietool.errors import PcietoolError, ScenarioError
from pcietool.supervision.forks import cores, in_order
from tests.clock import Clock


def forked_at_once() -> Clock:
    """Each look at it is an hour later: nothing more is done alone than the first number."""
    return Clock(3600.0)


@pytest.mark.parametrize("jobs", [1, 2, 3, 50])
def test_answers_come_in_order_on_any_number_of_cores(jobs: int) -> None:
    assert list(in_order(lambda n: n * n, 20, jobs, forked_at_once().monotonic)) == [n * n for n in range(20)]


def test_other_processes_do_it() -> None:
    pids = set(in_order(lambda _: os.getpid(), 9, 3, forked_at_once().monotonic))
    assert len(pids - {os.getpid()}) == 3


def test_what_is_done_soon_is_done_here() -> None:
    assert set(in_order(lambda _: os.getpid(), 9, 3, Clock(0.0).monotonic)) == {os.getpid()}
    assert set(in_order(lambda _: os.getpid(), 9, 1, forked_at_once().monotonic)) == {os.getpid()}


def test_nothing_is_asked_of_no_numbers() -> None:
    assert list(in_order(lambda n: n, 0, 4)) == []


def test_who_has_enough_ends_the_rest() -> None:
    asked = []
    for answer in in_order(lambda n: n, 10**9, 2, forked_at_once().monotonic):
        asked.append(answer)
        if answer == 5:
            break
    assert asked == [0, 1, 2, 3, 4, 5]
    assert not multiprocessing.active_children()


def test_an_error_arrives_as_it_was_raised_behind_the_answers_before_it() -> None:
    def work(n: int) -> int:
        if n == 4:
            raise ScenarioError("scenarios.py:7: no")
        return n

    answers = in_order(work, 9, 2, forked_at_once().monotonic)
    assert [next(answers) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ScenarioError, match=r"scenarios.py:7: no"):
        next(answers)
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_named_with_what_to_do() -> None:
    def work(n: int) -> int:
        if n == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    with pytest.raises(PcietoolError, match=r"ended early \(SIGKILL\).*--jobs 1"):
        list(in_order(work, 9, 2, forked_at_once().monotonic))


def test_there_is_a_core() -> None:
    assert cores() >= 1
