"""The checksum of one row: position counts, so that words which changed places are found as surely as changed words.

The host's mirror of `weighed` in kernels/watermark.cu. numpy only; must not know where rows come from.
"""

from __future__ import annotations

import numpy as np

LANES = 32
"""A warp reads a row; each of its lanes leaves a partial sum, which add up modulo 2^64."""
ROWS_AT_ONCE = 256


def row_sums(words: np.ndarray) -> np.ndarray:
    """[rows, words] of uint32 -> [rows] of uint64: the sum of each row's words, each times its number from 1.

    Two words that change places change the sum by (difference of values) x (distance), which is not 0.
    """
    weights = np.arange(1, words.shape[1] + 1, dtype=np.uint64)
    sums = np.empty(words.shape[0], np.uint64)
    for first in range(0, len(sums), ROWS_AT_ONCE):  # in 64 bits all rows would need twice the memory again
        sums[first : first + ROWS_AT_ONCE] = words[first : first + ROWS_AT_ONCE].astype(np.uint64) @ weights
    return sums


def added_lanes(partial: np.ndarray) -> np.ndarray:
    """[..., LANES] of uint64 -> [...]: whole rows."""
    whole: np.ndarray = partial.sum(axis=-1, dtype=np.uint64)
    return whole
