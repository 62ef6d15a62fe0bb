import pytest

from pcietool import units
from pcietool.errors import UsageError


@pytest.mark.parametrize(
    ("text", "nbytes"), [("4096", 4096), ("64K", 65536), ("64KiB", 65536), ("1g", 2**30), (" 2 MB ", 2**21)]
)
def test_sizes_are_powers_of_1024(text: str, nbytes: int) -> None:
    assert units.parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5K", "12X"])
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        units.parse_size(text)


def test_sizes_read_back() -> None:
    assert units.size(1536) == "1.5 KiB"
    assert units.parse_size(units.size(65536)) == 65536


def test_times_keep_the_digits_that_mean_something() -> None:
    assert [units.micros(us) for us in (0.1823, 1.432, 28.64, 1250.4)] == ["0.182", "1.43", "28.6", "1,250"]


def test_a_small_loss_never_reads_as_none() -> None:
    assert units.percent(0) == "0.0 %"
    assert units.percent(1e-6) == "0.0001 %"
    assert units.percent(0.4712) == "47.1 %"


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("1000", 1000), ("64K", 65536), (" 2 m ", 2**21)])
def test_counts_are_read(text: str, number: int) -> None:
    assert units.parse_count(text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1KB", "many", "9" * 30, "٣"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a number"):
        units.parse_count(text)
