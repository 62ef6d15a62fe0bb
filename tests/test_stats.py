import numpy as np
import pytest

from pcietool.stats import max_over_ranks, median_interval, paired_ratio, summarise


def test_a_round_takes_as_long_as_its_slowest_rank() -> None:
    assert max_over_ranks([[1, 5, 2], [3, 4, 1]]).tolist() == [3, 5, 2]


def test_percentiles_are_samples_that_were_seen() -> None:
    summary = summarise(np.arange(1, 101)[::-1], "period_us")
    assert summary == {
        "period_us_n": 100,
        "period_us_min": 1.0,
        "period_us_p50": 50.0,
        "period_us_p95": 95.0,
        "period_us_p99": 99.0,
        "period_us_max": 100.0,
        "period_us_mean": 50.5,
    }


def test_p99_of_few_samples_is_not_given() -> None:
    summary = summarise(range(99), "us")
    assert summary["us_p99"] is None
    assert "99" in summary["us_reason"]
    assert summary["us_p95"] == 94.0


def test_no_samples_are_no_figures() -> None:
    summary = summarise([], "us")
    assert summary["us_n"] == 0
    assert summary["us_p50"] is None
    assert summary["us_reason"] == "no samples"


@pytest.mark.parametrize(("n", "low", "high"), [(7, 1, 7), (9, 2, 8), (15, 4, 12), (25, 8, 18)])
def test_median_interval_takes_the_tabulated_order_statistics(n: int, low: int, high: int) -> None:
    interval = median_interval(np.arange(1, n + 1))
    assert (interval.low, interval.high) == (low, high)
    assert interval.confidence is not None
    assert interval.confidence >= 0.95


def test_median_interval_holds_the_true_median_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    intervals = [median_interval(random.exponential(size=11)) for _ in range(2000)]
    held = np.mean([i.low <= np.log(2) <= i.high for i in intervals if i.low is not None and i.high is not None])
    assert held == pytest.approx(intervals[0].confidence, abs=0.02)


def test_too_few_launches_give_no_interval() -> None:
    row = median_interval([1.0, 2.0, 3.0]).row("us")
    assert row["us_median"] == 2.0
    assert row["us_median_low"] is None
    assert row["us_median_method"] is None
    assert "7 needed" in row["us_median_reason"]
    assert median_interval(range(7)).row("us")["us_median_reason"] is None


def test_a_drift_that_both_sides_share_leaves_the_ratio_alone() -> None:
    drift = np.linspace(1, 10, 9)
    ratio = paired_ratio(2 * drift, drift)
    assert (ratio.low, ratio.median, ratio.high) == (2.0, 2.0, 2.0)
    assert median_interval(2 * drift).high != median_interval(2 * drift).low
