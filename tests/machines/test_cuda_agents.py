import ctypes
import threading
import time
from types import SimpleNamespace
from typing import cast

import pytest

from pcietool.machines.cuda.agents import AgentThread, atomic_fetch_add, store_and_look
from pcietool.machines.host_agents import HostAgent, Stores, Words

pytestmark = pytest.mark.skipif(atomic_fetch_add() is None, reason="no libatomic here")


class Word:
    """Two words, and what looks like a buffer with them: only the address counts."""

    def __init__(self) -> None:
        self.memory = (ctypes.c_uint32 * 2)()

    def adder(self, offset: int, go: threading.Event) -> AgentThread:
        buffer = SimpleNamespace(address=ctypes.addressof(self.memory))
        return AgentThread(HostAgent(cast(Words, buffer), offset, 1000), go, 2.0)


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


def test_a_store_that_is_undone_is_counted_and_the_next_one_made() -> None:
    memory = (ctypes.c_uint32 * 4)()
    time_ns = 0

    def clock() -> int:
        """Somebody writes the value before back, at 250 ns, when 3 is there, and leaves the others alone."""
        nonlocal time_ns
        time_ns += 50
        if time_ns == 450:
            assert memory[0] == 3
            memory[0] = 2
        return time_ns

    store_and_look(ctypes.addressof(memory), ctypes.addressof(memory) + 4, Stores(5, 100, 4), 10**6, clock)
    assert list(memory) == [5, 1, 5, 1]


def test_stores_end_in_time() -> None:
    memory = (ctypes.c_uint32 * 4)()
    times = iter(range(0, 10**6, 100))
    store_and_look(
        ctypes.addressof(memory), ctypes.addressof(memory) + 4, Stores(10**9, 300, 4), 4000, lambda: next(times)
    )
    assert list(memory) == [10, 1, 10, 0]


def test_a_storing_agent_waits_for_go_and_leaves_its_report() -> None:
    memory, go = (ctypes.c_uint32 * 4)(), threading.Event()
    buffer = cast(Words, SimpleNamespace(address=ctypes.addressof(memory)))
    agent = AgentThread(HostAgent(buffer, 0, stores=Stores(100, 1000, 4)), go, 2.0)
    time.sleep(0.02)
    assert list(memory) == [0] * 4
    go.set()
    wait_for(agent)
    assert list(memory) == [100, 1, 100, 0]
