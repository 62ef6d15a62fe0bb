"""Sequence numbers on the host wrap as they do in kernels."""

import pytest

from pcietool.protocol.slots import ahead


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [(5, 3, 2), (3, 5, -2), (0, 2**32 - 1, 1), (2**32 - 1, 0, -1), (2**31, 2**31 - 1, 1), (2**31, 0, -(2**31))],
)
def test_the_difference_is_that_of_signed_numbers(one: int, other: int, difference: int) -> None:
    assert ahead(one, other) == difference
