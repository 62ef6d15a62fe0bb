"""Chunk plans against naive loops, and the checksum against what it must find."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcietool.errors import UsageError
from pcietool.protocol.checksum import LANES, added_lanes, row_sums
from pcietool.protocol.chunks import ChunkPlan, best_piece, parse_counts

sizes = st.integers(1, 60)


def naive_pieces(plan: ChunkPlan) -> list[list[int]]:
    """Rows of each piece, by chunk: what the closed forms must agree with."""
    chunks: list[list[int]] = [[]]
    for row in range(plan.rows):
        if row and row % plan.chunk_rows == 0:
            chunks.append([])
        in_chunk = row % plan.chunk_rows
        if in_chunk % plan.piece_rows == 0:
            chunks[-1].append(0)
        chunks[-1][-1] += 1
    return chunks


@given(st.integers(0, 300), sizes, sizes)
def test_closed_forms_count_what_a_loop_counts(rows: int, chunk: int, piece: int) -> None:
    plan = ChunkPlan(rows, chunk, min(piece, chunk))
    naive = naive_pieces(plan)
    assert plan.chunks == len(naive)
    assert plan.pieces == sum(map(len, naive))
    for number, pieces in enumerate(naive):
        assert len(plan.rows_of(number)) == sum(pieces)
        assert all(plan.chunk_of(row) == number for row in plan.rows_of(number))
    assert plan.signals(3) == 3 * len(naive)


def test_a_stream_without_rows_still_has_a_signal() -> None:
    plan = ChunkPlan(0, 64, 8)
    assert (plan.chunks, plan.pieces, plan.signals(2), len(plan.rows_of(0))) == (1, 0, 2, 0)


@given(st.integers(1, 5000), st.integers(1, 600), st.integers(1, 600))
def test_a_piece_fits_its_chunk(rows: int, chunk: int, groups: int) -> None:
    assert 1 <= best_piece(rows, chunk, 14336, groups) <= chunk


def test_pieces_are_large_where_groups_are_few_and_leave_no_group_behind() -> None:
    few, many = (best_piece(8192, 8192, 14336, groups) for groups in (16, 528))
    assert few > many
    plan = ChunkPlan(8192, 8192, many)
    rounds = -(-plan.pieces // 528)
    assert rounds * many <= 1.15 * 8192 / 528


@pytest.mark.parametrize(
    ("text", "counts"), [("1,8,all", (1, 8, "all")), ("64", (64,)), (" 4, 4 ,4", (4,)), ("2147483647", (2**31 - 1,))]
)
def test_lists_are_read(text: str, counts: tuple[object, ...]) -> None:
    assert parse_counts("--sms", text) == counts


@pytest.mark.parametrize("text", ["", "0", "-1", "1,,2", "x", "1.5", "2147483648", "ALL", "³"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--chunks"):
        parse_counts("--chunks", text)


@given(st.integers(0, 63), st.integers(0, 63))
def test_words_that_changed_places_change_the_sum(first: int, second: int) -> None:
    words = np.random.default_rng(1).permutation(64).astype(np.uint32) << 26
    swapped = words.copy()
    swapped[[first, second]] = words[[second, first]]
    sums = row_sums(np.stack([words, swapped]))
    assert (sums[0] == sums[1]) == (first == second)
    assert words.sum(dtype=np.uint64) == swapped.sum(dtype=np.uint64)  # which a plain sum would not see


def test_lanes_add_up_to_the_row() -> None:
    words = np.random.default_rng(2).integers(0, 2**32, (300, 256), dtype=np.uint32)
    weighed = words.astype(np.uint64) * np.arange(1, 257, dtype=np.uint64)
    vectors = weighed.reshape(300, -1, LANES, 4)
    assert np.array_equal(added_lanes(vectors.sum(axis=(1, 3), dtype=np.uint64)), row_sums(words))
