"""CPU threads that take part in a round: atomic increments through libatomic.

Must not call CUDA.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from functools import cache
from itertools import repeat

from pcietool.machines.base import HostAgent

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
    """One host agent: started and waiting before the round, let go by `go`."""

    def __init__(self, agent: HostAgent, go: threading.Event) -> None:
        self.elapsed_ns = 0.0
        self._address = agent.buffer.address + agent.offset
        self._adds = agent.adds
        self._go = go
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
        add = atomic_fetch_add()
        assert add is not None, "the machine checks this capability before a round"
        self._go.wait()
        if self._cancelled:
            return
        began = time.perf_counter_ns()
        for _ in repeat(None, self._adds):
            add(self._address, 1, _SEQUENTIALLY_CONSISTENT)
        self.elapsed_ns = float(time.perf_counter_ns() - began)
