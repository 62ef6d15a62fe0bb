"""Loads through the non-coherent path (ld.global.nc, which `const __restrict__` makes) in timing order: whether the
bytes were written since the launch of the reader began, which PTX forbids.

Must not change what is read, nor when.
"""

from __future__ import annotations

from pcietool.contract.outcomes import UnorderedAccess
from pcietool.emulator.memory import HOST, OFFSET_MASK, STREAM_SHIFT, Memory, Writer, shown
from pcietool.emulator.ops import Op

NON_COHERENT = "an ordinary load: without .nc, __ldg, or const __restrict__ on what is written during the launch"
MOST_LAUNCHES = 255
"""That one byte tells apart."""


class WrittenBytes:
    """Of one round: for each byte the launch, counted over all GPUs, that had begun last when it was written."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.launch = 0
        self.began: dict[tuple[int, int], int] = {}
        """By device and stream, and lane (`memory.LANE_SHIFT`), its present launch."""
        self.marks: dict[int, bytearray] = {}
        self.by: dict[int, tuple[Writer, Op | None]] = {}
        """Who wrote last, by the address of the write."""
        self.found: dict[tuple[Op, Op | None], UnorderedAccess] = {}

    def begin_grid(self, device: int, stream: int) -> None:
        if self.launch == MOST_LAUNCHES:
            self.marks.clear()
            self.began, self.launch = dict.fromkeys(self.began, 1), 0
        self.launch += 1
        self.began[device, stream] = self.launch

    def note(self, writer: Writer, op: Op | None, address: int, nbytes: int) -> None:
        segment = self.memory.segments[address >> 32]
        marks = self.marks.get(segment.number)
        if marks is None:
            marks = self.marks[segment.number] = bytearray(segment.nbytes)
        offset = address & OFFSET_MASK
        marks[offset : offset + nbytes] = bytes((self.launch,)) * nbytes
        self.by[address] = writer, op

    def check(self, reader: Writer, op: Op, address: int) -> None:
        marks, offset = self.marks.get(address >> 32), address & OFFSET_MASK
        if (
            not marks
            or max(marks[offset : offset + op.bytes], default=0) < self.began[reader[0], reader[1] >> STREAM_SHIFT]
        ):
            return
        written = (self.by[at] for at in range(address, address + op.bytes) if at in self.by)
        writer, by = next(written, (None, None))
        pair = op, by
        before = self.found.get(pair)
        self.found[pair] = UnorderedAccess(
            "read",
            *shown(reader),
            source=op.where(),
            address=self.memory.describe(address),
            by="somebody" if writer is None else _name(writer),
            by_source="during the launch" if by is None else by.where(),
            count=before.count + 1 if before else 1,
            mend=NON_COHERENT,
        )


def _name(writer: Writer) -> str:
    device, block, thread = shown(writer)
    if block < 0:
        return "the host" if device == HOST else f"the copy engine of GPU {device}"
    return f"GPU {device} block {block} thread {thread}"
