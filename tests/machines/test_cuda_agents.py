import ctypes
import threading
import time

import pytest

from pcietool.machines.base import HostAgent
from pcietool.machines.cuda.agents import AgentThread, atomic_fetch_add

pytestmark = pytest.mark.skipif(atomic_fetch_add() is None, reason="no libatomic here")


class Word:
    """Looks like a buffer: only the address counts."""

    def __init__(self):
        self.memory = (ctypes.c_uint32 * 2)()
        self.address = ctypes.addressof(self.memory)


def wait_for(agent):
    until = time.monotonic() + 10
    while agent.is_running:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_it_waits_for_go_and_then_adds():
    word, go = Word(), threading.Event()
    agents = [AgentThread(HostAgent(word, 4, 1000), go) for _ in range(2)]
    time.sleep(0.02)
    assert list(word.memory) == [0, 0]
    go.set()
    for agent in agents:
        wait_for(agent)
        assert agent.elapsed_ns > 0
    assert list(word.memory) == [0, 2000]


def test_cancelled_it_adds_nothing():
    word = Word()
    agent = AgentThread(HostAgent(word, 0, 1000), threading.Event())
    agent.cancel()
    wait_for(agent)
    assert list(word.memory) == [0, 0]
