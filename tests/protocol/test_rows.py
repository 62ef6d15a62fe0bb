"""What verify sends, and how it says what is wrong."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pcietool.protocol.rows import POISON, first_wrong_byte, payload, row_keys

SENT = payload(row_keys(3, 1, np.arange(5)), 8)


def test_no_word_of_a_row_or_a_column_is_there_twice() -> None:
    words = np.concatenate([payload(row_keys(4, source, np.arange(16)), 64).reshape(-1, 64) for source in range(4)])
    assert all(len(np.unique(row)) == row.size for row in words)
    assert all(len(np.unique(column)) == column.size for column in words.T)


def test_right_rows_are_right() -> None:
    assert first_wrong_byte(SENT, SENT.copy()) is None
    assert first_wrong_byte(SENT[:, :0], SENT[:, :0]) is None


@given(st.integers(0, 2), st.integers(0, 4), st.integers(0, 31), st.integers(1, 255))
def test_the_first_wrong_byte_is_named(iteration: int, row: int, byte: int, change: int) -> None:
    seen = SENT.copy()
    seen.view(np.uint8)[iteration, row, byte] ^= change
    wrong = first_wrong_byte(SENT, seen)
    assert wrong is not None
    assert (wrong.iteration, wrong.row, wrong.byte, wrong.wrong_bytes) == (iteration, row, byte, 1)
    assert wrong.expected ^ wrong.seen == change
    assert wrong.origin == "a mixture or a changed word"


def test_two_rows_that_changed_places_are_found_and_recognised() -> None:
    seen = SENT.copy()
    seen[1, [0, 4]] = seen[1, [4, 0]]
    wrong = first_wrong_byte(SENT, seen)
    assert wrong is not None
    assert (wrong.iteration, wrong.row, wrong.origin) == (1, 0, "row 4 of iteration 1")


def test_what_was_there_instead_is_recognised() -> None:
    origins = {}
    for name, row in (("old", SENT[0, 2]), ("poison", np.full(8, POISON)), ("part", [*SENT[1, 2, :4], *[POISON] * 4])):
        seen = SENT.copy()
        seen[1, 2] = row
        wrong = first_wrong_byte(SENT, seen)
        assert wrong is not None
        origins[name] = wrong.origin
    assert origins == {
        "old": "row 2 of iteration 0",
        "poison": "nothing had arrived",
        "part": "only a part had arrived",
    }
