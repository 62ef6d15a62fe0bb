"""An exploration in words: outcomes as "P1:r0=1 x=2", an execution as one line a step. Builds text, prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from pcietool.litmus.explore import Exploration
from pcietool.litmus.model.requests import Access, Barrier, Load, Pause, Request, Rmw
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
            notes = [*_read(model, state, step), *_written(model, request, step), *_barrier(request, step)]
            yield " ".join([f"{model.threads.label(step.thread)}: {request.text}", *notes])
        state = step.state
    yield from stuck(model, state)


def stuck(model: Model, state: State) -> list[str]:
    """One line for each thread that has not ended, such as "P1: looks for ever: ld.relaxed.sys r0, x -> 0"."""
    return [
        f"{model.threads.label(index)}: {_stuck(model, state, index)}"
        for index, thread in enumerate(state.threads)
        if thread.at.request is not None
    ]


def _stuck(model: Model, state: State, index: int) -> str:
    """What a thread does that never comes to its end."""
    thread = state.threads[index]
    request = thread.at.request
    if thread.waits:
        return "waits for ever"
    if isinstance(request, Load | Rmw):
        newest = tuple(state.orders[location][-1] for location in chain(*request.moments))
        verb = "looks" if isinstance(request, Load) else "tries"
        return f"{verb} for ever: {request.text} -> {_value(model, request, newest)}"
    if isinstance(request, Pause):
        return f"goes round for ever: {request.text}"
    assert request is not None
    return f"never comes to its end, and is at: {request.text}"


def _value(model: Model, access: Access, messages: tuple[int, ...]) -> str:
    """As the program has it; the scalars of a vector in braces."""
    value = access.returned(tuple(map(model.accesses.value_in, messages, chain(*access.moments))))
    if not isinstance(value, tuple):
        return str(value)
    return str(value[0]) if len(value) == 1 else f"{{{', '.join(map(str, value))}}}"


def _read(model: Model, before: State, step: Step) -> Iterator[str]:
    if not step.read:
        return
    access = before.threads[step.thread].at.request
    assert isinstance(access, Access)
    locations = tuple(chain(*access.moments))
    origins = [
        _origin(model, before, location, message) for location, message in zip(locations, step.read, strict=True)
    ]
    said = origins[:1] if len(set(origins)) == 1 else origins
    noncoherent = "; ld.nc is ordered by nothing" if isinstance(access, Load) and not access.coherent else ""
    yield f"-> {_value(model, access, step.read)} ({', '.join(said)}{noncoherent})"


def _origin(model: Model, before: State, location: int, message: int) -> str:
    writer = model.accesses.messages[message].writer
    origin = "initial value" if writer == INITIAL else f"stored by {model.threads.label(writer)}"
    return origin + (", though a later store exists" if before.orders[location][-1] != message else "")


def _written(model: Model, request: Request, step: Step) -> Iterator[str]:
    """What is unusual about a write: it comes to stand before another, or an RMW's over one that it has not read."""
    for message in step.wrote:
        content = model.accesses.messages[message]
        location = content.locations[0]
        order = step.state.orders[location]
        place = order.index(message)
        if isinstance(request, Rmw):
            refused = request.modify(_old(model, content.locations, step.read)) is None
            over = order[place - 1]
            missed = f"over the {_said(model, over, location)}" if over != step.read[0] else ""
            what = "refused, and writes back what it read" if refused else "written" if missed else ""
            if what:
                yield f"({' '.join(filter(None, (what, missed)))})"
        if place + 1 < len(order):
            yield f"(ordered before the {_said(model, order[place + 1], location)})"


def _said(model: Model, message: int, location: int) -> str:
    """Such as "5 of P0"."""
    writer = model.accesses.messages[message].writer
    value = model.accesses.value_in(message, location)
    return f"initial {value}" if writer == INITIAL else f"{value} of {model.threads.label(writer)}"


def _old(model: Model, locations: tuple[int, ...], read: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(model.accesses.value_in, read, locations))


def _barrier(request: Request, step: Step) -> Iterator[str]:
    if isinstance(request, Barrier):
        yield "(waits)" if step.state.threads[step.thread].waits else "(goes on)"
