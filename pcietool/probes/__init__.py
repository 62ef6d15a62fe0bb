"""One module a question. A probe is its config model and a function `run(machine, config, observer)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pcietool.probes.atomics import probe as atomics
from pcietool.probes.barrier import kernel as barrier_kernel
from pcietool.probes.barrier import probe as barrier
from pcietool.probes.compare import config as compare_config
from pcietool.probes.compare import probe as compare
from pcietool.probes.litmus import probe as litmus
from pcietool.probes.litmus import trials as litmus_trials
from pcietool.probes.signal import config as signal_config
from pcietool.probes.signal import probe as signal
from pcietool.probes.verify import config as verify_config
from pcietool.probes.verify import probe as verify
from pcietool.probes.watermark import config as watermark_config
from pcietool.probes.watermark import probe as watermark

PROBES: dict[str, tuple[Any, Callable[..., Any]]] = {
    barrier.NAME: (barrier_kernel.BarrierConfig, barrier.run),
    atomics.NAME: (atomics.AtomicsConfig, atomics.run),
    signal.NAME: (signal_config.SignalConfig, signal.run),
    watermark.NAME: (watermark_config.WatermarkConfig, watermark.run),
    verify.NAME: (verify_config.VerifyConfig, verify.run),
    compare.NAME: (compare_config.CompareConfig, compare.run),
    litmus.NAME: (litmus_trials.TrialsConfig, litmus_trials.run),
}
