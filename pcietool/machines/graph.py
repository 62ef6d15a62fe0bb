"""Rounds that are prepared once and run again and again.

Must not know what they are made of.
"""

from __future__ import annotations

from collections.abc import Callable

from pcietool.contract.outcomes import Outcome

Runner = Callable[[float], Outcome]
"""Runs a round that is prepared, once or again, with a deadline in seconds."""


class Graph:
    """A round that was recorded once and can run again and again (a CUDA graph per device)."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def run(self, deadline_s: float) -> Outcome:
        """Runs it on all devices at once. The same arguments each time."""
        return self._run(deadline_s)
