"""One module a question. A probe is its config model and a function `run(machine, config, observer)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pcietool.probes import (
    atomics,
    barrier,
    barrier_kernel,
    compare,
    compare_config,
    litmus,
    litmus_trials,
    signal,
    signal_config,
    watermark,
    watermark_config,
)
from pcietool.probes.verify import config as verify_config
from pcietool.probes.verify import run as verify

PROBES: dict[str, tuple[Any, Callable[..., Any]]] = {
    barrier.NAME: (barrier_kernel.BarrierConfig, barrier.run),
    atomics.NAME: (atomics.AtomicsConfig, atomics.run),
    signal.NAME: (signal_config.SignalConfig, signal.run),
    watermark.NAME: (watermark_config.WatermarkConfig, watermark.run),
    verify.NAME: (verify_config.VerifyConfig, verify.run),
    compare.NAME: (compare_config.CompareConfig, compare.run),
    litmus.NAME: (litmus_trials.TrialsConfig, litmus_trials.run),
}
