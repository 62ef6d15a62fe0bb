"""Statistics of samples, as a result's rows carry them. numpy only; must not know probes, files or the terminal.

Percentiles are nearest-rank: every figure is a sample that was seen. Intervals are order statistics of the medians
of independent launches; rounds inside one launch are autocorrelated and say nothing about repeatability.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

MIN_SAMPLES_FOR_P99 = 100
MIN_REPEATS = 7
CONFIDENCE = 0.95


def max_over_ranks(samples: ArrayLike) -> np.ndarray:
    """[ranks, rounds] -> [rounds]: a round took as long as its slowest rank."""
    slowest: np.ndarray = np.asarray(samples).max(axis=0)
    return slowest


def percentile(ordered: np.ndarray, percent: float) -> float:
    """Nearest-rank percentile of samples in ascending order, shape [n], n >= 1."""
    rank = max(1, ceil(percent / 100 * len(ordered)))
    return float(ordered[rank - 1])


def summarise(samples: ArrayLike, key: str) -> dict[str, Any]:
    """n, min, p50, p95, p99, max and mean of samples of any shape, under keys that carry the unit of `key`.

    summarise(us, "period_us") -> {"period_us_n": ..., "period_us_p50": ..., ...}. Values that cannot be given are
    None, and `<key>_reason` says why.
    """
    ordered = np.sort(np.asarray(samples, dtype=float), axis=None)
    n = len(ordered)
    if n == 0:
        names = ("min", "p50", "p95", "p99", "max", "mean")
        return {f"{key}_n": 0, **{f"{key}_{name}": None for name in names}, f"{key}_reason": "no samples"}
    enough = n >= MIN_SAMPLES_FOR_P99
    summary: dict[str, Any] = {
        f"{key}_n": n,
        f"{key}_min": float(ordered[0]),
        f"{key}_p50": percentile(ordered, 50),
        f"{key}_p95": percentile(ordered, 95),
        f"{key}_p99": percentile(ordered, 99) if enough else None,
        f"{key}_max": float(ordered[-1]),
        f"{key}_mean": float(ordered.mean()),
    }
    if not enough:
        summary[f"{key}_reason"] = f"p99 needs {MIN_SAMPLES_FOR_P99} samples, there are {n}"
    return summary


@dataclass(frozen=True)
class Interval:
    """A median with an interval that holds the true one with probability `confidence`."""

    median: float
    low: float | None
    high: float | None
    confidence: float | None
    method: str | None
    """How it was found."""
    reason: str | None = None
    """Why there is no interval."""

    def row(self, key: str) -> dict[str, Any]:
        """Under keys that carry the unit of `key`, for a result's row."""
        return {
            f"{key}_median": self.median,
            f"{key}_median_low": self.low,
            f"{key}_median_high": self.high,
            f"{key}_median_confidence": self.confidence,
            f"{key}_median_method": self.method,
            f"{key}_median_reason": self.reason,
        }


def median_interval(repeats: ArrayLike) -> Interval:
    """The median of one figure from each independent launch, shape [n], n >= 1, and its interval.

    The narrowest pair of order statistics, the same number from each end, whose binomial coverage reaches 95 %.
    It assumes nothing about the distribution.
    """
    ordered = np.sort(np.asarray(repeats, dtype=float))
    n = len(ordered)
    median = float(np.median(ordered))
    if n < MIN_REPEATS:
        return Interval(median, None, None, None, None, f"no interval: {n} launches, {MIN_REPEATS} needed")
    skipped = max(k for k in range((n + 1) // 2) if k == 0 or _coverage(n, k) >= CONFIDENCE)
    return Interval(
        median,
        float(ordered[skipped]),
        float(ordered[n - 1 - skipped]),
        _coverage(n, skipped),
        f"order statistics {skipped + 1} and {n - skipped} of {n} launches",
    )


def paired_ratio(numerator: ArrayLike, denominator: ArrayLike) -> Interval:
    """The median ratio of interleaved (ABAB) pairs of launches, both of shape [n], with its interval."""
    return median_interval(np.asarray(numerator, dtype=float) / np.asarray(denominator, dtype=float))


def _coverage(n: int, skipped: int) -> float:
    """P(the median lies between order statistics skipped + 1 and n - skipped of n samples)."""
    outside = 2 * sum(comb(n, k) for k in range(skipped + 1))
    return 1 - outside / float(2**n)
