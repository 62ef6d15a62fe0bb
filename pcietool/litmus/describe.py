"""An exploration in words: outcomes as "P1:r0=1 x=2", an execution as one line a step. Builds text, prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pcietool.litmus.explore import Exploration
from pcietool.litmus.model.requests import Access, Barrier, Load, Request
from pcietool.litmus.model.search import Outcome
from pcietool.litmus.model.state import INITIAL, TIME, State, Step
from pcietool.litmus.model.steps import Model


def outcome_text(found: Exploration, outcome: Outcome) -> str:
    return " ".join(f"{item.name}={value}" for item, value in zip(found.test.question.items, outcome, strict=True))


def interleaving(model: Model, steps: Sequence[Step]) -> list[str]:
    """One line a step, such as "P1: ld.acquire.sys r0, y -> 1 (stored by P0)". Accesses that nobody
    else can notice are left out."""
    return list(_lines(model, steps))


def _lines(model: Model, steps: Sequence[Step]) -> Iterator[str]:
    state = model.start()
    for step in steps:
        if step.thread == TIME:
            yield "nobody can go on: time passes until the deadline"
        else:
            request = state.threads[step.thread].at.request
            assert request is not None
            if request.private and isinstance(request, Access):
                state = step.state
                continue
            notes = [*_read(model, state, step), *_written(model, step), *_barrier(request, step)]
            yield " ".join([f"{model.threads.label(step.thread)}: {request.text}", *notes])
        state = step.state
    for index, thread in enumerate(state.threads):
        if thread.waits:
            yield f"{model.threads.label(index)}: waits for ever"
        elif isinstance(thread.at.request, Load):
            value = model.value_of(state.orders[thread.at.request.location][-1])
            yield f"{model.threads.label(index)}: looks for ever: {thread.at.request.text} -> {value}"


def _read(model: Model, before: State, step: Step) -> Iterator[str]:
    if step.read is None:
        return
    message = model.messages[step.read]
    origin = "initial value" if message.writer == INITIAL else f"stored by {model.threads.label(message.writer)}"
    location = next(n for n, order in enumerate(before.orders) if step.read in order)
    stale = ", though a later store exists" if before.orders[location][-1] != step.read else ""
    yield f"-> {message.value} ({origin}{stale})"


def _written(model: Model, step: Step) -> Iterator[str]:
    """Where a write came to stand, if not last."""
    if step.wrote is None:
        return
    order = next(order for order in step.state.orders if step.wrote in order)
    after = order[order.index(step.wrote) + 1 :]
    if after:
        message = model.messages[after[0]]
        yield f"(ordered before the {message.value} of {model.threads.label(message.writer)})"


def _barrier(request: Request, step: Step) -> Iterator[str]:
    if isinstance(request, Barrier):
        yield "(waits)" if step.state.threads[step.thread].waits else "(goes on)"
