"""The shared memory of blocks, as random order watches it: each an allocation with an address of its own.

Must not decide what is ordered.
"""

from __future__ import annotations

from pcietool.emulator.engine.threads import Block
from pcietool.emulator.memory import OFFSET_MASK, Place, Segment
from pcietool.emulator.ops import Op
from pcietool.errors import EmulationError

FIRST_NUMBER = 1 << 28
"""More allocations than a machine ever has."""


def is_shared(segment: Segment) -> bool:
    return segment.number >= FIRST_NUMBER


class SharedMemory:
    """By block, as far as it was used since the round began."""

    def __init__(self) -> None:
        self.segments: dict[Block, Segment] = {}
        self.blocks: list[Block] = []

    def clear(self) -> None:
        self.segments.clear()
        self.blocks.clear()

    def segment(self, block: Block) -> Segment:
        segment = self.segments.get(block)
        if segment is None:
            segment = Segment(FIRST_NUMBER + len(self.blocks), block.device.index, 0, "shared memory")
            segment.nbytes, segment.views = len(block.shared[1]), block.shared
            assert isinstance(block.shared[1].obj, bytearray)
            segment.raw = block.shared[1].obj
            self.segments[block] = segment
            self.blocks.append(block)
        return segment

    def find(self, block: Block, op: Op, address: int) -> Place:
        """Where an access goes. Raises EmulationError for one that is misaligned or out of bounds."""
        block, offset = block.at(address)
        segment = self.segment(block)
        if offset % op.bytes:
            raise EmulationError(f"misaligned {op.bytes} byte access to shared memory at offset {offset}")
        if offset + op.bytes > segment.nbytes:
            raise EmulationError(f"{op.bytes} byte access at offset {offset} of {segment.nbytes} bytes shared memory")
        return segment, offset

    def describe(self, address: int) -> str | None:
        """An address as a person reads it, if it is one of these."""
        number = (address >> 32) - FIRST_NUMBER
        if number < 0:
            return None
        block, offset = self.blocks[number], address & OFFSET_MASK
        variables = [v for v in block.lowered.function.variables.values() if v.space == "shared" and v.offset <= offset]
        variable = max(variables, key=lambda v: v.offset, default=None)
        what = f"'{variable.name}'+{offset - variable.offset}" if variable else f"offset {offset}"
        return f"{what} in shared memory of GPU {block.device.index} block {block.index}"
