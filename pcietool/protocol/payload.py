"""What ranks contribute to a checked all-reduce: small whole numbers that depend on iteration, rank and element.

The host's mirror of payload() in kernels/allreduce.cu. numpy only.
"""

from __future__ import annotations

import numpy as np

RANK_STEP = 257
LARGEST = 0xFFFF + 63 * RANK_STEP
"""Of 64 ranks, whose sums stay whole as 32-bit floats, in any order."""
NODE_SHIFT = 32
"""Elements (128 bytes) from the input of one all-reduce of a graph to the next: one buffer gives all of them different
inputs, without being as long as all of them together."""


def payload(iteration: int, rank: int, elements: int) -> np.ndarray:
    """What `rank` contributes to `iteration`; [elements] of uint32, 0..LARGEST."""
    mixed = np.arange(elements, dtype=np.uint32) * np.uint32(0xC2B2AE3D)  # wraps, as on the device
    mixed ^= np.uint32(iteration * 0x9E3779B1 & 0xFFFFFFFF)
    mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0x2C1B3C6D)
    return (mixed >> np.uint32(16)) + np.uint32(rank * RANK_STEP)


def expected_sum(iteration: int, world: int, elements: int) -> np.ndarray:
    """The sum over all ranks, [elements] of uint32."""
    total = payload(iteration, 0, elements)
    for rank in range(1, world):
        total += payload(iteration, rank, elements)
    return total


def input_elements(elements: int, nodes: int) -> int:
    """Of the buffer that holds the overlapping inputs of `nodes` all-reduces."""
    return elements + (nodes - 1) * NODE_SHIFT


def output_stride(elements: int) -> int:
    """Elements from one output to the next, each aligned like its input."""
    return -(-elements // NODE_SHIFT) * NODE_SHIFT


def first_wrong(outputs: np.ndarray, elements: int, iteration: int, world: int) -> str | None:
    """The first of `outputs` [nodes * output_stride] that is not the sum of the inputs of `iteration`, or None."""
    got = outputs.reshape(-1, output_stride(elements))[:, :elements]
    nodes = len(got)
    sums = expected_sum(iteration, world, input_elements(elements, nodes)).astype(outputs.dtype)
    for node in range(nodes):
        expected = sums[node * NODE_SHIFT :][:elements]
        wrong = np.flatnonzero(got[node] != expected)
        if wrong.size:
            at = int(wrong[0])
            return (
                f"all-reduce {node} of {nodes}: {wrong.size} of {elements} elements are wrong, the first is {at}: got"
                f" {got[node, at]:g}, expected {expected[at]:g}"
            )
    return None
