"""A consistent execution in words: each thread's instructions with where their reads get their values, and then the
order of the writes. Builds text, prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pcietool.litmus.axioms.decide import Execution
from pcietool.litmus.axioms.events import Event, Kind
from pcietool.litmus.layout import Layout
from pcietool.litmus.model.state import INITIAL
from pcietool.litmus.text.program import Copy, LitmusTest

HEADING = "by the axioms, since no order of steps shows it; each read names the store that it takes its value from"


def execution_text(test: LitmusTest, execution: Execution) -> list[str]:
    return [HEADING, *_Words(test, execution).lines()]


class _Words:
    def __init__(self, test: LitmusTest, execution: Execution) -> None:
        self._layout = Layout(test)
        self._events = execution.events
        self._sources = execution.candidate.sources
        self._values = execution.candidate.values
        self._coherence = execution.coherence

    def lines(self) -> Iterator[str]:
        shown = [event for event in self._events.all if event.thread != INITIAL and not self._is_silent(event)]
        for (thread, _, _), events in groupby(shown, key=lambda event: (event.thread, event.stage, event.instruction)):
            yield self._line(thread, list(events))
        for cell in range(len(self._layout.cells)):
            yield from self._order(cell)

    def _is_silent(self, event: Event) -> bool:
        """The second half of an RMW or a barrier, and a bulk copy's first half, whose second says it all."""
        if isinstance(event.instruction, Copy):
            return event.kind is Kind.READ
        return event.partner is not None or event.kind is Kind.GO_ON

    def _line(self, thread: int, events: Sequence[Event]) -> str:
        """Of one instruction; of a vector, all scalars."""
        first = events[0]
        assert first.instruction is not None
        text = f"P{thread}: {first.instruction.text}"
        if first.kind is Kind.READ:
            values = [self._values[event.name] for event in events]
            shown = str(values[0]) if len(values) == 1 else f"{{{', '.join(map(str, values))}}}"
            origins = [
                self._origin(self._sources[self._number(event), cell]) for event in events for cell in event.cells
            ]
            text += f" -> {shown} ({', '.join(dict.fromkeys(origins))})"
        if isinstance(first.instruction, Copy):
            written = ", ".join(
                str(self._written(self._number(event), cell)) for event in events for cell in event.cells
            )
            text += f" (copies {written})"
        return text

    def _number(self, event: Event) -> int:
        return self._events.number[event.name]

    def _origin(self, write: int) -> str:
        event = self._events.all[write]
        if event.thread == INITIAL:
            return "initial value"
        return f"{'copied' if isinstance(event.instruction, Copy) else 'stored'} by P{event.thread}"

    def _written(self, write: int, cell: int) -> int:
        event = self._events.all[write]
        assert event.term is not None
        return self._layout.split(event.cells, event.term.of(self._values))[event.cells.index(cell)]

    def _order(self, cell: int) -> Iterator[str]:
        """Of the writes to a cell, if there are several."""
        writes = [write for write in self._events.by_cell[cell] if self._events.all[write].thread != INITIAL]
        if len(writes) < 2:
            return
        after = {write: sum(self._coherence[write] >> other & 1 for other in writes) for write in writes}
        ordered = sorted(writes, key=lambda write: -after[write])
        total = all(after[write] == len(writes) - 1 - place for place, write in enumerate(ordered))
        texts = [f"{self._written(write, cell)} {self._origin(write)}" for write in ordered]
        joint = ", then " if total else ", "
        yield f"{self._layout.name(cell)}: {joint.join(texts)}{'' if total else ' (not all of them in an order)'}"
