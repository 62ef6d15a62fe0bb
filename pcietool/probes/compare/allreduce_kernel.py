"""The inline-flag all-reduce on one world and one size: how it is compiled and launched, and whether sums are right.

The host's mirror of kernels/allreduce.cu; must not decide what to measure (`compare` does).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pcietool.errors import UsageError
from pcietool.machines.base import Launch
from pcietool.probes.common.memory import Memory
from pcietool.probes.common.structs import struct_of
from pcietool.probes.common.world import World
from pcietool.protocol.payload import NODE_SHIFT, first_wrong, input_elements, output_stride, payload

Dtype = Literal["float32", "uint32"]
Control = Literal["sound", "torn", "corrupt"]
DTYPES: dict[Dtype, int] = {"float32": 0, "uint32": 1}
"""The values of DTYPE in kernels/allreduce.cu."""
CONTROLS: dict[Control, int] = {"sound": 0, "torn": 1, "corrupt": 2}
"""The values of CONTROL in kernels/allreduce.cu."""
ELEMENT_BYTES = 4
WORD_BYTES = 8
BANKS = 2
MAX_RANKS = 64
"""With more, sums of payloads would no longer be exact as floats."""
MAX_THREADS = 1024
MAX_BLOCKS = 64
ELEMENTS_OF_ONE_BLOCK = 2048
"""Up to here one block carries all: its launch is cheaper than a cooperative one."""
FAULT = np.dtype(
    [(name, "<u4") for name in ("count", "sequence", "element", "got", "expected")] + [("reserved", "<u4", 3)]
)
RANKS = np.dtype([("inboxes", "<u8"), ("base", "<u8"), ("first_rank", "<u4"), ("elements", "<u4")])
"""Fault and Ranks of kernels/allreduce.cu."""


def shape(elements: int) -> tuple[int, int]:
    """(blocks of a rank, threads of a block): whole warps, one element a thread while that is possible."""
    blocks = 1 if elements <= ELEMENTS_OF_ONE_BLOCK else min(-(-elements // ELEMENTS_OF_ONE_BLOCK), MAX_BLOCKS)
    a_block = -(-elements // blocks)
    return blocks, min(-(-a_block // 32) * 32, MAX_THREADS)


class AllReduce:
    """All-reduces of `nbytes` (a multiple of 4). The inboxes are its own, since its sequences count in them; `nodes`
    inputs and outputs a rank serve launches of one all-reduce each."""

    def __init__(
        self, world: World, nbytes: int, nodes: int = 1, *, dtype: Dtype = "float32", control: Control = "sound"
    ) -> None:
        if world.size > MAX_RANKS:
            raise UsageError(
                f"{world.size} ranks: sums of more than {MAX_RANKS} are not exact; use --num-gpus {MAX_RANKS}"
            )
        self.world = world
        self.elements = nbytes // ELEMENT_BYTES
        self.nodes = nodes
        self.blocks, self.threads = shape(self.elements)
        self._dtype = np.dtype(dtype)
        defines = {"WORLD": world.size, "DTYPE": DTYPES[dtype], "CONTROL": CONTROLS[control], "BLOCKS": self.blocks}
        program = world.machine.load("allreduce.cu", defines)
        self._rounds, self._once = program.kernel("allreduce_rounds"), program.kernel("allreduce_once")
        ranks = world.size
        inbox_bytes = BANKS * ranks * self.elements * WORD_BYTES
        self._memory = memory = Memory(world)
        inboxes = [memory.reachable(rank, inbox_bytes, "inbox") for rank in range(ranks)]
        self._tables = memory.per_device(8 * ranks * ranks, "inbox tables")
        for rank, device in enumerate(world.device_of):
            in_turn = [inboxes[(rank + step) % ranks].address for step in range(ranks)]
            self._tables[device].write(np.array(in_turn, np.uint64), self._position(rank) * 8 * ranks)
        self._sequences = memory.per_device(4 * ranks * self.blocks, "all-reduce sequences")
        self._spans = memory.per_device(8 * ranks * self.blocks, "all-reduce time spans")
        self._faults = memory.per_device(FAULT.itemsize * ranks, "all-reduce faults")
        self._input_elements = input_elements(self.elements, nodes)
        self._inputs = memory.per_device(ranks * self._input_elements * ELEMENT_BYTES, "all-reduce inputs")
        self._output_stride = output_stride(self.elements)
        output_bytes = nodes * self._output_stride * ELEMENT_BYTES
        self._outputs = memory.per_device(ranks * output_bytes, "all-reduce outputs")

    def rounds(self, rounds: int) -> list[Launch]:
        """One grid a device, `rounds` all-reduces each, every sum checked on the device."""
        return self.world.launches(
            self._rounds,
            self.blocks,
            self.threads,
            lambda *grid: (self._ranks(*grid), rounds, self._spans[grid[0]], self._faults[grid[0]]),
        )

    def once(self) -> list[Launch]:
        """One grid a device and node, one all-reduce each, from input `node` to output `node`."""
        return [launch for node in range(self.nodes) for launch in self._node(node)]

    def _node(self, node: int) -> list[Launch]:
        input_offset, output_offset = (ELEMENT_BYTES * node * step for step in (NODE_SHIFT, self._output_stride))
        return self.world.launches(
            self._once,
            self.blocks,
            self.threads,
            lambda *grid: (
                self._ranks(*grid),
                self._inputs[grid[0]].address + input_offset,
                self._input_elements,
                self._outputs[grid[0]].address + output_offset,
                self.nodes * self._output_stride,
            ),
            overlaps=True,
        )

    def _ranks(self, device: int, first_rank: int) -> np.ndarray:
        inboxes, base = self._tables[device], self._sequences[device]
        return struct_of(RANKS, inboxes=inboxes, base=base, first_rank=first_rank, elements=self.elements)

    def write_inputs(self, iteration: int) -> None:
        """A new payload for every rank, of which each node takes another part; outputs are wiped."""
        for rank, device in enumerate(self.world.device_of):
            values = payload(iteration, rank, self._input_elements).astype(self._dtype)
            self._inputs[device].write(values, self._position(rank) * values.nbytes)
        for outputs in self._outputs.values():
            outputs.fill(0xFF)

    def wrong_outputs(self, iteration: int) -> str | None:
        """The first output that is not the sum of the inputs of `iteration`, or None."""
        count = self.nodes * self._output_stride
        for rank, device in enumerate(self.world.device_of):
            got = self._outputs[device].read(self._dtype, count, self._position(rank) * count * ELEMENT_BYTES)
            wrong = first_wrong(got, self.elements, iteration, self.world.size)
            if wrong:
                return f"rank {rank}, {wrong}"
        return None

    def wrong_sums(self) -> str | None:
        """What the kernels of `rounds` found since the last call: how many sums were wrong and the first, or None."""
        text = None
        for rank, device in enumerate(self.world.device_of):
            fault = self._faults[device].read(FAULT, 1, FAULT.itemsize * rank)[0]
            if fault["count"] and text is None:
                got, expected = (fault[key].tobytes() for key in ("got", "expected"))
                text = (
                    f"rank {rank}: {fault['count']} sums are wrong, the first is element {fault['element']} of sequence"
                    f" {fault['sequence']}: got {np.frombuffer(got, self._dtype)[0]:g}, expected"
                    f" {np.frombuffer(expected, self._dtype)[0]:g}"
                )
        for faults in self._faults.values():
            faults.fill(0)
        return text

    def span_ns(self) -> float:
        """How long all rounds of the last `rounds` took, the slowest block; globaltimer."""
        count = self.blocks
        spans = [
            self._spans[device].read(np.uint64, count, 8 * count * rank)
            for rank, device in enumerate(self.world.device_of)
        ]
        return float(np.max(spans))

    def free(self) -> None:
        self._memory.free()

    def _position(self, rank: int) -> int:
        """Of this rank among those on its device."""
        return rank if self.world.transport == "self" else 0
