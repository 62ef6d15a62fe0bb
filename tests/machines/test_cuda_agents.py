import ctypes
import threading
import time
from types import SimpleNamespace
from typing import cast

import pytest

from pcietool.machines.base import Buffer, HostAgent
from pcietool.machines.cuda.agents import AgentThread, atomic_fetch_add

pytestmark = pytest.mark.skipif(atomic_fetch_add() is None, reason="no libatomic here")


class Word:
    """Two words, and what looks like a buffer with them: only the address counts."""

    def __init__(self) -> None:
        self.memory = (ctypes.c_uint32 * 2)()

    def adder(self, offset: int, go: threading.Event) -> AgentThread:
        buffer = SimpleNamespace(address=ctypes.addressof(self.memory))
        return AgentThread(HostAgent(cast(Buffer, buffer), offset, 1000), go)


def wait_for(agent: AgentThread) -> None:
    """For ever: the limit of a test ends it."""
    while agent.is_running:
        time.sleep(0.001)


def test_it_waits_for_go_and_then_adds() -> None:
    word, go = Word(), threading.Event()
    agents = [word.adder(4, go) for _ in range(2)]
    time.sleep(0.02)
    assert list(word.memory) == [0, 0]
    go.set()
    for agent in agents:
        wait_for(agent)
        assert agent.elapsed_ns > 0
    assert list(word.memory) == [0, 2000]


def test_cancelled_it_adds_nothing() -> None:
    word = Word()
    agent = word.adder(0, threading.Event())
    agent.cancel()
    wait_for(agent)
    assert list(word.memory) == [0, 0]
