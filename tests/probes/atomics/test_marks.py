"""Which lost operation the words show afterwards, for those operations that do not add up. Nothing is run."""

import numpy as np
import pytest

from pcietool.probes.atomics.marks import FIRST_WORDS, MARKING, Marks, numbers, words_of


def test_every_operation_has_a_number_of_its_own_and_requesters_take_turns() -> None:
    made = np.array([2, 2])
    first, second = (numbers(made, 2, position, 2, sequence=0) for position in (0, 1))
    assert first.tolist() == [[0, 4], [2, 6]]
    assert second.tolist() == [[1, 5], [3, 7]]
    assert numbers(np.array([2, 1]), 2, 0, 2, sequence=FIRST_WORDS + 1).tolist() == [[32, 36], [34, -1]]
    assert words_of(33) == FIRST_WORDS + 2


@pytest.mark.parametrize("operation", MARKING)
def test_nothing_lost_is_nothing_lost(operation: str) -> None:
    marks = Marks(operation)
    called = np.arange(80)
    wanted = marks.wanted(called, 4)
    assert marks.compare(wanted, wanted) == ((3, 3) if operation in ("min", "max") else (80, 80))
    untouched = np.frombuffer(bytes([marks.start]) * 16, np.uint32)
    assert marks.compare(wanted, marks.upright(untouched))[1] == 0


@pytest.mark.parametrize("operation", ["and", "or", "xor"])
def test_each_lost_bit_counts(operation: str) -> None:
    marks = Marks(operation)
    wanted = marks.wanted(np.array([0, 1, 31, 33]), 2)
    assert wanted.tolist() == [0x80000003, 2]
    assert marks.compare(wanted, np.array([0x80000002, 2], np.uint32)) == (4, 3)
    assert marks.compare(wanted, np.array([0x80000007, 2], np.uint32)) == (4, 5)  # nobody sets bit 2


@pytest.mark.parametrize("operation", ["min", "max"])
def test_only_the_greatest_value_of_a_word_shows(operation: str) -> None:
    """It is another bit's in each word: 32 at bit 31 of the first, and at bit 30 of the second."""
    marks = Marks(operation)
    wanted = marks.wanted(np.array([0, 31, 62, 63]), 3)
    assert wanted.tolist() == [32, 32, 0]
    assert marks.wanted(np.array([62]), 2).tolist() == [0, 32]
    assert marks.wanted(np.array([0, 1]), 1).tolist() == [2]
    assert marks.compare(wanted, np.array([31, 32, 0], np.uint32)) == (2, 1)
    assert marks.compare(wanted, np.array([32, 32, 1], np.uint32)) == (2, 3)
    assert marks.compare(wanted, np.array([33, 32, 0], np.uint32)) == (2, 3)


def test_old_values_that_two_were_returned_are_counted_by_word_and_only_of_those_that_changed_it() -> None:
    old = np.array([0, 0, 1, 0], np.uint32)
    assert Marks("or").repeated(np.array([0, 1, 2, 32]), old) == 1
    assert Marks("or").repeated(np.array([0, 1, 0, 32]), old) == 1  # the third found its bit set
    assert Marks("and").repeated(np.array([0, 1, 2, 32]), ~old) == 1
    assert Marks("max").repeated(np.array([0, 1, 2, 32]), np.array([0, 0, 9, 0], np.uint32)) == 1
    assert Marks("max").repeated(np.array([0, 1, 2]), np.array([9, 9, 9], np.uint32)) == 0
