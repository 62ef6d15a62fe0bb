"""Copies and stores of one stream in virtual time: a copy occupies its link, and what follows waits until it is there.

Must not know launches; those that poll what is stored here see it when it lands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pcietool.emulator.engine.engine import Engine
from pcietool.machines.base import WORD_BYTES, Buffer, StreamCopy, StreamWrite


@dataclass
class Span:
    """Virtual time, ns: of the first step's start, and of when the last one so far has arrived."""

    started_ns: float
    ended_ns: float


def start_copies(
    engine: Engine, gpu: int, steps: Sequence[StreamCopy | StreamWrite], start: float, gap_ns: float
) -> Span:
    """Schedules the steps of one stream of the fabric's GPU `gpu`, the first at `start`. Each copy but the first begins
    `gap_ns` after what came before it; a store is posted right behind it. The span is complete when the engine has
    run."""
    span = Span(start, start)
    left = iter(steps)
    name = f"copy stream of GPU {gpu}"

    def next_step(is_first: bool, _: Any = None) -> None:
        step = next(left, None)
        if isinstance(step, StreamCopy):
            engine.at(engine.now + (0 if is_first else gap_ns), copy, step)
        elif step is not None:
            landed = _arrival(engine, gpu, _home(engine, step.word), WORD_BYTES, coalesced=False)
            span.ended_ns = max(span.ended_ns, landed)
            engine.at(landed, store, step)
            engine.at(engine.now, next_step, False)

    def copy(step: StreamCopy, _: Any) -> None:
        arrived = engine.now
        src, dst = _home(engine, step.src), _home(engine, step.dst)
        if src != dst:
            arrived = _arrival(engine, src, dst, step.nbytes, coalesced=True)
        engine.at(arrived, land, step)

    def land(step: StreamCopy, _: Any) -> None:
        stamp = engine.order.outside(name, gpu, strong=False)
        engine.deliver(_home(engine, step.src), step.dst.address, step.src.read(count=step.nbytes).tobytes(), stamp)
        span.ended_ns = max(span.ended_ns, engine.now)
        next_step(False)

    def store(step: StreamWrite, _: Any) -> None:
        stamp = engine.order.outside(name, gpu, strong=True)
        engine.deliver(gpu, step.word.address, step.value.to_bytes(WORD_BYTES, "little"), stamp)

    engine.at(start, next_step, True)
    return span


def _home(engine: Engine, buffer: Buffer) -> int:
    """The fabric's GPU whose memory it is, or HOST."""
    return engine.memory.find(buffer.address, 1)[0].device


def _arrival(engine: Engine, src: int, dst: int, nbytes: int, *, coalesced: bool) -> float:
    """When a write that is posted now lands; at once inside one place."""
    if src == dst:
        return engine.now
    return engine.fabric.routes[src, dst].write(engine.now, nbytes, coalesced=coalesced)
