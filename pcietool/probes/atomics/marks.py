"""Operations that do not add up: each one that is made leaves a mark of its own, and a mark that is missing was lost.

Mirrors how kernels/atomics.cu spreads them over words: 32 follow each other on one word, all requesters in turn, then
the next word is used. Must not touch a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MARKING = ("min", "max", "and", "or", "xor")
WORD_BITS = 32
LAP = 16
"""Operations of a thread in one launch: requesters that meet so often stay on the same words."""
FIRST_WORDS = 32
"""A round begins at one of them, by its sequence number: the greatest value is not always the same operation's."""


def words_of(operations: int) -> int:
    """How many words a round of so many operations, of all requesters, may touch."""
    return FIRST_WORDS + -(-operations // WORD_BITS)


def numbers(made: np.ndarray, operations: int, position: int, requesters: int, sequence: int) -> np.ndarray:
    """[threads, operations] of int64: what the kernel calls each operation of the requester at `position`, -1 for those
    that it did not make. `made`: [threads], how many each thread did."""
    threads = np.arange(made.size)[:, np.newaxis]
    turns = np.arange(operations)[np.newaxis, :]
    called = (turns * made.size + threads) * requesters + position + WORD_BITS * (sequence % FIRST_WORDS)
    return np.where(turns < made[:, np.newaxis], called, -1)


@dataclass(frozen=True)
class Marks:
    """What one of MARKING leaves. Values are upright: those of `and` and `min`, which start from all ones, inverted."""

    operation: str

    @property
    def start(self) -> int:
        """Byte that fills the words before a round."""
        return 0xFF if self._is_inverted else 0

    def upright(self, words: np.ndarray) -> np.ndarray:
        return np.invert(words) if self._is_inverted else words

    def wanted(self, called: np.ndarray, words: int) -> np.ndarray:
        """[words] of uint32: what the operations of these numbers leave if none is lost."""
        left = np.zeros(words, np.uint32)
        join = np.maximum if self._one_survives else np.bitwise_or
        join.at(left, called // WORD_BITS, self._values(called))
        return left

    def compare(self, wanted: np.ndarray, seen: np.ndarray) -> tuple[int, int]:
        """(marks that must be there, marks that are): bits, or words whose greatest value arrived. What is there and
        must not be counts as one more."""
        if self._one_survives:
            arrived = np.count_nonzero((wanted > 0) & (seen >= wanted)) + np.count_nonzero(seen > wanted)
            return int(np.count_nonzero(wanted)), int(arrived)
        return _bits(wanted), _bits(seen)

    def repeated(self, called: np.ndarray, old_values: np.ndarray) -> int:
        """How often an operation that changed its word was returned what another one that changed it was."""
        value, old = self._values(called), self.upright(old_values)
        changes = value > old if self._one_survives else value & old == 0
        found = (called[changes] // WORD_BITS) << WORD_BITS | old[changes].astype(np.int64)
        return int(found.size - np.unique(found).size)

    @property
    def _is_inverted(self) -> bool:
        return self.operation in ("and", "min")

    @property
    def _one_survives(self) -> bool:
        """Only the greatest value of a word shows afterwards."""
        return self.operation in ("min", "max")

    def _values(self, called: np.ndarray) -> np.ndarray:
        word, bit = np.divmod(called, WORD_BITS)
        values: np.ndarray = (bit + word) % WORD_BITS + 1 if self._one_survives else 1 << bit
        return values.astype(np.uint32)


def _bits(words: np.ndarray) -> int:
    return int(np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).sum())
