"""CPU threads that take part in a round: atomic increments through libatomic, or plain stores that are looked after.

Must not call CUDA.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from functools import cache
from itertools import repeat

from pcietool.machines.host_agents import REPORT, HostAgent, Stores

_SEQUENTIALLY_CONSISTENT = 5


@cache
def atomic_fetch_add() -> Callable[[int, int, int], int] | None:
    """`__atomic_fetch_add_4(address, value, memory order)`, or None without libatomic.

    Called with the interpreter lock held: handing it over at every increment would cost far more than the increment.
    """
    try:
        function = ctypes.PyDLL("libatomic.so.1").__atomic_fetch_add_4
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int]
    function.restype = ctypes.c_uint32
    return function


class AgentThread:
    """One host agent: started and waiting before the round, let go by `go`. `deadline_s`: of the round."""

    def __init__(self, agent: HostAgent, go: threading.Event, deadline_s: float) -> None:
        self.elapsed_ns = 0.0
        self._agent = agent
        self._address = agent.buffer.address + agent.offset
        self._report = None if agent.stores is None else agent.buffer.address + agent.stores.report
        self._go = go
        self._deadline_s = deadline_s
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name="pcietool host agent", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Lets the thread end without doing anything more."""
        self._cancelled = True
        self._go.set()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        self._go.wait()
        if self._cancelled:
            return
        began = time.perf_counter_ns()
        if self._agent.stores is None or self._report is None:
            self._add()
        else:
            store_and_look(self._address, self._report, self._agent.stores, began + int(self._deadline_s / 2 * 1e9))
        self.elapsed_ns = float(time.perf_counter_ns() - began)

    def _add(self) -> None:
        add = atomic_fetch_add()
        assert add is not None, "the machine checks this capability before a round"
        for _ in repeat(None, self._agent.adds):
            add(self._address, 1, _SEQUENTIALLY_CONSISTENT)


def store_and_look(
    address: int, report: int, stores: Stores, ends_ns: int, clock: Callable[[], int] = time.perf_counter_ns
) -> None:
    """Stores to the word at `address` until `ends_ns` of `clock` at the latest; then fills the REPORT at `report`."""
    word = _words(address, 1)
    made = undone = 0
    now = clock()
    while made < stores.most and now < ends_ns:
        made += 1
        word[0] = made
        until = clock() + stores.watched_ns
        while word[0] == made and now < until:
            now = clock()
        undone += word[0] != made
    words = _words(report, REPORT.itemsize // 4)
    words[2], words[1] = undone, made
    words[0] = 1  # behind the others: x86 and the memory view keep stores in order


def _words(address: int, count: int) -> memoryview:
    """As they lie there: an item is loaded or stored by one instruction."""
    return memoryview((ctypes.c_uint32 * count).from_address(address)).cast("B").cast("I")
