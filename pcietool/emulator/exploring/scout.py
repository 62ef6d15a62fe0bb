"""One walk through the threads before they are explored, one after the other, as far as each gets alone.

It finds most of the memory that they use, so that the search need not start again for each new piece of it. Only what a
real execution may do is done. Must not judge: what goes wrong here is found again by the search.
"""

from __future__ import annotations

from typing import Any

from pcietool.emulator.exploring.explored_threads import PtxThreads
from pcietool.emulator.exploring.replay import PtxState
from pcietool.emulator.ops import Code, Op
from pcietool.errors import EmulationError

MOST_STEPS = 2_000
"""Of one thread."""
GOES_ON = (Code.LOAD, Code.STORE, Code.RMW, Code.FENCE, Code.GRID)


def scout(threads: PtxThreads) -> None:
    written: dict[int, int] = {}
    threads.tolerant = True
    try:
        for thread in range(len(threads.threads)):
            _walk(threads, thread, written)
    finally:
        threads.tolerant = False


def _walk(threads: PtxThreads, thread: int, written: dict[int, int]) -> None:
    try:
        state = threads.begin(thread)
        seen: set[int] = set()
        while state.asked is not None and id(state) not in seen and len(seen) < MOST_STEPS:
            seen.add(id(state))
            if state.asked[0].code not in GOES_ON or state.waits_for_time:
                return
            state = threads.after(thread, state, _answer(threads, thread, state, written), late=False)
    except EmulationError:
        return


def _answer(threads: PtxThreads, thread: int, state: PtxState, written: dict[int, int]) -> Any:
    """What the request returns if nothing else happens; `written`: bytes by address."""
    assert state.asked is not None
    op: Op = state.asked[0]
    if op.code in (Code.FENCE, Code.GRID):
        return None
    place = threads.checked(thread, state.asked[1], op.bytes)
    before = [
        int.from_bytes((written.get(byte, threads.value_before(byte, 1)) for byte in range(at, at + op.size)), "little")
        for at in range(place, place + op.bytes, op.size)
    ]
    if op.code == Code.STORE:
        after = [state.asked[2]] if op.count == 1 else list(state.asked[2])
    elif op.code == Code.RMW:
        _, _, b, c = state.asked
        assert op.modify is not None
        after = before if op.kind == "cas" and before[0] != b else [op.modify(before[0], b, c)]
    else:
        return before[0] if op.count == 1 else tuple(before)
    raw = b"".join(value.to_bytes(op.size, "little") for value in after)
    written.update(enumerate(raw, place))
    return before[0] if op.code == Code.RMW else None
